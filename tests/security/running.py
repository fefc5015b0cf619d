"""Starting tests/security/guest.py under a policy that sends its launches to GPU 1."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.command import TESSERA_RUN, with_native
from tests.e2e.guest import as_from_a_terminal

GUEST = Path(__file__).with_name("guest.py")
SQUARES = sum(i * i for i in range(32))
POLICY = """version: 1
devices: {home: 0, executors: [1]}
rules:
  - {match: {function: "*"}, device: 1}
default: home
"""
TIMEOUT_S = 60


class Running:
    """The guest under tessera-run, if wanted on a terminal of its own. `place` is empty, and this run's own."""

    def __init__(
        self, native: Path, place: Path, *options: str, before: Sequence[str] = (), terminal: bool = False
    ) -> None:
        place.mkdir(parents=True, exist_ok=True)
        (place / "policy.yaml").write_text(POLICY)
        self._report = place / "report.json"
        command = [*before, str(TESSERA_RUN), "--emulate", "2", "--no-summary", "--json", str(self._report)]
        command += ["--policy", str(place / "policy.yaml"), *options, "--", sys.executable, str(GUEST)]
        self._terminal, theirs = pty.openpty()
        self.process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=with_native(native),
            start_new_session=True,
            preexec_fn=as_from_a_terminal if terminal else None,
        )
        os.close(theirs)
        self.hears("started")

    def press_ctrl_c(self) -> None:
        """The terminal sends SIGINT to the whole process group."""
        os.write(self._terminal, b"\x03")

    def tell(self, word: str) -> None:
        os.write(self._terminal, f"{word}\n".encode())

    def hears(self, expected: object) -> None:
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        if line != str(expected):
            self.process.kill()
            raise AssertionError(f"said {line!r}: {self.process.communicate()[1]}")

    def launches(self, times: int = 1) -> None:
        for _ in range(times):
            self.tell("launch")
            self.hears(SQUARES)

    def end(self) -> tuple[dict[str, Any], str]:
        """The report, and what was said on standard error."""
        self.tell("end")
        _, errors = self.process.communicate(timeout=TIMEOUT_S)
        assert self.process.returncode == 0, errors
        return json.loads(self._report.read_text()), errors

    def close(self) -> None:
        """Ends all of it."""
        if self.process.poll() is None:
            for process in [*descendants(self.process.pid), self.process.pid]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            self.process.wait(TIMEOUT_S)
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()
        os.close(self._terminal)


@contextlib.contextmanager
def running(
    native_build: Path, place: Path, *options: str, before: Sequence[str] = (), terminal: bool = False
) -> Iterator[Running]:
    """Ended at the latest afterwards."""
    guest = Running(native_build / "native", place, *options, before=before, terminal=terminal)
    try:
        yield guest
    finally:
        guest.close()


def on_gpu_1(report: dict[str, Any]) -> int:
    """Launches that ran there, by the policy's count and by that of the run's own emulated GPUs."""
    launches = report["launches"]["by_device"]["1"]
    assert report["devices"][1]["launches"] == launches, report
    assert report["launches"]["by_device"].get("0", 0) == 0, report
    return int(launches)


def descendants(pid: int) -> list[int]:
    """All processes under it, whoever started them since."""
    children = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):  # this thread has ended meanwhile
                children += [int(child) for child in (task / "children").read_text().split()]
    return children + [below for child in children for below in descendants(child)]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def left_after(pids: Sequence[int], seconds: float) -> list[str]:
    """Command lines of those that are still there after so long; waits no longer than need be."""
    deadline = time.monotonic() + seconds
    while any(map(is_alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return [Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ") for pid in pids if is_alive(pid)]
