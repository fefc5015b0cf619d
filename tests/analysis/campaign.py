"""Random launches of kernels on the emulated driver, judged against the prediction."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tests.analysis.oracle import Oracle, Verdict, launches
from tests.analysis.plan import Kernel

_LAUNCHER = Path(__file__).with_name("launcher.py")
_TIMEOUT_S = 60


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


def judged(jobs: Sequence[str], directory: Path, environment: Mapping[str, str]) -> Iterator[Verdict]:
    """Verdicts on the launcher's jobs."""
    listed, ends, trace = directory / "jobs", directory / "ends", directory / "trace"
    listed.write_text("".join(f"{job}\n" for job in jobs))
    trace.unlink(missing_ok=True)
    tessera_run = Path(sysconfig.get_path("scripts")) / "tessera-run"
    command = [str(tessera_run), "--emulate", "1", "--", sys.executable, str(_LAUNCHER), str(listed), str(ends)]
    surroundings = {**os.environ, **environment, "TESSERA_ACCESS_TRACE": str(trace)}
    running = subprocess.Popen(
        command, env=surroundings, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        running.wait(_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        print(f"{len(jobs)} launches took too long", file=sys.stderr)
        os.killpg(running.pid, signal.SIGKILL)  # the program, too
        running.wait()
    if trace.exists():
        oracle = Oracle()
        how = ends.read_text().split()
        for number, traced in enumerate(launches(trace)):
            verdict = oracle.judge(traced)
            verdict.complete = number < len(how) and how[number] == "right"
            yield verdict
