"""Faults of executors, driver calls and memory while GPUs have copies of memory, and what came of each.

    scripts/lab faults [--runs 500] [--memory copies|follow] [--jobs N] [--seed S] [--json FILE]
    scripts/lab faults --real [--runs N] ...      on this machine's GPUs

The runs are shared out among

  executors   one is killed, stopped, or stopped for a while, at a random time (tests/fault/executor_faults.py)
  calls       the n-th driver call or allocation of the program or its executor fails (call_faults.py)
  memory      a GPU that pulls is full from a random time on, or the n-th call that makes, maps or opens memory fails

A run is wrong if a word is, if the program ends in another way than with right results or a CUDA error, if a process, a
file or a socket is left behind, or if it took more than a second from the fault to the error, or a round of a program
that went on took so long (--bound; of a busy machine more). On real GPUs the same program runs beside one whose GPU is
full, without Tessera: what the driver makes its slowest round wait, while another process takes a GPU's memory, is
added. Exit status 1 if one is wrong. --real has no driver whose calls fail, so only executors and full GPUs are tried,
with 2 GPUs or, from 4 on, also with three executors. Needs a build tree with tests (build/native, or the one that
TESSERA_NATIVE names).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

from controlplane.machine.parts import parts_of
from scripts.commands.dispatch import parser_of
from tests.command import RUN, with_project
from tests.fault import call_faults, executor_faults
from tests.fault.call_faults import ALLOCATION, APPLICATION, CALL, EXECUTOR
from tests.fault.executor_faults import COPIES, EMULATED, POLICY, POLICY_OF_THREE, SLOWEST, Outcome, left_behind
from tests.fault.fault_driver import build

ROOT = Path(__file__).resolve().parents[3]
BOUND_SECONDS = 1.0
RESUMED_SECONDS = 1.0  # a stopped executor that goes on may do so as late as it is given up
SHARES = {"executors": 0.4, "calls": 0.4, "memory": 0.2}
REAL_ROUNDS, ROUNDS, FULL_ROUNDS = 3000, 300, 1000
COMBINATIONS = [(process, sort) for sort in (CALL, ALLOCATION) for process in (EXECUTOR, APPLICATION)]
MEMORY_CALLS = ("cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemImportFromShareableHandle", "cuMemAddressReserve")
NO_ROOM = "has no room for more copies"
SMALL = "devices:\n  - {gpu: h200, count: 1}\n  - {gpu: h200, count: 1, memory_gib: 0.125}\n"


@dataclass(frozen=True, slots=True)
class Setting:
    native: Path
    folder: Path
    tree: Path | None  # with the driver whose calls fail; None: GPUs are real
    machine: tuple[str, ...]
    small: tuple[str, ...]  # the machine whose GPU 1 is to be full
    one: Path
    three: Path | None
    variables: dict[str, str]
    seed: int
    bound_seconds: float
    highest: dict[str, int] = field(default_factory=dict)  # numbers of calls beyond which there are none
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True, slots=True)
class Run:
    """`wrong`: what is; empty: nothing. `happened`: the fault did, and pulls were under way."""

    kind: str
    fault: str
    said: str
    seconds: float
    wrong: str
    happened: bool = True


def judged(setting: Setting, kind: str, fault: str, outcome: Outcome, slack: float = 0.0, happened: bool = True) -> Run:
    said, seconds = outcome.said, outcome.answer_seconds
    wrong = outcome.left
    if not call_faults.is_right(said):
        wrong = f"said {said!r}"
    elif seconds > setting.bound_seconds + slack:
        wrong = f"took {seconds:.2f} s"
    return Run(kind, fault, said if call_faults.is_right(said) else said.split(":")[0], seconds, wrong, happened)


def fault_of_executor(setting: Setting, number: int) -> Run:
    policy, three = (setting.three, True) if setting.three and number % 2 else (setting.one, False)
    seed, rounds = f"{setting.seed}-{number}", ROUNDS if setting.tree else REAL_ROUNDS
    fault, outcome, _ = executor_faults.one(
        setting.native, setting.variables, policy, seed, three, setting.machine, rounds
    )
    slack = 0.0 if fault.resumes_after is None else RESUMED_SECONDS + fault.resumes_after
    return judged(setting, "executors", executor_faults.name_of(fault), outcome, slack)


def failing(setting: Setting, number: int, kind: str, process: str, sort: str, function: str) -> Run:
    """One call fails, whose number is drawn among those that there are."""
    rng = random.Random(f"{setting.seed}-{kind}-{number}")
    key = f"{process} {sort} {function}"
    mark = setting.folder / f"mark-{kind}-{number}"
    assert setting.tree is not None
    highest = 1 << 10
    while True:
        with setting.lock:
            highest = min(highest, setting.highest.get(key, 1 << 10))
        chosen = rng.randint(1, highest)
        which = f"{chosen}:{function}" if function else str(chosen)
        outcome = call_faults.outcome_of(
            setting.native, setting.tree, setting.one, process, which, sort, setting.variables, mark
        )
        if mark.exists() or highest == 1:
            what = f"{process}, {call_faults.NAMES[sort]} {f'of {function}' if function else ''}".strip()
            return judged(setting, kind, what, outcome, happened=mark.exists())
        with setting.lock:
            setting.highest[key] = max(1, min(setting.highest.get(key, 1 << 10), chosen - 1))


def fault_of_call(setting: Setting, number: int) -> Run:
    process, sort = COMBINATIONS[number % len(COMBINATIONS)]
    return failing(setting, number, "calls", process, sort, "")


def fault_of_memory(setting: Setting, number: int) -> Run:
    if setting.tree is None or number % 2:
        return full_gpu(setting, number)
    process = (EXECUTOR, APPLICATION)[number // 2 % 2]
    return failing(setting, number, "memory", process, CALL, MEMORY_CALLS[number // 4 % len(MEMORY_CALLS)])


def full_gpu(setting: Setting, number: int) -> Run:
    """Another process takes all memory of GPU 1 while the program has new memory in each round."""
    rng = random.Random(f"{setting.seed}-full-{number}")
    fault = setting.native.parent / "fault"
    hog = f"{fault / 'fault_hog'} 1 {rng.randint(0, 300)} {rng.randint(50, 3000)}"
    worker, native = f"{fault / 'fault_worker'} {FULL_ROUNDS} churn", setting.folder / f"native-{number}"
    beside = "" if setting.tree else f"env -u LD_PRELOAD {worker} > /dev/null 2> {native} & beside=$!; "
    script = f"{hog} & hog=$!; {beside}{worker}; said=$?; kill $hog $beside; wait; exit $said"
    command = [*RUN, *setting.small, "--no-summary", "--policy", str(setting.one), "--", "sh", "-c", script]
    environment = with_project(**setting.variables, TESSERA_NATIVE=str(setting.native), TESSERA_LOG="info")
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    ) as running:
        try:
            out, log = running.communicate(timeout=call_faults.LONGEST_SECONDS)
        except subprocess.TimeoutExpired:
            running.terminate()
            out, log = "HANG", ""
    said = (out.strip().splitlines() or ["nothing"])[-1]
    outcome = Outcome(said, 0.0, log, left_behind(running.pid))
    return judged(setting, "memory", "GPU 1 is full", outcome, slowest_natively(native), NO_ROOM in log)


def slowest_natively(log: Path) -> float:
    """Seconds of a round without Tessera; 0.0: it did not come to its end."""
    slowest = SLOWEST.search(log.read_text()) if log.exists() else None
    return int(slowest[1]) / 1e6 if slowest else 0.0


KINDS = {"executors": fault_of_executor, "calls": fault_of_call, "memory": fault_of_memory}


def prepared(folder: Path, arguments: argparse.Namespace) -> Setting:
    native = Path(os.environ.get("TESSERA_NATIVE", ROOT / "build" / "native" / "native")).absolute()
    place = COPIES if arguments.memory == "copies" else ""
    one, three, small = folder / "one.yaml", folder / "three.yaml", folder / "small.yaml"
    one.write_text(POLICY + place)
    three.write_text(POLICY_OF_THREE + place)
    small.write_text(SMALL)
    machine: tuple[str, ...] = () if arguments.real else EMULATED
    has_three = not arguments.real or gpu_count() * parts_of(os.environ) >= 4
    variables = executor_faults.learn(native, three if has_three else one, folder / "cache", machine) if place else {}
    return Setting(
        native,
        folder,
        None if arguments.real else build(native, native.parent / "cuda-headers", folder),
        machine,
        () if arguments.real else ("--emulate", str(small)),
        one,
        three if has_three else None,
        variables,
        arguments.seed,
        arguments.bound,
    )


def gpu_count() -> int:
    done = subprocess.run(["nvidia-smi", "--list-gpus"], text=True, capture_output=True, check=True)
    return len(done.stdout.splitlines())


def plan(runs: int, real: bool) -> list[tuple[str, int]]:
    shares = {"executors": 0.7, "memory": 0.3} if real else SHARES
    jobs = [(kind, number) for kind, share in shares.items() for number in range(round(runs * share))]
    random.Random(0).shuffle(jobs)  # all kinds at all times
    return jobs


def table(runs: Sequence[Run]) -> str:
    lines = [f"{'fault':72} {'runs':>5} {'right':>6} {'error':>6} {'wrong':>6} {'longest':>9}"]
    for kind, fault in sorted({(run.kind, run.fault) for run in runs}):
        some = [run for run in runs if (run.kind, run.fault) == (kind, fault)]
        said = Counter(run.said.split()[0] for run in some if not run.wrong)
        wrong, longest = sum(bool(run.wrong) for run in some), max(run.seconds for run in some)
        counts = f"{len(some):5} {said['right']:6} {said['error']:6} {wrong:6}"
        lines.append(f"{f'{kind}: {fault}':72} {counts} {longest:7.2f} s")
    missed = Counter(run.kind for run in runs if not run.happened)
    without = ", ".join(f"{count} of {kind}" for kind, count in missed.items())
    lines.append(f"{len(runs)} runs, {sum(bool(run.wrong) for run in runs)} wrong")
    return "\n".join([*lines, *([f"the fault did not happen, or met no pull, in {without}"] if without else [])])


def main(words: Sequence[str]) -> int:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--memory", choices=["copies", "follow"], default="copies", help="place of memory")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) // 2), help="runs at a time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bound", type=float, default=BOUND_SECONDS, help="seconds to an error or recovery")
    parser.add_argument("--real", action="store_true", help="on this machine's GPUs")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args(words)
    started, runs = time.monotonic(), []
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(arguments.jobs) as pool:
        setting = prepared(Path(place), arguments)
        for run in pool.map(lambda job: KINDS[job[0]](setting, job[1]), plan(arguments.runs, arguments.real)):
            runs.append(run)
            if run.wrong:
                print(f"{run.kind}, {run.fault}: {run.wrong}", flush=True)
            if len(runs) % 25 == 0:
                print(f"{len(runs)} runs, {sum(bool(each.wrong) for each in runs)} wrong", file=sys.stderr, flush=True)
    print(table(runs))
    wrong = sum(bool(run.wrong) for run in runs)
    if arguments.json:
        seconds = round(time.monotonic() - started, 1)
        found = {"runs": len(runs), "wrong": wrong, "seconds": seconds, "each": [asdict(run) for run in runs]}
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")
    return 1 if wrong else 0
