"""Killing and stopping executors at random times while an application uses them, and what may come of it.

    python tests/fault/executor_faults.py RUNS [SEED] [--jobs N] [--memory copies]

Each second run has three executors, of which one fails. Afterwards the application's results are right, or it got a
CUDA error, within a second of the fault, and nothing is left behind.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT))

from tests.command import RUN, with_project  # noqa: E402
from tests.emulated import LEARNING, is_analysed  # noqa: E402

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
FOLLOW, COPIES = "memory: {place: follow}\n", "memory: {place: copies}\n"  # after a policy
EMULATED = ("--emulate", "4")  # the machine; nothing: this one
BOUND_SECONDS = 1.0
SLACK_SECONDS = 1.0  # of a loaded machine, and the end of the program
SLOWEST = re.compile(r"^slowest round (\d+) us$", re.MULTILINE)
LONGEST_SECONDS = 30.0
MOVED = "launches that it had not taken ran at home"


@dataclass(frozen=True, slots=True)
class Outcome:
    """`said`: the program's last line. `seconds`: from the fault to it. `left`: what it left behind."""

    said: str
    seconds: float
    log: str
    left: str

    @property
    def answer_seconds(self) -> float:
        """From the fault to the error, or what the slowest round of a program took whose results are right."""
        slowest = SLOWEST.search(self.log)
        return int(slowest[1]) / 1e6 if self.said == "right" and slowest else self.seconds


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


def send(processes: list[int], what: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, what)


def await_rest(processes: list[int]) -> None:
    """Until no thread of them runs any more: on a busy machine a signal takes its time."""
    deadline = time.monotonic() + LONGEST_SECONDS
    states = {"R"}
    while states - {"T", "Z", "X"} and time.monotonic() < deadline:
        states = set()
        for process in processes:
            for task in Path(f"/proc/{process}/task").glob("*/stat"):
                with contextlib.suppress(OSError):
                    states.add(task.read_text().rpartition(")")[2].split()[0])
        time.sleep(0.005)


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to the executor of a GPU, `delay` seconds after the worker's first round.

    `resumes_after`: seconds after which a stopped one is continued. `idle`: the worker does nothing until then.
    """

    signal: signal.Signals
    delay: float = 0.0
    device: int = 1
    resumes_after: float | None = None
    idle: bool = False


def learn(native: Path, policy: Path, cache: Path, machine: Sequence[str] = EMULATED) -> dict[str, str]:
    """Variables with which it is known from the first launch on what the worker's touch."""
    variables, report = {"XDG_CACHE_HOME": str(cache)}, policy.with_name("learnt.json")
    command = [*RUN, *machine, "--no-summary", "--json", str(report), "--policy", str(policy), "--"]
    command += [str(native.parent / "fault" / "fault_worker"), "3"]
    for _ in range(LEARNING):
        subprocess.run(
            command,
            env={**with_project(TESSERA_NATIVE=str(native)), **variables},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        found = json.loads(report.read_text())
        if "analysis" not in found or is_analysed(found):
            return variables
    raise AssertionError(f"not analysed after {LEARNING} runs: {found['analysis']}")


def run(
    native: Path,
    policy: Path,
    rounds: int,
    fault: Fault,
    variables: Mapping[str, str] | None = None,
    machine: Sequence[str] = EMULATED,
) -> Outcome:
    """Runs the worker and lets the fault happen."""
    command = [*RUN, *machine, "--no-summary", "--policy", str(policy), "--"]
    command += [str(native.parent / "fault" / "fault_worker"), str(rounds), *(["wait"] if fault.idle else [])]
    environment, pipe = (
        {**with_project(TESSERA_NATIVE=str(native)), "TESSERA_LOG": "info", **(variables or {})},
        subprocess.PIPE,
    )
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment, start_new_session=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        first = process.stdout.readline().strip()
        assert first == "started", first + process.stderr.read()
        time.sleep(fault.delay)
        executors = executors_under(process.pid, fault.device)
        send(executors, fault.signal)
        if fault.idle:
            await_rest(executors)
        process.stdin.write("\n")
        process.stdin.flush()
        start = time.monotonic()
        try:
            if fault.resumes_after is not None:
                time.sleep(fault.resumes_after)
                send(executors, signal.SIGCONT)
            said = process.stdout.readline().strip()
            seconds = time.monotonic() - start
            process.wait(LONGEST_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        log = process.stderr.read()
    deadline = time.monotonic() + SLACK_SECONDS  # workers of an executor that was killed end a moment after it
    while (left := left_behind(process.pid)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return Outcome(said, seconds, log, left)


def left_behind(starter: int) -> str:
    """What a run whose starter led a session of its own leaves in the machine; empty: nothing."""
    owner = b"--owner\0%d\0" % starter  # its executors are in sessions of their own
    processes = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, _, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            is_ours = session == str(starter) or owner in (entry / "cmdline").read_bytes()
            processes += [entry.name] if is_ours and state not in "ZX" else []
    files = [file.name for file in Path("/dev/shm").glob(f"tessera-{starter}-*")]
    return f"LEFT {processes} {files}" if processes or files else ""


def judge(outcome: Outcome, work_seconds: float) -> str | None:
    """What is wrong with it; None: nothing."""
    if outcome.left:
        return outcome.left
    if outcome.said != "right" and not outcome.said.startswith("error "):
        return f"said {outcome.said!r}"
    if outcome.seconds > BOUND_SECONDS + SLACK_SECONDS + work_seconds:
        return f"took {outcome.seconds:.2f} s"
    if "executor" not in outcome.log and outcome.said != "right":
        return "the log does not say why"
    return None


def random_fault(rng: random.Random, devices: int) -> Fault:
    """Killed, stopped, or stopped for a while; in the middle of work or between two pieces of it."""
    kind = rng.choice(["killed", "stopped", "resumed"])
    return Fault(
        signal.SIGKILL if kind == "killed" else signal.SIGSTOP,
        rng.uniform(0, 0.4),
        rng.randint(1, devices),
        rng.uniform(0, 1.5) if kind == "resumed" else None,
        rng.random() < 0.25,
    )


def name_of(fault: Fault) -> str:
    resumed = "" if fault.resumes_after is None else ", then continued"
    return f"{fault.signal.name}{resumed}{' while idle' if fault.idle else ''}"


def one(
    native: Path,
    variables: Mapping[str, str],
    policy: Path,
    seed: str,
    three: bool,
    machine: Sequence[str] = EMULATED,
    rounds: int = 300,
) -> tuple[Fault, Outcome, str | None]:
    """One run with a fault that the seed decides."""
    fault = random_fault(random.Random(seed), 3 if three else 1)
    outcome = run(native, policy, rounds, fault, variables, machine)
    return fault, outcome, judge(outcome, 1.0 + (fault.resumes_after or 0.0))


def main() -> int:
    """Many runs; prints what came of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=int, metavar="RUNS")
    parser.add_argument("seed", type=int, nargs="?", default=1, metavar="SEED")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--memory", choices=["follow", "copies"], default="follow", help="place of memory")
    arguments = parser.parse_args()
    native = Path(os.environ.get("TESSERA_NATIVE", ROOT / "build" / "native" / "native"))
    outcomes, wrong, moved, longest = Counter[str](), 0, 0, 0.0
    with tempfile.TemporaryDirectory() as directory, ThreadPoolExecutor(arguments.jobs) as pool:
        policies = [Path(directory) / "one.yaml", Path(directory) / "three.yaml"]
        place = COPIES if arguments.memory == "copies" else FOLLOW
        policies[0].write_text(POLICY + place)
        policies[1].write_text(POLICY_OF_THREE + place)
        variables = learn(native, policies[1], Path(directory) / "cache") if place else {}
        numbers = range(arguments.runs)
        seeds = [f"{arguments.seed}-{number}" for number in numbers]
        threes = [number % 2 == 1 for number in numbers]
        found = pool.map(partial(one, native, variables), [policies[three] for three in threes], seeds, threes)
        for number, (fault, outcome, problem) in enumerate(found):
            outcomes[f"{name_of(fault)}: {outcome.said}"] += 1
            moved += MOVED in outcome.log
            if outcome.said.startswith("error") and fault.resumes_after is None:
                longest = max(longest, outcome.seconds)
            if problem:
                wrong += 1
                print(f"run {number} (seed {seeds[number]}), {name_of(fault)}: {problem}\n{outcome.log}")
    for name, count in sorted(outcomes.items()):
        print(f"{count:5} {name}")
    print(
        f"{arguments.runs} runs, {wrong} wrong; in {moved} launches moved home; "
        f"the longest way to an error took {longest:.2f} s"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
