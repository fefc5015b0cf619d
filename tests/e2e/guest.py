"""Running one program in every mode of ``tessera-run``, and what must be the same and gone afterwards."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import tempfile
import termios
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.command import TESSERA_RUN

MARK = "TESSERA_TEST_MARK"
COUNTS = "counts.json"
TIMEOUT_S = 120
GONE_S = 10.0
MODES: dict[str, tuple[str, ...]] = {
    "bare": (),
    "through": ("--shim",),
    "stats": ("--stats=stats.json",),
    "trace": ("--trace", "trace"),
}
PROCESS = re.compile(r"tessera\[\d+\]")  # before each log line
SHIMMED = tuple(mode for mode in MODES if mode != "bare")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a program showed to the outside, and what the emulated GPUs counted."""

    code: int
    stdout: str
    stderr: str
    counts: dict[str, int]


def as_from_a_terminal() -> None:
    """In the new process: its terminal, and no signal ignored because whoever started the tests ignores it."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class Guest:
    """One program started under ``tessera-run --emulate 2`` on a terminal of its own, its processes marked."""

    def __init__(self, mode: str, native: Path, command: Sequence[str | Path], place: Path, **variables: str) -> None:
        place.mkdir(parents=True, exist_ok=True)
        self._place, self._temporary = place, Path(tempfile.mkdtemp(prefix="guest-"))  # short: sockets are made in it
        self._mark = uuid.uuid4().hex
        self._shared = shared_memory()
        environment = {**os.environ, **variables, "TESSERA_NATIVE": str(native), "TMPDIR": str(self._temporary)}
        environment[MARK] = self._mark
        self._allowed = {option.partition("=")[2] or option for option in MODES[mode]}
        self._allowed.add(COUNTS)
        self._terminal, terminal = pty.openpty()
        self.process = subprocess.Popen(
            [TESSERA_RUN, "--emulate", "2", "--no-summary", "--json", COUNTS, *MODES[mode], "--", *command],
            env=environment,
            cwd=place,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=terminal,
            start_new_session=True,
            preexec_fn=as_from_a_terminal,
        )
        os.close(terminal)

    def press_ctrl_c(self) -> None:
        os.write(self._terminal, b"\x03")

    def end(self) -> Outcome:
        stdout, stderr = self.process.communicate(timeout=TIMEOUT_S)
        os.close(self._terminal)
        return Outcome(self.process.returncode, stdout, PROCESS.sub("tessera[]", stderr), self._counts())

    def _counts(self) -> dict[str, int]:
        """Launches by kernel and device, copies by device."""
        report = json.loads((self._place / COUNTS).read_text())
        counts = Counter[str]()
        for kernel in report["kernels"]:
            counts[f"{kernel['name']} on {kernel['device']}"] += kernel["launches"]
        for copy in report["copies"]:
            counts[f"copies on {copy['device']}"] += copy["copies"]
            counts[f"bytes copied on {copy['device']}"] += copy["copied_bytes"]
        return dict(+counts)

    def left_behind(self) -> list[str]:
        """Processes, shared memory, sockets and files that outlive the run; processes get a moment to end."""
        deadline = time.monotonic() + GONE_S
        while (alive := marked(self._mark)) and time.monotonic() < deadline:
            time.sleep(0.02)
        found = [f"process {process}: {command}" for process, command in alive.items()]
        found += map(str, shared_memory() - self._shared)
        found += [name for name in abstract_sockets() if str(self.process.pid) in re.split(r"\D+", name)]
        found += [f"temporary file {path.name}" for path in self._temporary.iterdir()]
        shutil.rmtree(self._temporary)
        return found + [f"file {path.name}" for path in self._place.iterdir() if path.name not in self._allowed]


def run(mode: str, native: Path, command: Sequence[str | Path], place: Path, **variables: str) -> Outcome:
    """To the end, and nothing may be left behind."""
    guest = Guest(mode, native, command, place, **variables)
    outcome = guest.end()
    left = guest.left_behind()
    assert not left, f"{mode}: {left}"
    return outcome


def marked(mark: str) -> dict[int, str]:
    """Living processes that inherited the mark, with their command lines."""
    found = {}
    for directory in Path("/proc").iterdir():
        try:
            if directory.name.isdigit() and f"{MARK}={mark}".encode() in (directory / "environ").read_bytes():
                found[int(directory.name)] = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
    return found


def shared_memory() -> set[Path]:
    return set(Path("/dev/shm").glob("*tessera*"))


def abstract_sockets() -> set[str]:
    lines = Path("/proc/net/unix").read_text().splitlines()
    return {line.split()[-1] for line in lines if "@tessera" in line}
