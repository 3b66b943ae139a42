"""Writes docs/breakpoints.md from the table of names, so that the page cannot be wrong about them.

``python -m docs.pages.breakpoints > docs/breakpoints.md``
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.conditions.condition import EVALUATION_S
from engine.conditions.figures import NAME_GROUPS, Name
from engine.conditions.functions import FUNCTION_GROUPS, Function
from engine.conditions.grammar import MAX_LENGTH


def page() -> str:
    """The whole page, ending in a newline."""
    parts = [_INTRODUCTION, _WRITING]
    parts += ["## Names\n", _NAMES]
    parts += [_table(title, entries) for title, entries in NAME_GROUPS.items()]
    parts += ["## Functions\n", _FUNCTIONS]
    parts += [_table(title, entries) for title, entries in FUNCTION_GROUPS.items()]
    parts += [_PLACES, _UNTOLD]
    return "\n".join(parts)


def _table(title: str, entries: Sequence[Name | Function]) -> str:
    lines = [f"### {title[0].upper()}{title[1:]}\n"]
    lines += ["| name | unit | what it is |", "|---|---|---|"]
    for one in entries:
        name = one.signature if isinstance(one, Function) else one.name
        lines.append(f"| `{name}` | {one.unit} | {one.definition} |")
    return "\n".join(lines) + "\n"


_INTRODUCTION = """# Breakpoints, watches and assertions

<!-- Written by `python -m docs.pages.breakpoints`; do not edit. -->

A condition is an expression over the figures of one step. A *breakpoint* stops the run at the
first step where its condition holds, between two passes of the model: nothing more is computed.
(A pass of a speculative round brings several tokens: it stops at the one where it holds.) A
*watch* shows the value of an expression at every step. An *assertion* fails a run where its
condition does not hold.

```sh
llm-inspect "The capital of France is" --break 'entropy > 3' --watch 'prob(" Lyon")'
llm-inspect run "The capital of France is" --break 'token == " Paris"'
llm-inspect run "The capital of France is" --temperature 0 --assert 'rank == 1' --assert 'not loop'
```
"""

_WRITING = f"""## Writing a condition

| written | means |
|---|---|
| `rank > 5`, `3 < entropy <= 4`, `stop != ""` | compare; `==` for equal |
| `token == " Paris"`, `"Paris" in text` | texts are in quotes, with the space that begins a word |
| `token in (" a", " the")`, `rank not in (1, 2)` | one of several |
| `and`, `or`, `not`, `( )` | join |
| `+ - * / // % **` | arithmetic, on numbers |
| `a if condition else b` | choose |
| `text[-20:]` | a part of a text, counted in characters |
| `new_block`, `cut("top_p", " Lyon")` | a figure that is yes or no stands alone |

It is a small part of Python's expressions, and evaluated by
[simpleeval](https://github.com/danthedeckie/simpleeval), not by Python: no attributes, no
assignments, no other calls than those below, at most {MAX_LENGTH:,} characters. A condition is
checked before anything runs; an unknown name, function or stage suggests the nearest one. A number
stands for yes unless it is 0.
"""

_NAMES = """A bare name is a figure of the step, and of the token that was drawn there.
"""

_FUNCTIONS = """`token` is a token's text in quotes, or its id; where the same name stands without
brackets, it is the drawn token's figure. `stage` is the name of a stage of the chain, in quotes.
`value` is any expression.
"""

_PLACES = """## In the inspector

`B` opens the list: `a` adds a breakpoint, `w` a watch, `e` or enter changes what is selected,
space switches it on and off, `i` lets so many hits pass, `d` deletes it. While you type, the value
at the cursor is shown, and the names that begin like that. `c` runs to the next hit, over recorded
steps first; `R` runs back to the last step where a breakpoint strikes. Above the footer stand
watches and breakpoints: ◉ strikes at the cursor, ● is on, ○ is off, ? cannot be told; ×3 counts
hits. A hit is counted when a run reaches the step (`c`, `R`, `N`) or a new token is drawn there.

## Without a screen

`llm-inspect run` takes `--break` and `--assert` as often as you like. It ends with exit code 1 at
the first breakpoint that is hit or assertion that does not hold, and says which on standard error,
with the step and the figures in the condition. With `--format jsonl` the last line is
`{"type": "end", "reason": "breakpoint", "detail": ..., "breakpoint": 1, "node": ..., "step": ...,
"figures": {...}, "breakpoints": [...]}`; each item of `breakpoints` has `number`, `kind` (`break`
or `assert`), `condition`, `hits`, `told` (the steps at which it could be told) and `untold` (why
not, the first time). `breakpoints` is there whenever conditions were given.

In Python: `stepper.run(until='token == " Paris"')`, `stepper.evaluate("entropy")`; see
[python-api.md](python-api.md).
"""

_UNTOLD = f"""## What cannot be told

Some figures do not exist at some steps: `u` where nothing was drawn by chance, `survivors("top_p")`
in a chain without top-p, the rank of a token that was not recorded. A comparison that makes no
sense (`text > 3`) and a division by zero are of the same kind. A condition that comes to such a
figure *cannot be told*: it does not stop the run, and that is said once, with the reason. `and`
and `or` still decide where one side alone can: `u > 0.9 or rank > 5` stops at rank 6 under greedy
decoding. An assertion that could be told at no step of a run has not held: exit code 1.

An evaluation that takes longer than {EVALUATION_S} s of processor time switches its condition off,
whether it was given on the command line or came with a saved session, and that is said too; an
assertion that was switched off has not held either.

Every step records its 64 leading candidates, the drawn token, and every token that a breakpoint or
a watch names, however unlikely it is. So `prob(" Lyon")` is exact from the moment the condition is
set; for steps that were recorded before, it is known only if the token was among the candidates.
A token that is named has to be one token of the model; otherwise the engine says what it is made
of.
"""


if __name__ == "__main__":
    print(page(), end="")
