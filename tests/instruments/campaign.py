"""Random launches of kernels on the emulated driver, judged against the prediction."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.command import TESSERA_RUN
from tests.instruments.oracle import Oracle, Verdict, launches
from tests.instruments.plan import Kernel

_LAUNCHER = Path(__file__).with_name("launcher.py")
_STALL_S = 10.0  # of the CPU's time: a launch that takes more is given up
_HANG_S = 3600


def verdicts(
    wanted: Sequence[Kernel],
    launches_each: int,
    seed: int,
    directory: Path,
    environment: Mapping[str, str] = {},
) -> Iterator[Verdict]:
    """Launches every kernel so many times, all in one process; when that takes too long, what it did until then
    counts.
    """
    chance = random.Random(seed)
    yield from judged([kernel.job(chance) for kernel in wanted for _ in range(launches_each)], directory, environment)


def judged(
    jobs: Sequence[str],
    directory: Path,
    environment: Mapping[str, str] = {},
    oracle: Oracle | None = None,
    stall_s: float = _STALL_S,
    how: Counter[str] | None = None,
) -> Iterator[Verdict]:
    """Verdicts on the launcher's jobs, each with its job. `how` counts how jobs ended."""
    oracle = oracle or Oracle()
    ends = launched(jobs, directory, environment, stall_s)
    if how is not None:
        how.update(ends)
    elif len(ends) < len(jobs):
        print(f"{len(jobs) - len(ends)} of {len(jobs)} launches were not made in time", file=sys.stderr)
    made = [(job, end) for job, end in zip(jobs, ends, strict=False) if end != "refused"]
    trace = directory / "trace"
    if trace.exists():
        for (job, end), traced in zip(made, launches(trace), strict=False):
            verdict = oracle.judge(traced)
            verdict.complete, verdict.job = end == "right", job
            yield verdict


def launched(jobs: Sequence[str], directory: Path, environment: Mapping[str, str], stall_s: float) -> list[str]:
    """How each job ended, up to the first that takes too long. What it touched lies in the file `trace`."""
    listed, ends, trace = directory / "jobs", directory / "ends", directory / "trace"
    listed.write_text("".join(f"{job}\n" for job in jobs))
    for file in (trace, *directory.glob("trace.*.ptx")):
        file.unlink(missing_ok=True)
    ends.write_text("")
    command = [str(TESSERA_RUN), "--emulate", "1", "--", sys.executable, str(_LAUNCHER)]
    command += [str(listed), str(ends), str(stall_s)]
    surroundings = {**os.environ, **environment, "TESSERA_ACCESS_TRACE": str(trace)}
    running = subprocess.Popen(
        command, env=surroundings, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        with suppress(subprocess.TimeoutExpired):
            running.wait(_HANG_S)
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)  # the program, too
            running.wait()
    return ends.read_text().split()
