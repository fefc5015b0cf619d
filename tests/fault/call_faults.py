"""Failing the n-th driver call or allocation in the executor, or in the application's process, and what may come of it.

    python tests/fault/call_faults.py [STEP] [--first N] [--memory copies]

The program ends by itself, with right results or with a CUDA error; never with wrong words, a signal or not at all. No
process and no socket of the run is left behind. `allocation` stands for all that Tessera's own code asks the C library
for: memory, mappings, memory files, sockets, threads (fault_alloc.c).
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping
from itertools import product
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT))

from tests.command import RUN, with_project  # noqa: E402
from tests.fault.executor_faults import COPIES, FOLLOW, POLICY, Outcome, learn, left_behind  # noqa: E402
from tests.fault.fault_driver import build  # noqa: E402

ROUNDS, LONGEST_SECONDS = 5, 60.0
EXECUTOR, APPLICATION = "tessera-executor", "fault_worker"
CALL, ALLOCATION = "TESSERA_FAULT", "TESSERA_FAULT_ALLOCATION"
NAMES = {CALL: "call", ALLOCATION: "allocation"}


def run(
    native: Path,
    tree: Path,
    policy: Path,
    process: str,
    number: int | str,
    sort: str = CALL,
    variables: Mapping[str, str] | None = None,
) -> str:
    """The program's last line, or what is wrong with its end. `number`: with `:FUNCTION`, of its calls alone."""
    return outcome_of(native, tree, policy, process, number, sort, variables, tree.parent / "mark").said


def outcome_of(
    native: Path,
    tree: Path,
    policy: Path,
    process: str,
    number: int | str,
    sort: str,
    variables: Mapping[str, str] | None,
    mark: Path,
) -> Outcome:
    """The same, and how long it took from the fault, which leaves the mark, to the last line."""
    mark.unlink(missing_ok=True)
    command = [*RUN, "--emulate", "2", "--no-summary", "--policy", str(policy), "--"]
    command += [str(native.parent / "fault" / "fault_worker"), str(ROUNDS), "churn"]
    environment = {
        **with_project(),
        **(variables or {}),
        "TESSERA_NATIVE": str(tree),
        "TESSERA_FAULT_DRIVER": str(native / "emulator" / "libcuda.so.1"),
        sort: f"{process}:{number}",
        "TESSERA_FAULT_MARK": str(mark),
        **({"LD_PRELOAD": str(tree.parent / "fault_alloc.so")} if sort == ALLOCATION else {}),
    }
    with tempfile.TemporaryFile("w+") as log:
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment, start_new_session=True
        ) as running:
            started = time.monotonic()
            watchdog = threading.Timer(LONGEST_SECONDS, running.terminate)
            watchdog.start()
            assert running.stdout is not None
            said, at = "nothing", time.time()
            for line in running.stdout:
                said, at = line.strip() or said, time.time()
            running.wait()
            watchdog.cancel()
        log.seek(0)
        complaints = log.read()
    seconds = max(0.0, at - mark.stat().st_mtime) if mark.exists() else 0.0
    ended = {"right": 0, "error": 3}.get(said.split()[0])
    if running.returncode != ended:
        how = "HANG" if time.monotonic() - started > LONGEST_SECONDS else f"EXIT {running.returncode}"
        return Outcome(f"{how} after {said!r}: {complaints.strip()}", seconds, complaints, "")
    return Outcome(left_behind(running.pid) or said, seconds, complaints, "")


def is_right(outcome: str) -> bool:
    """What may come of a fault."""
    return outcome == "right" or outcome.startswith("error ")


def all_of(
    native: Path, tree: Path, policy: Path, process: str, sort: str, first: int, step: int, variables: Mapping[str, str]
) -> int:
    """Every STEP-th call until there is none; says what came of them. How many were wrong."""
    outcomes, number, wrong, mark = Counter[str](), first, 0, tree.parent / "mark"
    while (outcome := run(native, tree, policy, process, number, sort, variables)) and mark.exists():
        outcomes[outcome if is_right(outcome) else outcome.split(":")[0]] += 1
        if not is_right(outcome):
            wrong += 1
            print(f"{process}, {NAMES[sort]} {number} {mark.read_text()}: {outcome}", flush=True)
        number += step
    print(f"{process}: {NAMES[sort]}s {first} to {number - step}, every {step}: {dict(outcomes)}", flush=True)
    return wrong


def main() -> int:
    """Every STEP-th call of both processes; prints what came of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", type=int, nargs="?", default=1, metavar="STEP")
    parser.add_argument("--memory", choices=["follow", "copies"], default="follow", help="place of memory")
    parser.add_argument("--first", type=int, default=1, help="number of the first call that fails")
    arguments = parser.parse_args()
    native = Path(os.environ.get("TESSERA_NATIVE", ROOT / "build" / "native" / "native"))
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        tree = build(native, native.parent / "cuda-headers", directory)
        policy = directory / "policy.yaml"
        policy.write_text(POLICY + (COPIES if arguments.memory == "copies" else FOLLOW))
        variables = learn(native, policy, directory / "cache") if arguments.memory == "copies" else {}
        wrong = sum(
            all_of(native, tree, policy, process, sort, arguments.first, arguments.step, variables)
            for sort, process in product((CALL, ALLOCATION), (EXECUTOR, APPLICATION))
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
