"""Killing and stopping executors at random times while an application uses them, and what may come of it.

    python tests/fault/executor_faults.py RUNS [SEED]

Each second run has three executors, of which one fails. Afterwards the application's results are right, or it got a
CUDA error, within a second of the fault, and nothing is left behind.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT))

from tests.command import TESSERA_RUN, with_native  # noqa: E402

POLICY = """version: 1
devices: {home: 0, executors: [1]}
rules:
  - {match: {function: k_one}, device: 1}
default: home
"""
POLICY_OF_THREE = """version: 1
devices: {home: 0, executors: [1, 2, 3]}
rules:
  - {match: {function: k_one, nth: {every: 3}}, device: 1}
  - {match: {function: k_one, nth: {every: 3, offset: 1}}, device: 2}
  - {match: {function: k_one}, device: 3}
default: home
"""
BOUND_SECONDS = 1.0
SLACK_SECONDS = 1.0  # of a loaded machine, and the end of the program
LONGEST_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """`said`: the program's last line. `seconds`: from the fault to it."""

    said: str
    seconds: float
    log: str


def processes_under(parent: int, name: str) -> list[int]:
    """Live descendants of a process with that name."""
    children: dict[int, list[tuple[int, str]]] = {}
    for entry in Path("/proc").iterdir():
        try:
            status = (entry / "stat").read_text() if entry.name.isdigit() else ""
        except OSError:
            continue
        comm, fields = status.partition("(")[2].rpartition(")")[0], status.rpartition(")")[2].split()
        if fields and fields[0] != "Z":
            children.setdefault(int(fields[1]), []).append((int(entry.name), comm))
    found, left = [], [parent]
    while left:
        for child, comm in children.get(left.pop(), []):
            left.append(child)
            found += [child] if comm == name[:15] else []
    return found


def executors_under(parent: int, device: int) -> list[int]:
    words = b"--device\0%d\0" % device
    found = processes_under(parent, "tessera-executor")
    return [pid for pid in found if words in Path(f"/proc/{pid}/cmdline").read_bytes()]


def run(native: Path, policy: Path, rounds: int, fault: signal.Signals, delay: float, device: int = 1) -> Outcome:
    """Runs the worker and sends the fault to the executor of a GPU `delay` seconds after the worker's first round."""
    command = [str(TESSERA_RUN), "--emulate", "4", "--no-summary", "--policy", str(policy), "--"]
    command += [str(native.parent / "fault" / "fault_worker"), str(rounds)]
    environment = with_native(native)
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first = process.stdout.readline().strip()
        assert first == "started", first + process.stderr.read()
        time.sleep(delay)
        for executor in executors_under(process.pid, device):
            os.kill(executor, fault)
        start = time.monotonic()
        try:
            said = process.stdout.readline().strip()
            seconds = time.monotonic() - start
            process.wait(LONGEST_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        return Outcome(said, seconds, process.stderr.read())


def judge(outcome: Outcome, work_seconds: float) -> str | None:
    """What is wrong with it; None: nothing."""
    if outcome.said != "right" and not outcome.said.startswith("error "):
        return f"said {outcome.said!r}"
    if outcome.seconds > BOUND_SECONDS + SLACK_SECONDS + work_seconds:
        return f"took {outcome.seconds:.2f} s"
    if "executor" not in outcome.log and outcome.said != "right":
        return "the log does not say why"
    return None


def main() -> int:
    """Many runs; prints what came of them."""
    runs, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    native = Path(os.environ.get("TESSERA_NATIVE", ROOT / "build" / "native" / "native"))
    policy = ROOT / "build" / "fault-policy.yaml"
    rng, outcomes, wrong, longest = random.Random(seed), Counter[str](), 0, 0.0
    for number in range(runs):
        fault = rng.choice([signal.SIGKILL, signal.SIGSTOP])
        three = number % 2 == 1
        policy.write_text(POLICY_OF_THREE if three else POLICY)
        outcome = run(native, policy, 300, fault, rng.uniform(0, 0.4), rng.randint(1, 3) if three else 1)
        problem = judge(outcome, 1.0)
        outcomes[f"{fault.name}: {outcome.said}"] += 1
        longest = max(longest, outcome.seconds if outcome.said != "right" else 0.0)
        if problem:
            wrong += 1
            print(f"run {number} (seed {seed}), {fault.name}: {problem}\n{outcome.log}")
    for name, count in sorted(outcomes.items()):
        print(f"{count:5} {name}")
    print(f"{runs} runs, {wrong} wrong; the longest way to an error took {longest:.2f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
