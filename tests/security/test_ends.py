"""What is of a run ends with it, also when somebody is killed or a kernel hangs; and nothing ends too early."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.security.running import descendants, left_after, on_gpu_1, running

BOUND_S = 1.0


def test_an_interrupt_that_the_program_handles_ends_nothing(native_build: Path, tmp_path: Path) -> None:
    with running(native_build, tmp_path, terminal=True) as guest:
        guest.launches(2)
        for _ in range(3):
            guest.press_ctrl_c()
            guest.hears("interrupted")
            guest.launches(2)
        report, errors = guest.end()
    assert on_gpu_1(report) == 8
    assert errors == ""


def program_of(starter: int) -> int:
    [found] = [p for p in descendants(starter) if b"guest.py" in Path(f"/proc/{p}/cmdline").read_bytes()]
    return found


@pytest.mark.full
@pytest.mark.alone
@pytest.mark.parametrize("work", ["idle", "hang"])
@pytest.mark.parametrize("who", ["tessera-run", "program", "both"])
def test_everything_ends_after_its_owner(who: str, work: str, native_build: Path, tmp_path: Path) -> None:
    """Of tessera-run's own processes nothing is left; the program is its user's, and lives on if it was not killed."""
    with running(native_build, tmp_path, "--stats", "--analyze") as guest:
        guest.launches()
        if work == "hang":
            guest.tell("hang")
            guest.hears("hangs")
        starter, program = guest.process.pid, program_of(guest.process.pid)
        ours = [pid for pid in descendants(starter) if pid != program]
        assert len([pid for pid in ours if b"tessera-executor" in Path(f"/proc/{pid}/cmdline").read_bytes()]) == 2
        for pid in {"tessera-run": [starter], "program": [program], "both": [starter, program]}[who]:
            os.kill(pid, signal.SIGKILL)
        if who != "tessera-run":
            ours.append(program)
        begin = time.monotonic()
        guest.process.wait(10)
        left = left_after(ours, BOUND_S - (time.monotonic() - begin))
        assert not left, f"{time.monotonic() - begin:.2f} s"
        assert time.monotonic() - begin < BOUND_S
        if who == "tessera-run" and work == "idle":  # else it gets an error for the work that is lost
            assert left_after([program], 0) != []
            os.kill(program, signal.SIGKILL)


def test_an_executor_serves_the_next_program_after_one_that_hung(native_build: Path, tmp_path: Path) -> None:
    """Children of one run share the executor; each gets a worker that works."""
    with running(native_build, tmp_path, "--stats") as guest:
        guest.launches()
        starter = guest.process.pid
        executors = [p for p in descendants(starter) if b"executor" in Path(f"/proc/{p}/cmdline").read_bytes()]
        guest.tell("hang")
        guest.hears("hangs")
        os.kill(program_of(starter), signal.SIGKILL)
        guest.process.wait(10)
        assert left_after(executors, BOUND_S) == []
    with running(native_build, tmp_path / "next") as guest:
        guest.launches(2)
        assert on_gpu_1(guest.end()[0]) == 2
