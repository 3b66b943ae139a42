"""The program in a real pseudo-terminal: how it begins, is ended from outside, and what it leaves."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.terminal import Terminal, alive, children_of, scripted_app, terminal

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")

NORMAL: set[str] = set()
"""No mode differs from what a terminal has at first."""


def wait(until: Callable[[], object], timeout: float = 120.0) -> bool:
    """Wait until that is true; whether it is."""
    end = time.monotonic() + timeout
    while not until():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def state_of(one: Terminal) -> str:
    """R, S, T (stopped) and so on; see proc(5)."""
    return Path(f"/proc/{one.pid}/stat").read_text().rpartition(")")[2].split()[0]


def engine_of(one: Terminal) -> int:
    """The engine's process; the other child keeps track of multiprocessing's resources."""

    found: list[int] = []

    def look() -> list[int]:
        found.extend(
            child
            for child in children_of(one.pid)
            if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()
        )
        return found

    assert wait(look), "no engine"
    return found[0]


def stepped(one: Terminal) -> None:
    """Have two tokens drawn."""
    one.wait_for("ready")
    one.type("nn")
    one.wait_for("position 4")


# --- D1 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("term", ["dumb", "unknown"])
@pytest.mark.parametrize("size", [(100, 30), (80, 25)])
def test_d1_a_terminal_that_cannot_be_drawn_on_is_refused(term: str, size: tuple[int, int]) -> None:
    with terminal("-m", "inspector", "hello", size=size, TERM=term) as one:
        assert one.exit_code() == 2
    line = one.output.decode()
    assert line.count("\n") == 1
    assert f"TERM={term}" in line
    assert 'llm-inspect run "PROMPT"' in line


def test_d1_without_a_terminal_to_draw_on_sessions_are_listed(tmp_path: Path) -> None:
    with terminal("-m", "inspector", "sessions", TERM="dumb", XDG_DATA_HOME=str(tmp_path)) as one:
        assert one.exit_code() == 0
    assert "\x1b" not in one.output.decode()


@pytest.mark.parametrize("size", [(0, 0), (80, 0), (1, 1), (300, 90)])
def test_d1_any_size_settles(size: tuple[int, int]) -> None:
    def used() -> int:
        return int(Path(f"/proc/{one.pid}/stat").read_text().rpartition(")")[2].split()[11])

    with terminal("-c", scripted_app(), size=size) as one:
        one.wait_for("\x1b[?2004h")
        # Quiet: no processor time (in ticks of 10 ms) from one look to the next.
        looks = [0]

        def quiet() -> bool:
            time.sleep(0.5)
            looks.append(used())
            return looks[-1] - looks[-2] <= 5

        assert wait(quiet)
        one.type("q")
        assert one.exit_code() == 0


# --- D2 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_d2_a_signal_ends_it_as_q_does(number: signal.Signals, tmp_path: Path) -> None:
    kept = tmp_path / "kept.llmi"
    with terminal("-c", scripted_app(save=kept), answers_sizes=True) as one:
        stepped(one)
        engine = engine_of(one)
        os.kill(one.pid, number)
        # Shells send a second one on the heels of the first.
        os.kill(one.pid, number)
        assert one.exit_code() == 128 + number
        assert one.modes_left == NORMAL
        assert one.echoes
        assert wait(lambda: not alive(engine))
    assert b"Traceback" not in one.output
    with sqlite3.connect(kept) as file:
        assert file.execute("SELECT count(*) FROM step").fetchone() == (2,)
        assert file.execute("SELECT closed IS NOT NULL FROM session").fetchone() == (1,)
    assert [path.name for path in tmp_path.iterdir()] == ["kept.llmi"]


def test_d2_q_leaves_the_terminal_as_it_was() -> None:
    with terminal("-c", scripted_app(), answers_sizes=True) as one:
        one.wait_for("\x1b[?1016h")
        one.type("q")
        assert one.exit_code() == 0
        assert one.modes_left == NORMAL
        assert one.echoes


@pytest.mark.parametrize("ignored", [False, True], ids=["hangup", "nohup"])
def test_d2_it_ends_with_its_terminal(ignored: bool) -> None:
    program = scripted_app()
    if ignored:
        program = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n" + program
    with terminal("-c", program) as one:
        one.wait_for("ready")
        engine = engine_of(one)
        os.close(one.fd)
        assert one.exit_code() == 128 + signal.SIGHUP
        assert wait(lambda: not alive(engine))
        one.fd = os.open(os.devnull, os.O_RDONLY)


def test_d2_a_screen_that_hangs_is_ended_too() -> None:
    hangs = "import inspector.cli.terminal, inspector.app, time\ninspector.cli.terminal._GRACE_S = 0.5\n"
    hangs += "inspector.app.Inspector.action_first = lambda self: time.sleep(3600)\n"
    with terminal("-c", hangs + scripted_app()) as one:
        one.wait_for("ready")
        one.type("g")
        time.sleep(0.5)
        os.kill(one.pid, signal.SIGTERM)
        assert one.exit_code() == 128 + signal.SIGTERM
        assert one.modes_left == NORMAL
        assert one.echoes


def test_d2_a_run_without_a_screen_closes_its_session(tmp_path: Path) -> None:
    kept = tmp_path / "kept.llmi"
    program = f"""
import sys
from pathlib import Path
from engine.commands import Configure, Open, Submit
from inspector.cli import main as cli; from inspector.cli import run
from inspector.state.request import Request, Save

options = {{"tokens": list("abcdefgh"), "delay_ms": 50}}
asked = Request(Open("scripted", options), Configure(max_tokens=10_000), Submit("abc"),
                save=Save(Path({str(kept)!r})))
cli.COMMANDS["run"] = (lambda words: run.run(asked, "jsonl"), "")
sys.exit(cli.main(["run"]))
"""
    with terminal("-c", program) as one:
        one.wait_for('"type": "step"')
        os.kill(one.pid, signal.SIGTERM)
        assert one.exit_code() == 128 + signal.SIGTERM
    assert b"Traceback" not in one.output
    with sqlite3.connect(kept) as file:
        assert file.execute("SELECT closed IS NOT NULL FROM session").fetchone() == (1,)


# --- stopping and sizes ---------------------------------------------------------------------------


def test_ctrl_z_stops_it_and_fg_brings_the_screen_back() -> None:
    with terminal("-c", scripted_app(), answers_sizes=True) as one:
        stepped(one)
        one.type("\x1a")
        assert wait(lambda: state_of(one) == "T")
        # What it has written before it stopped may still be on its way.
        assert wait(lambda: one.modes_left == NORMAL)
        assert one.echoes
        one.forget()
        os.kill(one.pid, signal.SIGCONT)
        # The whole screen again, on the alternate screen.
        one.wait_for("\x1b[?1049h")
        one.wait_for("position 4")
        one.type("n")
        one.wait_for("position 5")
        os.kill(one.pid, signal.SIGTERM)
        assert one.exit_code() == 128 + signal.SIGTERM
        assert one.modes_left == NORMAL


def test_a_stop_from_outside_leaves_one_reader_of_keys_and_a_whole_screen() -> None:
    # A thread pool may grow by a thread meanwhile; a reader left behind at each stop would not be
    # one, but as many as there were stops.
    stops = 4

    def threads() -> int:
        return len(list(Path(f"/proc/{one.pid}/task").iterdir()))

    with terminal("-c", scripted_app()) as one:
        stepped(one)
        before = threads()
        for _ in range(stops):
            os.kill(one.pid, signal.SIGSTOP)
            assert wait(lambda: state_of(one) == "T")
            one.forget()
            os.kill(one.pid, signal.SIGCONT)
            one.wait_for("position 4")
        assert threads() < before + stops
        os.kill(one.pid, signal.SIGTERM)
        assert one.exit_code() == 128 + signal.SIGTERM
        assert one.modes_left == NORMAL


def drawn_within(one: Terminal, rows: int, columns: int) -> bool:
    """Step back and on: whether all that is drawn for it lies in a terminal of that size."""
    one.forget()
    one.type("bn")
    one.wait_quiet(0.5)
    places = [place.split(b";") for place in re.findall(rb"\x1b\[(\d+;\d+)H", one.output)]
    return bool(places) and all(
        int(row) <= rows and int(column) <= columns + 1 for row, column in places
    )


def test_a_storm_of_sizes_ends_in_the_last_one() -> None:
    with terminal("-c", scripted_app()) as one:
        stepped(one)
        for width in range(40, 160):
            one.resize(width, 24 + width % 7)
        one.resize(61, 17)
        one.wait_for("\x1b[17;")
        # On a busy machine the sizes before are still being laid out for a while.
        assert wait(lambda: drawn_within(one, 17, 61))
        os.kill(one.pid, signal.SIGTERM)
        assert one.exit_code() == 128 + signal.SIGTERM


# --- C5 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [{"fault": "hang", "fault_at": 2}, {"load_ms": 3_600_000}, {}],
    ids=["hangs in a pass", "loads", "waits"],
)
def test_c5_the_engine_dies_with_the_app(options: dict[str, object]) -> None:
    with terminal("-c", scripted_app(options)) as one:
        one.wait_for("loading" if "load_ms" in options else "ready")
        if "fault" in options:
            one.type("n")
            time.sleep(0.5)
        engine = engine_of(one)
        assert alive(engine)
        os.kill(one.pid, signal.SIGKILL)
        assert wait(lambda: not alive(engine))


def test_c5_the_engine_dies_with_the_app_where_the_kernel_does_not_see_to_it(
    tmp_path: Path,
) -> None:
    """As on macOS: a thread waits for the parent. The app's own thread started this one."""
    program = f"""
import threading, time
from pathlib import Path
from engine.commands import Open
from engine.process import EngineClient

def start():
    global client
    client = EngineClient(Path({str(tmp_path / "log")!r}))
    client.start()
    client.send(Open("scripted", {{"load_ms": 3_600_000}}))

thread = threading.Thread(target=start)
thread.start()
thread.join()
time.sleep(1.5)
print("alive" if client.alive else "ended with the thread that started it", flush=True)
time.sleep(3600)
"""
    with terminal("-c", program) as one:
        engine = engine_of(one)
        one.wait_for("alive")
        os.kill(one.pid, signal.SIGKILL)
        assert wait(lambda: not alive(engine))
