"""Children, ends and signals of a program under the shim are as without it, and nothing is left behind."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e import guest
from tests.sample import sampled

CHILDREN = Path(__file__).parent / "guests" / "children.py"
ENDS = {"killed": 128 + signal.SIGKILL, "crashed": 128 + signal.SIGSEGV, "exits": 42}
KINDS = (
    "fork",
    "spawn",
    "forkserver",
    "fork-after",
    "fork-while-threads-launch",
    "subprocess",
    "posix-spawn",
    "exec",
    "daemon",
    *ENDS,
)
SAMPLE = ("fork-while-threads-launch", "killed")
SQUARES = sum(i * i for i in range(32))


@pytest.mark.parametrize("kind", sampled(KINDS, SAMPLE))
def test_children_and_ends(kind: str, native_build: Path, tmp_path: Path) -> None:
    command: list[str | Path] = [sys.executable, CHILDREN, kind]
    bare = guest.run("bare", native_build / "native", command, tmp_path / "bare")
    assert bare.code == ENDS.get(kind, 0), bare
    assert str(SQUARES) in bare.stdout
    for mode in guest.SHIMMED:
        assert guest.run(mode, native_build / "native", command, tmp_path / mode) == bare, mode


def signalled(
    mode: str, kind: str, native: Path, place: Path, send: Callable[[guest.Guest], None]
) -> tuple[guest.Outcome, list[str]]:
    """Sends the signal when the program has used the GPU."""
    running = guest.Guest(mode, native, [sys.executable, CHILDREN, kind], place)
    assert running.process.stdout is not None
    first = running.process.stdout.readline()
    send(running)
    outcome = running.end()
    assert str(SQUARES) in first
    return outcome, running.left_behind()


def to_tessera_run(number: signal.Signals) -> Callable[[guest.Guest], None]:
    return lambda running: running.process.send_signal(number)


SIGNALS: dict[str, tuple[str, Callable[[guest.Guest], None], int]] = {
    "ctrl-c": ("interrupted", guest.Guest.press_ctrl_c, 9),
    "handled": ("interrupted", to_tessera_run(signal.SIGTERM), 7),
    "not-handled": ("sleeping", to_tessera_run(signal.SIGTERM), 128 + signal.SIGTERM),
    "hangup": ("sleeping", to_tessera_run(signal.SIGHUP), 128 + signal.SIGHUP),
}


@pytest.mark.full
@pytest.mark.parametrize("name", SIGNALS)
@pytest.mark.parametrize("mode", guest.MODES)
def test_signals(mode: str, name: str, native_build: Path, tmp_path: Path) -> None:
    kind, send, code = SIGNALS[name]
    outcome, left = signalled(mode, kind, native_build / "native", tmp_path / mode, send)
    assert outcome.code == code, outcome
    assert "Traceback" not in outcome.stderr
    assert not left
