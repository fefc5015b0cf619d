"""What a terminal is shown: what stands out, progress; and that a pipe gets plain text."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.base.screen import BOLD, CLEAR, DIM, PLAIN, YELLOW, Progress, show, styled
from tests.command import TESSERA_RUN, with_native

SAID = """
tessera-run: what ran where (emulated GPUs, virtual time)
  GPU  name         launches  kernels busy  copies  copied
    0  NVIDIA H200       401      2.994 ms       4   512 B
  the rule in line 4 matched no launch; did you mean turn?
  verified, run at home too: 3, of which 0 gave other bytes; could not be verified: 0
tessera-run: nothing was gained: it depends
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)


def test_what_stands_out() -> None:
    lines = styled(SAID).splitlines()
    assert lines[1] == f"{DIM}tessera-run: {PLAIN}what ran where (emulated GPUs, virtual time)"
    assert lines[2] == f"{BOLD}  GPU  name         launches  kernels busy  copies  copied{PLAIN}"
    assert lines[3] == "    0  NVIDIA H200       401      2.994 ms       4   512 B"
    assert lines[4].startswith(f"{YELLOW}  the rule in line 4")
    assert "\033" not in lines[5]
    assert lines[6] == f"{DIM}tessera-run: {PLAIN}{YELLOW}nothing was gained: it depends{PLAIN}"


@pytest.mark.parametrize(
    ("stream", "variables"),
    [(io.StringIO, {}), (Terminal, {"NO_COLOR": "1"}), (Terminal, {"TERM": "dumb"})],
    ids=["a file", "no colour", "a dumb terminal"],
)
def test_plain_text(stream: type[io.StringIO], variables: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    out = stream()
    show(SAID, out)
    assert out.getvalue() == SAID


def test_progress_begins_after_a_second_and_leaves_nothing() -> None:
    out, now = Terminal(), [0.0]
    with Progress("functions", 40, out, lambda: now[0]) as progress:
        for second in range(1, 5):
            now[0] = 0.4 * second
            progress.step(5)
    shown = out.getvalue().split(CLEAR)
    assert shown == ["", "functions: 15 of 40, about 2 s more", "functions: 20 of 40, about 2 s more", ""]


def test_a_pipe_sees_no_progress(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("things", 3, clock=iter(range(0, 100, 10)).__next__) as progress:
        progress.step()
    assert capsys.readouterr().err == ""


def test_a_run_on_a_terminal(fake_native: Path) -> None:
    """The same text on a terminal and in a pipe, but for what makes it stand out."""
    command = [str(TESSERA_RUN), "--emulate", "2", "--", sys.executable, "-c", "pass"]
    environment = {**with_native(fake_native), "TERM": "xterm"}
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        done = subprocess.run(command, stderr=theirs, env=environment, timeout=60, check=True)
        os.close(theirs)
        shown = os.read(terminal.fileno(), 65536).decode().replace("\r\n", "\n")
    piped = subprocess.run(command, stderr=subprocess.PIPE, text=True, env=environment, timeout=60, check=True).stderr
    assert done.returncode == 0
    assert DIM in shown
    assert "\033" not in piped
    assert shown.replace(DIM, "").replace(PLAIN, "") == piped
