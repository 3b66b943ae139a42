"""Texts of the help page and the command palette beside the keys: sections, marks, synonyms."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Topic:
    """One section of the help."""

    title: str
    text: str
    names: str

    @property
    def ids(self) -> list[str]:
        """The ids of the keys that belong to it, in their order."""
        return self.names.split()


TOPICS = (
    Topic(
        "Stepping",
        "One press of **n** runs one forward pass of the model and shows what it did. **b** goes "
        "back: nothing is computed and nothing is lost. What is asked for while the model loads, "
        "or a pass runs, is done after it.",
        "step back continue pause step-ten step-round first last breakpoints reverse",
    ),
    Topic(
        "Looking",
        "Every pane shows the token at the cursor. A number gives a pane the focus, and room.",
        "pane-1 pane-2 pane-3 pane-4 pane-5 pane-6 pane-7 pane-8 pane-9 pane-10 pane-11 "
        "pane-12 pane-13 pane-next pane-before jump zoom layouts pane-wider pane-narrower "
        "pane-higher pane-lower "
        "step-out pane.up pane.down pane.page-up pane.page-down pane.top "
        "pane.bottom pane.choose transcript.boundaries kv.block-before kv.block-after "
        "drift compare-cache measure-ceilings time-modules roofline.part napkin",
    ),
    Topic(
        "Sampling",
        "The dials try other settings on the token at the cursor; the run itself does not change "
        "until they are applied. What is tried is marked WHAT IF and has a dashed border.",
        "dials dial-more dial-less dial-much-more dial-much-less apply apply-here "
        "dials.reset dials.insert dials.out dials.earlier dials.later stacks "
        "stacks.own-defaults stacks.own-sampler draw-100 draw-10000 "
        "ladder.next ladder.stages-left ladder.stages-right",
    ),
    Topic(
        "Branches",
        "Whatever is done differently makes a new branch; the old one stays. **enter** on a row of "
        "the ladder forces its token.",
        "fork redraw branch-before branch-after compare-branches branch-name "
        "branch-delete branch-undo prompt",
    ),
    Topic(
        "Comparing",
        "Columns of one run side by side, each with settings of its own: **n** steps all of them "
        "with one pass. **V** opens them on branches, on what the dials try, on the stacks, and "
        "so does llm-inspect compare.",
        "compare.add compare.remove compare.pause compare.alone compare.dice compare.align "
        "compare.against compare.before compare.after compare.text compare.column-1 "
        "compare.column-2 compare.column-3 compare.column-4 compare.column-5 compare.column-6 "
        "compare.column-7 compare.column-8 compare.interrupt compare.close",
    ),
    Topic(
        "Sessions",
        "A run is saved as it goes. **w** gives it a name, **o** lists what there is; the command "
        "line opens a session with llm-inspect replay NAME, without a model.",
        "save export copy sessions interrupted stream",
    ),
    Topic(
        "Program",
        "**q** and **escape** step out of whatever is on top; **q** on the bare screen quits. "
        "Every key can be changed by its id, under [keys] in the configuration file.",
        "help palette tour-next tour-before restart suspend quit",
    ),
)

MARKS = (
    ("•", "measured"),
    ("ƒ", "derived from measured or exact figures, by a formula"),
    ("~", "estimated"),
    ("—", "cannot be known, or not yet; the reason stands beside it where there is room"),
    ("●", "the token that was drawn"),
    ("○", "the token that the same dice would draw with what is tried"),
    ("✂", "cut by a stage of the sampler"),
    ("✓ ✗", "a draft of a speculative round that was accepted (in the text: italic), or rejected"),
    ("↻ +", "the model's own token: where a draft was rejected, or behind drafts all accepted"),
    ("≠", "other settings than the token before had"),
    ("▲ ▼", "more or less likely than in the record"),
    ("◆ + ½ ∅", "special, added, single-byte and unused tokens of the vocabulary"),
)
"""Signs on the screen, and their meaning."""

PANES = {
    "transcript": "The text, token by token, shaded by surprisal. A click goes to a token.",
    "tokens": "The prompt and the output as the tokenizer cut them, with id, bytes and kind.",
    "prefill": "How the prompt was read: chunks, layers, and how much came from the cache.",
    "gauges": "Speed and memory of this run against what this machine can do at best.",
}
"""Texts of the panes that say nothing longer themselves."""

MOVES = frozenset(["step", "back", "first", "last", "step-out", "pane-next", "pane-before"])
"""Keys that only move: in the palette they stand last, and so do those of a pane."""

SYNONYMS = {
    "step": "next token advance forward one",
    "back": "previous undo step return",
    "continue": "run go play resume generate",
    "pause": "stop halt interrupt",
    "first": "start beginning prompt top",
    "last": "end tip newest",
    "redraw": "seed reroll sample again retry regenerate dice",
    "fork": "seed force token temperature branch split what if",
    "breakpoints": "watch condition stop when break",
    "dials": "temperature top-k top_k top-p top_p min-p min_p penalty repetition sampler settings",
    "apply": "temperature settings commit keep",
    "stacks": "presets compare llama.cpp vllm transformers sglang samplers",
    "draw-100": "histogram sample distribution many",
    "branch-undo": "undo restore revert bring back",
    "branch-delete": "remove drop prune",
    "branch-name": "rename label bookmark mark",
    "branch-after": "switch sibling other",
    "compare-branches": "diff difference versus branches columns side by side",
    "prompt": "new run edit text message chat system input",
    "save": "write keep name store file",
    "export": "copy html markdown csv json svg picture screenshot share report",
    "copy": "clipboard yank text paste",
    "sessions": "open load recent history files browse recover",
    "interrupted": "crash recover restore unsaved",
    "drift": "exact precision float error numerics",
    "compare-cache": "kv speed quadratic without",
    "time-modules": "profile layers attention mlp norm head where time",
    "measure-ceilings": "bench bandwidth flops hardware mbu roofline",
    "napkin": "estimate gpu memory bandwidth batch datasheet what if h100 model size",
    "zoom": "maximize fullscreen full",
    "layouts": "arrange desk window resize order hide choose sampling memory teaching",
    "jump": "focus go switch pane",
    "restart": "reload engine kill hang",
    "help": "keys shortcuts manual ?",
    "quit": "exit close leave",
}
"""By a key's id: what people type who look for it, beside its name and description."""
