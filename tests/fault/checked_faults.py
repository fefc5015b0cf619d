"""Failing the n-th driver call or allocation of a program whose launches are checked, and what may come of it.

    python tests/fault/checked_faults.py [--step STEP] [--calls N[:FUNCTION],...] [--allocations N,...]

The program (worker.c) runs again and again below one tessera-run with --check-accesses and --check-writes, so that all
its kernels are known from its first launch on. It ends by itself, with right results or with a CUDA error; and what
only a check asks of the driver must not be noticed at all. Without numbers, each STEP-th until there is none; with a
FUNCTION, its calls alone are counted.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT))

from controlplane.run import checks  # noqa: E402
from controlplane.run.checks import CheckReport  # noqa: E402
from tests.command import with_project  # noqa: E402
from tests.fault.fault_driver import build  # noqa: E402
from tests.templates import wait_for  # noqa: E402

WORKER = "fault_worker"
SORTS = {"call": "TESSERA_FAULT", "allocation": "TESSERA_FAULT_ALLOCATION"}
KERNELS = 3
LONGEST_SECONDS = 60
ENDS = {"right": 0, "error": 3}
# What neither the program nor memory that it is given asks for.
OF_CHECKS = re.compile(r"cuLibrary|cuKernel|cuStreamGetCtx|cuMemcpy(HtoD|DtoD)Async|cuCtxRecordEvent|cuEventQuery")


@dataclass(frozen=True, slots=True)
class Outcome:
    """`failed`: the function that was made to fail, if it was the driver's; `said`: the program's last line; `tested`:
    launches; `wrong`: what is wrong with its end, "": nothing.
    """

    sort: str
    number: str
    failed: str
    said: str
    tested: int
    wrong: str


def told() -> CheckReport:
    """What came out so far, of all processes of the run."""
    return checks.read(Path(os.environ["TESSERA_CHECKS"]).read_bytes())


def one(worker: str, directory: Path, sort: str, number: str) -> Outcome | None:
    """Number 0: without a fault. None: there is no such call or allocation."""
    mark, before = directory / "mark", told()
    mark.unlink(missing_ok=True)
    environment = {**os.environ, SORTS[sort]: f"{WORKER}:{number}", "TESSERA_FAULT_MARK": str(mark)}
    if sort == "allocation":
        environment["LD_PRELOAD"] = f"{directory / 'fault_alloc.so'}:{os.environ['LD_PRELOAD']}"
    command = [worker, "1", "count"]
    try:
        done = subprocess.run(
            command, env=environment, text=True, capture_output=True, timeout=LONGEST_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return Outcome(sort, number, "", "", 0, "it hangs")
    if number != "0" and not mark.exists():
        return None
    failed, after = mark.read_text() if mark.exists() else "", told()
    said = (done.stdout.strip().splitlines() or ["nothing"])[-1]
    wrong = ""
    if done.returncode != ENDS.get(said.split()[0]):
        wrong = f"it ended with code {done.returncode}: {done.stderr.strip()}"
    elif said != "right" and OF_CHECKS.match(failed):
        wrong = "the program noticed"
    elif after.violations > before.violations:
        wrong = f"a right launch was called wrong: {after.told[-1:]}"
    return Outcome(sort, number, failed, said, after.tested_launches - before.tested_launches, wrong)


def inside(worker: str, directory: Path, wanted: dict[str, list[str]], step: int) -> Iterator[Outcome]:
    """Runs below tessera-run."""
    one(worker, directory, "call", "0")
    wait_for(KERNELS)
    for sort, numbers in wanted.items():
        for number in numbers or map(str, count(1, step)):
            found = one(worker, directory, sort, number)
            if found is None:
                break
            yield found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--step", type=int, default=1)
    for sort in SORTS:
        parser.add_argument(f"--{sort}s", type=lambda text: text.split(","), default=[])
    parser.add_argument("--inside", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        worker, directory = options.inside
        asked = {sort: getattr(options, f"{sort}s") for sort in SORTS}
        given = {sort: numbers for sort, numbers in asked.items() if numbers} or asked
        for outcome in inside(worker, Path(directory), given, options.step):
            print(json.dumps(asdict(outcome)), flush=True)
        return 0
    native = Path(os.environ.get("TESSERA_NATIVE", ROOT / "build" / "native" / "native"))
    with tempfile.TemporaryDirectory() as name:
        tree = build(native, native.parent / "cuda-headers", Path(name))
        return report(outcomes(native, tree, sys.argv[1:]))


def outcomes(native: Path, tree: Path, arguments: list[str]) -> Iterator[Outcome]:
    """tree: with the driver that fails."""
    worker = native.parent / "fault" / WORKER
    run = [sys.executable, "-m", "controlplane.commands.run", "--emulate", "1", "--no-summary"]
    script = [sys.executable, __file__, *arguments, "--inside", str(worker), str(tree.parent)]
    command = [*run, "--check-accesses", "--check-writes", "--", *script]
    environment = with_project(
        TESSERA_NATIVE=str(tree),
        TESSERA_FAULT_DRIVER=str(native / "emulator" / "libcuda.so.1"),
        XDG_CACHE_HOME=str(tree.parent / "cache"),
    )
    with subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        for line in running.stdout:
            yield Outcome(**json.loads(line))
    assert running.returncode == 0


def report(found: Iterator[Outcome]) -> int:
    ends, wrong = {sort: Counter[str]() for sort in SORTS}, 0
    for each in found:
        ends[each.sort]["wrong" if each.wrong else each.said] += 1
        wrong += bool(each.wrong)
        came = f"WRONG, {each.wrong}" if each.wrong else f"{each.said}, {each.tested} launches tested"
        print(f"{each.sort} {each.number} {each.failed}: {came}", flush=True)
    for sort, counts in ends.items():
        print(f"{sort}s: {dict(counts)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
