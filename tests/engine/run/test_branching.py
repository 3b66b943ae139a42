"""Branches without a screen: made, switched, named and deleted, in the engine and the controller."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine.backends.base import Encoded
from engine.backends.tokens import tokenized
from engine.commands import DeleteBranch, NameBranch, Step, Submit, Tokenize, UndoDelete
from engine.models.token_table import TokenTable
from engine.records.events import (
    NAME_LENGTH,
    BranchDeleted,
    BranchNamed,
    EngineError,
    Record,
    RunState,
    Tokenized,
)
from engine.records.prompt import Origin, PrefillRecord
from engine.records.step import StepRecord
from engine.records.vocabulary import Token
from engine.run.checks import StepperError
from engine.run.tree import ROOT
from inspector.state.controller import Controller
from inspector.state.view import RunLog
from sessions import open_session
from tests.direct import DirectClient, script
from tests.engine.run.test_stepper import log, started
from tests.engine.test_text import byte_level, sentencepiece
from tests.sessions.test_store import forked_run, save


class Hands:
    """A controller on an engine in this process; keeps every record."""

    def __init__(self, prompt: str = "abc") -> None:
        self.client = DirectClient()
        self.controller = Controller(self.client.send)
        self.records: list[Record] = []
        for command in script(prompt):
            self.client.send(command)
        self.take()

    def take(self) -> None:
        while records := self.client.take():
            self.records.extend(records)
            self.controller.take(records)

    def of(self, kind: type) -> list[Record]:
        return [one for one in self.records if isinstance(one, kind)]

    def run(self, count: int) -> None:
        self.controller.run(count)
        self.take()

    def redraw(self) -> None:
        self.controller.redraw()
        self.take()

    def delete(self, node: int) -> None:
        self.controller.delete(node)
        self.take()

    def undo(self) -> None:
        self.controller.undo()
        self.take()


def two_branches() -> Hands:
    """1 - 2 - 3 - 4 - 5, and beside 3: 6 - 7 - 8, where the cursor is."""
    hands = Hands()
    hands.run(5)
    hands.controller.cursor.go_to(3)
    hands.redraw()
    hands.run(2)
    assert hands.controller.cursor.node == 8
    assert hands.controller.log.tree.children[2] == [3, 6]
    return hands


# --- which way the steps go -------------------------------------------------------------------


def test_a_step_goes_where_the_cursor_was_last() -> None:
    hands = two_branches()
    controller = hands.controller
    asked = len(hands.client.sent)
    for _ in range(3):
        controller.cursor.back()
    assert controller.cursor.node == 2
    controller.step()
    assert controller.cursor.node == 6
    controller.cursor.go_to(4)
    controller.cursor.first()
    assert [one.node for one in controller.view.ahead] == [1, 2, 3, 4, 5]
    for node in (1, 2, 3, 4, 5):
        controller.step()
        assert controller.cursor.node == node
    controller.cursor.first()
    controller.run(3)
    assert controller.cursor.node == 3
    controller.cursor.last()
    assert controller.cursor.node == 5
    assert len(hands.client.sent) == asked


def test_a_jump_is_a_visit_of_the_whole_way() -> None:
    hands = two_branches()
    controller = hands.controller
    controller.cursor.go_to(4)
    controller.cursor.go_to(8)
    controller.cursor.first()
    controller.cursor.last()
    assert controller.cursor.node == 8
    controller.cursor.go_to(5)
    controller.cursor.go_to(1)
    controller.cursor.last()
    assert controller.cursor.node == 5


def test_the_newest_child_where_none_was_visited() -> None:
    hands = Hands()
    hands.run(2)
    log = RunLog()
    for record in hands.records:
        log.add(record)
    for seed in (8, 9):
        log.add(StepRecord(**{**vars(log.nodes[2]), "node": seed, "seed": seed}))
    assert log.tree.children[1] == [2, 8, 9]
    assert log.tip(ROOT, {}) == 9
    assert log.tip(ROOT, {1: 2}) == 2
    assert log.tree.following(1, {1: 77}) == 9


# --- from branch to branch --------------------------------------------------------------------


def test_siblings_go_round_at_the_nearest_fork() -> None:
    hands = two_branches()
    controller = hands.controller
    asked = len(hands.client.sent)
    assert controller.cursor.sibling(1)
    assert controller.cursor.node == 3
    assert controller.cursor.sibling(1)
    assert controller.cursor.node == 6
    assert controller.cursor.sibling(-1)
    assert controller.cursor.node == 3
    controller.cursor.last()
    assert controller.cursor.node == 5
    assert controller.cursor.sibling(-1)
    assert controller.cursor.node == 6
    controller.cursor.last()
    assert controller.cursor.node == 8
    assert len(hands.client.sent) == asked


def test_without_a_fork_above_there_is_nowhere_to_go() -> None:
    hands = two_branches()
    for node in (2, 1, ROOT):
        hands.controller.cursor.go_to(node)
        assert not hands.controller.cursor.sibling(1)
        assert hands.controller.cursor.node == node


def test_where_a_branch_begins() -> None:
    log = two_branches().controller.log
    assert {node: log.branch(node) for node in (0, 1, 2, 3, 5, 6, 8)} == {
        0: None,
        1: 1,
        2: 1,
        3: 3,
        5: 3,
        6: 6,
        8: 6,
    }


# --- new branches -----------------------------------------------------------------------------


def test_several_tokens_are_forced_one_after_another() -> None:
    hands = two_branches()
    hands.controller.fork(Step(1, force=(4, 5, 6)))
    hands.take()
    path = hands.controller.view.path
    assert [one.node for one in path] == [1, 9, 10, 11]
    assert [one.token.id for one in path[1:]] == [4, 5, 6]
    assert hands.controller.log.tree.children[1] == [2, 9]
    assert hands.controller.cursor.node == 11


def test_an_id_outside_the_vocabulary_is_refused_by_name() -> None:
    hands = two_branches()
    hands.controller.fork(Step(1, force=(26,)))
    hands.take()
    (error,) = hands.of(EngineError)
    assert isinstance(error, EngineError)
    assert error.message == "token id 26 is outside the vocabulary 0..25"
    assert len(hands.controller.log.nodes) == 8


def test_a_branch_can_begin_at_the_prompt_and_after_a_tip() -> None:
    hands = Hands()
    hands.controller.fork(Step(ROOT, seed=99))
    hands.take()
    hands.controller.fork(Step(ROOT, force=(3,)))
    hands.take()
    assert hands.controller.log.tree.children[ROOT] == [1, 2]
    assert hands.controller.cursor.node == 2
    assert hands.controller.unused_seed(ROOT) == 100
    assert hands.controller.unused_seed(2) is None
    hands.controller.fork(Step(2, force=(4,)))
    hands.take()
    assert [one.node for one in hands.controller.view.path] == [2, 3]


# --- names ------------------------------------------------------------------------------------


def test_a_name_is_a_record_that_the_engine_sends() -> None:
    hands = two_branches()
    hands.controller.name_branch(6, "  the \x1b other\n one ")
    hands.take()
    (named,) = hands.of(BranchNamed)
    assert named == BranchNamed(6, "the \x1b other one")
    assert hands.controller.log.names == {6: "the \x1b other one"}
    hands.controller.name_branch(6, "")
    hands.take()
    assert not hands.controller.log.names[6]
    hands.controller.name_branch(3, "x" * 500)
    hands.take()
    assert len(hands.controller.log.names[3]) == NAME_LENGTH


def test_what_is_not_there_has_no_name() -> None:
    hands = two_branches()
    for command in (NameBranch(99, "a"), NameBranch(ROOT, "a"), DeleteBranch(ROOT)):
        hands.client.send(command)
    hands.take()
    said = [one.message for one in hands.of(EngineError) if isinstance(one, EngineError)]
    assert said == [
        "there is no node 99 after the prompt",
        "there is no node 0 after the prompt",
        "there is no node 0 after the prompt",
    ]


# --- deletion ---------------------------------------------------------------------------------


def test_a_deleted_branch_is_gone_until_it_is_brought_back() -> None:
    hands = two_branches()
    controller = hands.controller
    hands.delete(6)
    assert controller.cursor.node == 2
    assert controller.log.tree.children[2] == [3]
    assert controller.log.tree.deleted == {6, 7, 8}
    controller.cursor.go_to(7)
    assert controller.cursor.node == 2, "what is gone cannot be gone to"
    controller.cursor.last()
    assert controller.cursor.node == 5
    assert controller.can_undo
    hands.undo()
    assert controller.cursor.node == 6
    assert controller.log.tree.children[2] == [3, 6]
    assert controller.log.tree.deleted == frozenset()
    assert not controller.can_undo
    controller.cursor.last()
    assert controller.cursor.node == 8


def test_several_deletions_are_undone_one_by_one_the_last_first() -> None:
    hands = two_branches()
    for node in (7, 6, 1):
        hands.delete(node)
    assert hands.controller.log.tree.children == {**hands.controller.log.tree.children, ROOT: []}
    assert hands.controller.cursor.node == ROOT
    for node in (1, 6, 7):
        hands.undo()
        assert hands.controller.cursor.node == node
    assert hands.controller.log.tree.children[6] == [7]
    hands.undo()
    assert hands.controller.cursor.node == 7


def test_after_a_new_token_there_is_nothing_to_undo() -> None:
    hands = two_branches()
    hands.delete(6)
    hands.run(5)
    assert not hands.controller.can_undo
    hands.client.send(UndoDelete())
    hands.take()
    (error,) = hands.of(EngineError)
    assert isinstance(error, EngineError)
    assert error.message.startswith("nothing was deleted since the last token")


def test_a_deleted_number_is_never_given_again() -> None:
    hands = two_branches()
    hands.delete(6)
    hands.run(5)
    assert max(hands.controller.log.nodes) == 10
    hands.delete(9)
    restore = hands.controller.restore_command()
    assert restore is not None
    assert sorted(restore.records) == [1, 2, 3, 4, 5]
    hands.client = DirectClient()
    hands.controller._send = hands.client.send
    for command in (*script()[:2], restore):
        hands.client.send(command)
    hands.take()
    hands.controller.cursor.go_to(5)
    hands.controller.step()
    hands.take()
    assert hands.controller.cursor.node == 11


def test_nothing_is_deleted_while_a_pass_runs() -> None:
    hands = two_branches()
    hands.client.held = True
    hands.controller.step()
    hands.controller.delete(6)
    assert not [one for one in hands.client.sent if isinstance(one, DeleteBranch)]


def test_the_stepper_forgets_what_is_deleted_and_reads_it_again_when_it_is_back() -> None:
    run = started()
    for _ in range(4):
        run.step()
    expected = [one.token.id for one in run.path()]
    run.cursor = 2
    run.extend(2, force=1)
    run.step()
    before = run.dense(6).copy()
    record = run.delete(5)
    assert record == BranchDeleted(5)
    assert sorted(run.nodes) == [1, 2, 3, 4]
    assert run.children[2] == [3]
    assert run.cursor == 2
    with pytest.raises(StepperError, match="there is no node 6"):
        run.delete(6)
    assert run.undelete() == BranchDeleted(5, undone=True)
    assert run.children[2] == [3, 5]
    assert run.children[5] == [6]
    asked = len(log(run))
    assert (run.dense(6) == before).all()
    assert len(log(run)) > asked, "its logits had been forgotten"
    run.cursor = 4
    assert [one.token.id for one in run.path()] == expected
    with pytest.raises(StepperError, match="nothing was deleted"):
        run.undelete()


def test_a_run_goes_on_rightly_after_a_deletion() -> None:
    run, fresh = started(), started()
    for _ in range(3):
        run.step()
        fresh.step()
    run.extend(3, force=2)
    run.step()
    run.delete(4)
    assert run.cursor == 3
    assert [run.step().token.id for _ in range(4)] == [fresh.step().token.id for _ in range(4)]


# --- another prompt ---------------------------------------------------------------------------


def test_another_prompt_begins_a_new_tree_and_reuses_what_begins_alike() -> None:
    hands = two_branches()
    hands.delete(7)
    hands.controller.submit(Submit("abcdef"))
    hands.take()
    controller = hands.controller
    assert (controller.cursor.node, controller.log.nodes) == (ROOT, {})
    assert not controller.can_undo
    assert controller.log.tree.deleted == frozenset()
    hands.run(1)
    prefill = hands.of(PrefillRecord)[-1]
    assert isinstance(prefill, PrefillRecord)
    assert (prefill.cached, prefill.computed) == (3, 3)


@pytest.mark.parametrize(
    ("text", "said"), [("", "the prompt is empty"), ("ab?", "no token of this vocabulary")]
)
def test_a_prompt_that_is_refused_changes_nothing(text: str, said: str) -> None:
    hands = two_branches()
    before = hands.controller.log.prompt
    hands.controller.submit(Submit(text))
    hands.take()
    assert hands.controller.log.error is not None
    assert said in hands.controller.log.error.message
    assert hands.controller.log.prompt is before
    assert hands.controller.cursor.node == 8
    assert not hands.controller.busy
    hands.run(1)
    assert hands.controller.cursor.node == 9


# --- a text in tokens -------------------------------------------------------------------------


def test_the_engine_says_which_tokens_a_text_is() -> None:
    hands = Hands()
    hands.controller.tokenize("bad")
    hands.take()
    told = hands.controller.log.tokenized
    assert told is not None
    assert [one.id for one in told.tokens] == [1, 0, 3]
    hands.controller.tokenize("b?")
    hands.take()
    told = hands.controller.log.tokenized
    assert told is not None
    assert told.tokens == ()
    assert told.problem == "no token of this vocabulary begins b'?'"
    assert hands.controller.log.state.state is RunState.READY


class Reader:
    """The part of a backend that reads and names tokens, over a real tokenizer."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self.table = TokenTable.from_tokenizer(tokenizer, len(tokenizer))

    def tokenize(self, text: str, *, chat: bool, system: str | None) -> Encoded:
        ids = self.tokenizer(text, add_special_tokens=False).input_ids
        return Encoded(tuple(ids), (Origin.USER,) * len(ids))

    def token(self, token_id: int) -> Token:
        return Token(token_id, self.table[token_id].data)


@pytest.mark.parametrize("make", [sentencepiece, byte_level])
@pytest.mark.parametrize("text", ["Hey", " Hey", "there!", "é", "\n", "a b", ""])
def test_a_text_that_goes_on_gets_no_space_before_it(make: Any, text: str) -> None:
    """Case 16: a tokenizer may put one before a text of its own, which this is not."""
    told = tokenized(Reader(make()), text)  # type: ignore[arg-type]
    assert b"".join(token.bytes for token in told.tokens) == text.encode()
    assert told.problem == ""


def test_it_answers_while_a_run_goes_on() -> None:
    hands = Hands()
    hands.client._inbox.waiting.extend([Tokenize("abc"), NameBranch(1, "main")])
    hands.run(5)
    assert len(hands.controller.log.nodes) == 5
    assert hands.of(Tokenized)
    assert hands.controller.log.names == {1: "main"} or hands.of(EngineError)


# --- in a session file ------------------------------------------------------------------------


def test_names_and_deletions_are_kept_in_a_session(tmp_path: Path) -> None:
    records = forked_run()
    records += [BranchNamed(3, "a\x1b[2J \u202e"), BranchDeleted(6), BranchDeleted(4)]
    records += [BranchDeleted(4, undone=True), Tokenized("of the moment", ())]
    live = RunLog()
    for record in records:
        live.add(record)
    with open_session(save(tmp_path / "run.llmi", records)) as session:
        found = [one for _, one in session.events if isinstance(one, BranchNamed | BranchDeleted)]
        assert found == [one for one in records if isinstance(one, BranchNamed | BranchDeleted)]
        assert not [one for _, one in session.events if isinstance(one, Tokenized)]
        in_order, by_tree = RunLog(), RunLog()
        for one in session.records():
            in_order.add(one)
        for one in session.records(steps=False):
            by_tree.add(one)
        by_tree.take_over(session.steps, session.tree)
        for log in (in_order, by_tree):
            assert log.names == live.names
            assert log.tree.deleted == live.tree.deleted
            assert log.tree.deleted
            assert log.tree.children == live.tree.children
