"""What a terminal is shown: what stands out, progress; and that a pipe gets plain text."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from controlplane.base.progress import Progress
from controlplane.base.screen import plain, show
from controlplane.base.tables import Part, Warned, blocks, columns
from tests.command import TESSERA_RUN, with_native

LONG = "a_kernel_with_a_name_" + 10 * "as_long_as_its_template_"
ROWS = [("GPU", "name", "[bold]"), ("0", "NVIDIA H200", "1,401"), ("11", LONG, ":smile:")]
SAID: list[Part] = [
    "what ran where (emulated GPUs)",
    *columns(ROWS, right=(0, 2)),
    f"  {LONG} 12 'a' [b]",
    Warned("  nothing was gained"),
]
PLAIN = f"""\
tessera-run: what ran where (emulated GPUs)
  GPU  name{" " * (len(LONG) - 4)}   [bold]
    0  NVIDIA H200{" " * (len(LONG) - 11)}    1,401
   11  {LONG}  :smile:
  {LONG} 12 'a' [b]
  nothing was gained
"""
CODE = re.compile(r"\033\[[\d;?]*[A-Za-z]")
BOLD, DIM, YELLOW, END = "\033[1m", "\033[2m", "\033[33m", "\033[0m"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}.items():
        monkeypatch.setenv(name, value)
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)


def shown(stream: io.StringIO) -> str:
    show(SAID, stream, "tessera-run: ")
    return stream.getvalue()


def test_what_stands_out() -> None:
    lines = shown(Terminal()).splitlines()
    assert lines[0] == f"{DIM}tessera-run: {END}what ran where (emulated GPUs)"
    assert lines[1].startswith(f"{BOLD}  {END}{BOLD}GPU{END}")
    assert "\033" not in lines[2]
    assert lines[-1] == f"{YELLOW}  nothing was gained{END}"


def test_a_table_is_as_wide_as_the_terminal_and_nothing_of_it_is_lost() -> None:
    lines = [CODE.sub("", line) for line in shown(Terminal()).splitlines()]
    cells = [line[7:71].strip() for line in lines[3:-2]]
    assert max(map(len, lines[:-2])) == 80
    assert "".join(cells) == LONG
    assert lines[-2] == f"  {LONG} 12 'a' [b]"  # which the terminal itself wraps, so that it can be copied


@pytest.mark.parametrize("forced", [False, True])
def test_a_file_gets_whole_lines_without_colours(monkeypatch: pytest.MonkeyPatch, *, forced: bool) -> None:
    if forced:
        monkeypatch.setenv("FORCE_COLOR", "1")
    assert shown(io.StringIO()) == PLAIN
    assert plain(SAID) == PLAIN.removeprefix("tessera-run: ").removesuffix("\n")


def test_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert YELLOW not in shown(Terminal())


def test_a_dumb_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert "\033" not in shown(Terminal())


def test_blocks_have_empty_lines_between_them() -> None:
    assert blocks([["a", "b"], [], ["c"]]) == ["a", "b", "", "c"]


class Watched(Terminal):
    """Another thread writes to it."""

    def __init__(self) -> None:
        super().__init__()
        self.changed = threading.Condition()

    def write(self, text: str) -> int:
        with self.changed:
            self.changed.notify_all()
            return super().write(text)

    def has(self, pattern: str) -> bool:
        """After a while, if need be."""
        with self.changed:
            return self.changed.wait_for(lambda: re.search(pattern, CODE.sub("", self.getvalue())), 60) is not None


def test_progress_is_shown_and_leaves_nothing() -> None:
    out = Watched()
    with Progress("functions", 40, out, first_s=0.0) as progress:
        progress.step(15)
        assert out.has(r"functions +\S+ +38% 0:00:\d\d")
    assert out.getvalue().endswith("\033[2K")  # the line is empty again


def test_what_takes_long_says_for_how_long() -> None:
    out = Watched()
    with Progress("planning", stream=out, first_s=0.0):
        assert out.has(r"planning +\S+ +0:00:\d\d")


def test_what_is_a_part_of_something_else_has_a_line_below_it() -> None:
    out = Watched()
    with Progress("the profile", stream=out, first_s=0.0):
        with Progress("functions", 40, first_s=3600.0):
            assert out.has(r"the profile .*\nfunctions ")
        seen = len(out.getvalue())
    assert "functions" not in out.getvalue()[seen:].rpartition("the profile")[2]
    assert out.getvalue().endswith("\033[2K")


def test_what_ends_soon_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    out = Terminal()
    with Progress("planning", stream=out, first_s=3600.0) as progress:
        progress.step()
    assert out.getvalue() == ""
    with Progress("planning", 3, first_s=0.0) as progress:  # a pipe
        progress.step()
    assert capsys.readouterr().err == ""


def test_a_dumb_terminal_sees_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    out = Terminal()
    with Progress("planning", stream=out, first_s=0.0):
        pass
    assert out.getvalue() == ""


def test_a_run_on_a_terminal(fake_native: Path) -> None:
    """The same text on a terminal and in a pipe, but for what makes it stand out."""
    command = [str(TESSERA_RUN), "--emulate", "2", "--", sys.executable, "-c", "pass"]
    environment = {**with_native(fake_native), "TERM": "xterm"}
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        done = subprocess.run(command, stderr=theirs, env=environment, timeout=60, check=True)
        os.close(theirs)
        said = os.read(terminal.fileno(), 65536).decode().replace("\r\n", "\n")
    piped = subprocess.run(command, stderr=subprocess.PIPE, text=True, env=environment, timeout=60, check=True).stderr
    assert done.returncode == 0
    assert DIM in said
    assert "\033" not in piped
    assert CODE.sub("", said) == piped
