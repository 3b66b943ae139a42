"""The stops of the tour, in the order of the material. Figures come from the record: see facts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stop:
    """One stop."""

    title: str
    at: str
    """Name of the place in the run (``inspector.tour.facts.places``) that the cursor goes to."""
    pane: str
    """The pane it speaks of."""
    says: str
    """Text, with the names of figures (``inspector.tour.facts.figures``) in braces."""
    press: str
    """The key to press."""
    shows: str
    """Effect of the key, in a few words."""
    example: str = "tour"
    """The recording that it is in, among ``sessions.examples``."""


STOPS: tuple[Stop, ...] = (
    Stop(
        "Tokens",
        "prompt",
        "transcript",
        "A model reads numbers, not text. Your {characters} characters became {own} tokens out of "
        "a vocabulary of {vocabulary}; the chat template put {template} more around them. Each "
        "token's first letter is underlined.",
        "t",
        "marks between the tokens",
    ),
    Stop(
        "Prefill",
        "prompt",
        "prefill",
        "Before the first word the whole prompt is read at once: {computed} tokens in {prefill} •, "
        "which is nearly all of the {ttft} ƒ until the first token (TTFT). • is measured, "
        "ƒ derived from what was.",
        "n",
        "the first token, at no pass of its own",
    ),
    Stop(
        "Decode",
        "first",
        "gauges",
        "From here each token is one forward pass over all {weights} • of weights, for one token: "
        "{itl} ƒ between tokens, {tps} ƒ, as it was measured when this run was recorded.",
        "n",
        "one more pass",
    ),
    Stop(
        "The KV cache",
        "middle",
        "kv",
        "Each position keeps its K and V: {formula} = {each} bytes, so {stored} positions hold "
        "{held} •. Without it this step would have read all {stored} tokens again.",
        "n",
        "one position more",
    ),
    Stop(
        "Prefix reuse",
        "prompt",
        "kv",
        "Another chat was read before this one. Both begin with the same {common} tokens, and "
        "whole blocks of {block} are kept: {cached} tokens came from the cache, {computed} were "
        "computed.",
        "z",
        "the whole pane; z again goes back",
    ),
    Stop(
        "The sampler's pipe",
        "open",
        "ladder",
        "The model gave {vocabulary} probabilities. {pipe}. A number u picks one of the rest. A "
        "cut row says which stage cut it.",
        "s",
        "try another temperature; s again drops it",
    ),
    Stop(
        "Spiked and open",
        "spiked",
        "shape",
        "Here the model is sure: {spiked_top} ƒ on one token, entropy {spiked_entropy} ƒ. At "
        "position {open_position} it is not: {open_top} at most, {open_entropy} ƒ. The same dials "
        "do nothing in one place and a lot in the other.",
        "x",
        "100 draws beside what was to be expected",
    ),
    Stop(
        "Why greedy loops",
        "loop",
        "transcript",
        "This branch always took the likeliest token. A text that repeats makes the repetition "
        "likelier: since position {loop_start} it goes round in {loop_length} tokens, and each "
        "now has {loop_prob} ƒ on average.",
        "h",
        "the branch before, which was sampled",
    ),
    Stop(
        "Forks",
        "fork",
        "tree",
        "At position {fork_position} another token was forced: a branch. Both share the K and V "
        "of all {fork_shared} positions before it; only a block that is partly filled is copied.",
        "h",
        "the branch before; l comes back",
    ),
    Stop(
        "Speculation",
        "round",
        "speculation",
        "{drafted} tokens were guessed by looking them up in the text, {accepted} of them were "
        "accepted: {per_pass} ƒ tokens a pass. The model checks a whole draft in one pass, and the "
        "text is what it would have written anyway.",
        "z",
        "the whole pane; z again goes back",
    ),
    Stop(
        "The bill",
        "end",
        "bill",
        "A prompt token took {prompt_each} ƒ, an output token {output_each} ƒ: {output_ratio} ƒ "
        "times as much, as a pass reads all {weights} • of weights for one of the latter and many "
        "of the former. That is why output costs more; the pane answers three more such questions.",
        "z",
        "the whole pane; z again goes back",
    ),
    Stop(
        "Columns",
        "parting",
        "tree",
        "Another recording: {columns} settings on one prompt, all with the same dice. They part at "
        "position {parting_position}, after {common} equal tokens: there {stage} left {a_left} in "
        "column {a} and {b_left} in column {b}. So it was the settings, not chance.",
        "V",
        "the columns; tab: why they part; q goes back",
        example="compare",
    ),
    Stop(
        "One pass for all",
        "passes",
        "batch",
        "All columns step together: {column_tokens} tokens in {column_passes} passes. A pass reads "
        "the weights once for all its rows: with {few} {few_each} ƒ a token, with {many} "
        "{many_each} ƒ. That is why servers batch.",
        "z",
        "the whole pane; z again goes back",
        example="compare",
    ),
)
