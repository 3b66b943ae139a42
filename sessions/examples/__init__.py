"""Small recorded runs that come with the program: to look at, and for tests that need no model.

``python -m sessions.examples`` records them again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from engine.backends.abilities import Shallow
from engine.drafts.early_exit import EarlyExit
from engine.drafts.ngram import PromptLookup
from engine.records.columns import ColumnsSet, ColumnState
from engine.records.events import SettingsChanged
from engine.records.round import DraftSettings
from engine.run.speculation import Speculation
from engine.run.step_many import ColumnStep, going_on, step_many
from engine.run.stepper import Stepper
from engine.run.tree import ROOT
from engine.sampling.chain import effective
from sessions.file.format import SUFFIX
from sessions.recording import first_records, last_records
from sessions.writer import SessionWriter

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Example:
    """Recipe of one recorded example."""

    prompt: str
    title: str
    dials: Mapping[str, float] = field(default_factory=dict)
    chat: bool = False
    steps: int = 24
    seed: int = 1
    fork_at: int | None = None
    """The node at which a second branch takes the runner-up of the first, and goes on."""
    fork_steps: int = 6
    drafting_layers: int = 0
    """Layers of the model that draft three tokens a round; 0 for no drafts."""
    read_before: str = ""
    """Another prompt, read first and not recorded: what both begin with is in the cache."""
    greedy_steps: int = 0
    """Length of one more branch from the prompt on: greedy, drafted by looking in the text."""
    columns: tuple[str, ...] = ()
    """Chains that are compared, in place of a run."""


EXAMPLES: Mapping[str, Example] = {
    "capital": Example("The capital of France is", "A default run with a fork", fork_at=3),
    "chat": Example(
        "Name three colours.", "Greedy, through the chat template", {"temperature": 0.0}, chat=True
    ),
    "rounds": Example(
        '[{"name": "Ann", "age": 31}, {"name": "Bob", "age": 25}, {"name":',
        "Speculative rounds of the model's first layers",
        {"temperature": 0.8},
        steps=20,
        seed=2,
        drafting_layers=27,
    ),
    "tour": Example(
        "Write a poem about rain.",
        "The guided tour",
        chat=True,
        steps=16,
        fork_at=3,
        read_before="Hello!",
        greedy_steps=130,
    ),
    "bytes": Example("😊 東京 [/b]", "Characters in pieces", {"temperature": 1.0}, steps=12),
    "compare": Example(
        "The capital of France is",
        "Four settings side by side",
        steps=10,
        seed=0,
        columns=(
            *("temperature=0.3", "temperature=1", "temperature=1.5"),
            "temperature=1.5 top_k=5",
        ),
    ),
}


def example(name: str) -> Path:
    """The file of an example. KeyError for a name there is not."""
    if name not in EXAMPLES:
        raise KeyError(f"no example {name!r}: there are {', '.join(EXAMPLES)}")
    return FOLDER / f"{name}{SUFFIX}"


def record_example(name: str, stepper: Stepper, path: Path) -> None:
    """Record an example anew at ``path``, with the stepper's model."""
    wanted = EXAMPLES[name]
    stepper.settings = effective("guide", dict(wanted.dials))
    stepper.seed, stepper.max_tokens = wanted.seed, wanted.steps
    stepper.speculation = None
    if wanted.drafting_layers:
        backend = stepper.backend
        layered = isinstance(backend, Shallow)
        source = EarlyExit(wanted.drafting_layers, backend) if layered else PromptLookup()
        stepper.speculation = Speculation(source, 3)
    if wanted.read_before:
        stepper.submit(wanted.read_before, chat=wanted.chat)
        for _ in stepper.prefill():
            pass
    with SessionWriter(path, title=wanted.title, overwrite=True) as writer:
        for record in first_records(stepper, wanted.prompt, chat=wanted.chat):
            writer.add(record)
        for step in () if wanted.columns else stepper.run():
            if step.round == step.node:
                writer.add(stepper.rounds[step.node])
            writer.add(step)
        if wanted.columns:
            _columns(stepper, writer, wanted.columns)
        if wanted.fork_at is not None and wanted.fork_at in stepper.nodes:
            fork = stepper.nodes[wanted.fork_at]
            runner_up = next(int(one) for one in fork.top.ids if one != fork.token.id)
            writer.add(stepper.extend(fork.parent, force=runner_up))
            for _ in range(wanted.fork_steps):
                writer.add(stepper.extend(stepper.cursor))
        if wanted.greedy_steps:
            _greedy_branch(stepper, writer, wanted.greedy_steps)
        writer.add_all(last_records(stepper))


def _columns(stepper: Stepper, writer: SessionWriter, specs: Sequence[str]) -> None:
    columns, states = [], []
    for number, spec in enumerate(specs, 1):
        chain = effective("guide", {}, spec=spec)
        preset, seed = chain.chain.preset, stepper.seed
        writer.add(SettingsChanged(preset, chain.spec, seed, chain.dials))
        columns.append(ColumnStep(number, ROOT, chain))
        states.append(ColumnState(number, ROOT, spec, preset, chain.spec, seed))
    writer.add(ColumnsSet(tuple(states)))
    while columns:
        found = step_many(stepper, columns)
        writer.add_all([*found.steps, found.record])
        columns = going_on(stepper, columns, found.record)


def _greedy_branch(stepper: Stepper, writer: SessionWriter, count: int) -> None:
    settings, drafting = effective("guide", {"temperature": 0.0}), stepper.speculation
    draft = DraftSettings("ngram")
    source = PromptLookup()
    stepper.max_tokens = count
    stepper.speculation = Speculation(source, draft.tokens, draft.accept)
    preset = settings.chain.preset
    writer.add(SettingsChanged(preset, settings.spec, stepper.seed, settings.dials, draft=draft))
    for step in stepper.run(at=ROOT, settings=settings):
        if step.round == step.node:
            writer.add(stepper.rounds[step.node])
        writer.add(step)
    stepper.speculation = drafting
