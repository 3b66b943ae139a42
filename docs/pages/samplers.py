"""The sampler reference, ``docs/samplers.md``, written from the registry.

    python -m docs.pages.samplers > docs/samplers.md

A test compares the page with what this prints, so it cannot fall behind.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any

import numpy as np

from engine.sampling.ladder import Chain, Ladder
from engine.sampling.loops import MIN_REPEATS, MIN_TOKENS
from engine.sampling.presets import PRESETS
from engine.sampling.settings import effective
from engine.sampling.shape import NEAR_FORCED_FROM, OPEN_FROM, TAIL_AFTER
from engine.sampling.spec import build
from engine.sampling.stages import (
    STAGES,
    Dial,
    Processor,
    Role,
    StageContext,
    default_of,
    lists,
    spelled,
)

_BLOCKS = " ▏▎▍▌▋▊▉█"
_BAR = 12

_EXAMPLES = (
    ((0.4, 0.3, 0.2, 0.1), {"top_k": 2, "top_p": 0.5}),
    ((0.25, 0.25, 0.25, 0.25), {"top_k": 2, "top_p": 1.0}),
    ((0.25, 0.25, 0.25, 0.25), {"top_k": 0, "top_p": 0.5}),
    ((0.5, 0.3, 0.2), {"top_k": 0, "top_p": 0.8}),
    ((0.5, 0.3, 0.2), {"top_k": 0, "top_p": 0.7, "min_p": 0.5}),
    ((0.7, 0.2, 0.1), {"temperature": 2.0, "top_k": 0, "top_p": 0.65}),
)


def page() -> str:
    """The whole page, as Markdown."""
    parts = [_INTRODUCTION, _picture(), _writing(), "## Stages\n", *map(_stage, _order())]
    parts += [_processor(), _presets(), _differences(), _RECORDED, _FIGURES]
    return "\n".join(parts)


def _order() -> list[str]:
    """Every stage, in the teaching order."""
    return [name for name in PRESETS["guide"].order if name in STAGES]


# --- the picture -------------------------------------------------------------------------------


def _picture() -> str:
    """The ladder of one small distribution through the default chain, drawn with text."""
    probs = (0.42, 0.21, 0.13, 0.09, 0.06, 0.04, 0.03, 0.02)
    chain = effective("guide", {"temperature": 0.7, "top_k": 6, "top_p": 0.9}).chain
    ladder = chain.run(np.log(np.array(probs)), StageContext(seed=8, prompt_ids=(0,)))
    drawn = chain.choose(ladder, StageContext(seed=8, prompt_ids=(0,)))
    lines = ["## The ladder\n", "```", *_columns(chain, ladder, len(probs))]
    stretch = f"[{drawn.low:.3f}, {drawn.high:.3f})"
    lines += [f"u = {drawn.u:.3f} falls in {stretch}: token {drawn.token_id} is drawn", "```\n"]
    return "\n".join([*lines, _PICTURE])


def _columns(chain: Chain, ladder: Ladder, tokens: int) -> Iterator[str]:
    titles = ["model", *(one.label for one in chain.stages)]
    heads = [f"{tokens} tokens", *(_head(t.survivors, t.mass_removed) for t in ladder.traces)]
    width = _BAR + 8
    yield "token  " + "".join(f"{title:<{width}}" for title in titles).rstrip()
    yield "       " + "".join(f"{head:<{width}}" for head in heads).rstrip()
    for token in range(tokens):
        cells = []
        fate = int(ladder.cut_by[token])
        for column, prob in enumerate(ladder.probs(np.array([token]))[:, 0]):
            if 0 <= fate < column - 1:
                cells.append("")
            elif fate == column - 1 and fate >= 0:
                cells.append("cut")
            else:
                cells.append(f"{_bar(float(prob))} {prob:.3f}")
        yield f"{token:>5}  " + "".join(f"{cell:<{width}}" for cell in cells).rstrip()


def _head(survivors: float, removed: float) -> str:
    return f"{survivors} left, -{removed:.1%}" if removed else f"{survivors} left"


def _bar(prob: float) -> str:
    eighths = round(prob * _BAR * 8)
    full, part = divmod(eighths, 8)
    return ("█" * full + (_BLOCKS[part] if part else "")).ljust(_BAR)


# --- how to write a chain ----------------------------------------------------------------------


def _writing() -> str:
    syntax = inspect.cleandoc(lists.__doc__ or "").split("\n\n", 1)[1]
    return f"""## Writing a chain

`temperature=0.8 top_k=40 top_p=0.95` sets dials and keeps the order of the preset.
`top_k=40 > top_p=0.95 > temperature=0.8` gives the order too, and the chain holds these stages and
no others; `top_k=40 >` is a chain of one stage. Words are separated by spaces or commas. A value
with spaces, commas or `>` in it is quoted: `"..."` with JSON's escapes, `'...'` as it stands. A
stage with one dial lends it its name: `typical=0.9` is `typical_p=0.9`.

A dial that lists tokens, such as `logit_bias="318:-1, 'New York':+2.5"`:

{syntax.replace("``", "`")}
"""


# --- stages ------------------------------------------------------------------------------------


def _stage(name: str) -> str:
    cls = STAGES[name]
    runs = "" if cls.role is Role.SAMPLING else " Runs under greedy decoding too."
    lines = [f"### {name}\n", _wrapped(_prose(cls) + runs) + "\n"]
    lines += ["| dial | does | range | default | off |", "|---|---|---|---|---|"]
    lines += [_dial_row(cls, dial) for dial in cls.dials]
    rules = build((name,), {}, "guide").stages[0].rules
    if rules:
        lines.append("")
    lines += [_rule(name, rule, value) for rule, value in rules.items()]
    lines.append(f"\nSource: {cls.source}.\n")
    return "\n".join(lines)


def _dial_row(cls: type[Any], dial: Dial) -> str:
    unit = f" {dial.unit}" if dial.unit else ""
    off = "—" if dial.off is None else _code(dial.off)
    default = _code(default_of(cls, dial))
    return (
        f"| `{dial.name}` | {_cell(dial.summary)} | {dial.range_text}{unit} | {default} | {off} |"
    )


def _rule(stage: str, rule: str, standard: Any) -> str:
    """One rule: what most presets do, and who does otherwise."""
    others = [
        f"{name}: {_value(preset.rules[stage][rule])}"
        for name, preset in PRESETS.items()
        if rule in preset.rules.get(stage, {}) and preset.rules[stage][rule] != standard
    ]
    parted = f" ({'; '.join(others)})" if others else ""
    return _wrapped(f"- rule `{rule}`: {_value(standard)}{parted}", "  ")


def _processor() -> str:
    about = (
        f"{_prose(Processor)} Made in code (`Chain.with_stage`) or from `package.module:name`; "
        "it cannot be written in a specification, because it runs code."
    )
    return f"### processor\n\n{_wrapped(about)}\n\nSource: {Processor.source}.\n"


# --- stacks ------------------------------------------------------------------------------------


def _presets() -> str:
    lines = ["## Presets\n"]
    for preset in PRESETS.values():
        defaults = " ".join(f"{name}={spelled(value)}" for name, value in preset.defaults.items())
        lines += [
            f"### {preset.name}\n",
            _wrapped(f"{preset.title[0].upper()}{preset.title[1:]}: {preset.stack}.") + "\n",
            _wrapped(f"Order: {' → '.join(preset.order)}.") + "\n",
            f"Its own defaults: `{defaults}`.\n",
        ]
        for dial, order in preset.orders.items():
            lines.append(_wrapped(f"With `{dial}` on: {' → '.join(order)}.") + "\n")
        if preset.lacks:
            lines.append(f"Has no {_listed(preset.lacks)}.\n")
        reads = preset.from_config
        if reads is None:
            lines.append("Takes every dial that the model's generation_config.json sets.\n")
        elif reads:
            lines.append(f"From the model's generation_config.json: {_listed(reads)}.\n")
        else:
            lines.append("Does not read the model's generation_config.json.\n")
        greedy = (
            "leaves out every stage that only serves sampling"
            if preset.greedy_alone
            else "takes the most likely of what the other stages leave"
        )
        lines.append(f"temperature=0 {greedy}.\n")
        lines += [_wrapped(f"- {note}", "  ") for note in preset.notes]
        lines.append("")
    return "\n".join(lines)


def _differences() -> str:
    """The same dials on the same distribution, through every preset."""
    names = list(PRESETS)
    lines = [
        "## Where stacks differ\n",
        "Ids kept of the same probabilities with the same dials (temperature 1 unless given):\n",
        f"| probabilities | dials | {' | '.join(names)} |",
        f"|---|---|{'---|' * len(names)}",
    ]
    for probs, dials in _EXAMPLES:
        kept = [_kept(name, probs, dials) for name in names]
        given = " ".join(f"{dial}={spelled(value)}" for dial, value in dials.items())
        shown = " ".join(f"{prob:g}" for prob in probs)
        lines.append(f"| {shown} | `{given}` | {' | '.join(kept)} |")
    return "\n".join(lines) + "\n"


def _kept(preset: str, probs: tuple[float, ...], dials: dict[str, Any]) -> str:
    chain = effective(preset, {"temperature": 1.0, **dials}).chain
    ladder = chain.run(np.log(np.array(probs)), StageContext())
    return " ".join(map(str, ladder.final.ids.tolist()))


# --- words -------------------------------------------------------------------------------------


def _prose(cls: type[Any]) -> str:
    return " ".join(inspect.cleandoc(cls.__doc__ or "").replace("``", "`").split())


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(
        text, 99, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value.value) if isinstance(value, Enum) else spelled(value)


def _code(value: Any) -> str:
    return "nothing" if value == "" else f"`{spelled(value)}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


_INTRODUCTION = """# Samplers

<!-- Written by `python -m docs.pages.samplers`; do not edit. -->

Sampling is a chain of stages. Each takes the tokens that are still possible, with their logits,
and returns those that are left, with the same or other logits; then one is drawn. Logits are
float32, whatever the model computes in; probabilities and sums are float64, and are rounded to
float32 where a stage compares them with a border, as the stacks do.

A token that is cut stays in sight, with the stage that cut it. A stage that would leave nothing,
or no number, stops the run and is named.
"""

_PICTURE = """\
One column for the model and one for each stage. In the header of a stage: how many tokens are
left, and the share of its input that it cut. A cut token says in whose column it was cut; what
is left is scaled up to 1 again.
"""

_RECORDED = """## Held against the engines

The presets `llamacpp` and `vllm` are replayed, in the tests, against recordings of the engines
themselves on the default model: what they kept of five prompts' distributions, and with which
probabilities. llama.cpp's server (package xllamacpp 2026.10) with 44 settings, vLLM 0.32 (CPU) with
28. `bench/record_llamacpp.py` and `bench/record_vllm.py` say how to record them again. Kept sets
are equal but for tokens so near a border that the recording's rounding decides, and one answer of
vLLM that is not explained (both named in the test).
llama.cpp gives log-probabilities, not logits: the offset between the two, on which a repetition
penalty depends, is solved from what a penalty of 2 does to each seen token of a prompt (all agree
on it); other penalties are then compared. vLLM gives logits (`--logprobs-mode processed_logits`).
"""

_FIGURES = f"""## Figures

- *raw log-probability*: log-softmax of the model's own logits. *final probability*: after the last
  stage. A token that was drawn can have a small raw probability, but never a final one of 0.
- *mass removed*: the share of its own input that a stage cut.
- *worked out* (JSON: `derived`): the parameter that a stage really used where that follows from the
  distribution or the state: the temperature `T` of a dynamic one, mirostat's `mu` in bits (and
  version 1's `k`), the least probability that min-p and eta left, top-nσ's border in logits, the
  entropy that top-H allows, the distance from the entropy that typical allows, in nats; XTC's own
  `u`; and how many tokens beyond k were equal to the k-th (`40 + 2 equal`).
- *effective vocabulary*: exp(entropy), the number of equally likely tokens that would be as
  uncertain. *varentropy*: the variance of the surprisal.
- *near-forced*: the most likely token has probability {NEAR_FORCED_FROM:g} or more. *open*: an
  effective vocabulary of {OPEN_FROM:g} or more. *tail*: what lies behind the {TAIL_AFTER} most
  likely tokens.
- *draw*: u in [0, 1), from the seed, the position and nothing else (Philox), on the cumulative
  distribution from the most to the least likely token, lowest id first among equals. The same node
  always draws the same u. XTC has a number of its own.
- *flip distance*: how far u was from the token next to the drawn one.
- *loop*: the end of the text repeats one cycle {MIN_REPEATS} times or more, over {MIN_TOKENS}
  tokens or more.
"""


if __name__ == "__main__":
    print(page(), end="")
