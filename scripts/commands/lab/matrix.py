"""Runs the end-to-end programs on emulated machines under policies; output and launch counts must be as in a bare run.

    scripts/lab matrix [--gpus 2,4] [--peer yes,no] [--policy one,half,name,random] [--seeds 20] [--jobs N]
                       [--json FILE] [--build DIR] [NAME...]

Prints a line per program and machine as it goes: how many launches ran on further GPUs and how many stayed home under
all policies together, and every difference. Exit status 0 when there was none. Needs nvcc, and a build tree in
TESSERA_NATIVE or an installation.
"""

import argparse
import json
import os
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from fnmatch import fnmatch
from pathlib import Path

from scripts.commands.dispatch import parser_of
from tests.e2e.build import Builder, BuildError, find_toolkit, programs
from tests.e2e.matrix import MACHINES, SEEDS, Machine, Placing, Result, compare, placings, run

ROOT = Path(__file__).resolve().parents[3]
DEFAULT_BUILD = ROOT / "build" / "e2e-programs"


def row(program: str, executable: Path | BuildError, machine: Machine, policies: list[Placing]) -> list[Result]:
    """One program on one machine under all policies."""
    if isinstance(executable, BuildError):
        return [Result(program, machine.name, "none", 0, {}, [f"not built: {executable}"])]
    with tempfile.TemporaryDirectory(prefix="matrix-") as scratch:
        folder = Path(scratch)
        bare = run(executable, machine, None, None, folder)
        if bare.code:
            fault = [f"bare: exit code {bare.code}: {bare.errors[-400:]}"]
            return [Result(program, machine.name, "bare", 0, {}, fault)]
        return [compare(program, machine, p, bare, run(executable, machine, p, None, folder)) for p in policies]


def timed_row(
    program: str, executable: Path | BuildError, machine: Machine, policies: list[Placing]
) -> tuple[list[Result], float]:
    started = time.monotonic()
    results = row(program, executable, machine, policies)
    return results, time.monotonic() - started


def show(results: list[Result], seconds: float) -> None:
    kept: Counter[str] = Counter()
    for result in results:
        kept.update(result.kept)
    bad = [result for result in results if result.faults]
    verdict = "DIFFERENT" if bad else "ok"
    reasons = ", ".join(f"{reason}: {count}" for reason, count in sorted(kept.items()))
    first = results[0]
    away = sum(result.away for result in results)
    print(f"{verdict:9}  {first.program:28} {first.machine:24} runs {len(results):3}  away {away:6}", end="")
    print(f"  kept {sum(kept.values()):6} ({reasons})  {seconds:.1f} s", flush=True)
    for result in bad:
        for fault in result.faults:
            print(f"    {result.policy}: {fault}", flush=True)


def wanted_machines(options: argparse.Namespace) -> list[Machine]:
    gpus = {int(count) for count in options.gpus.split(",")}
    peers = {word == "yes" for word in options.peer.split(",")}
    return [machine for machine in MACHINES if machine.gpus in gpus and machine.peer in peers]


def parse(words: Sequence[str]) -> argparse.Namespace:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("--gpus", default="2,4")
    parser.add_argument("--peer", default="yes,no")
    parser.add_argument("--policy", default="one,half,name,random")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--jobs", type=int, default=1, help="programs that run at once")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--build", type=Path, default=DEFAULT_BUILD)
    parser.add_argument("names", nargs="*", help="programs, as globs")
    return parser.parse_args(words)


def main(words: Sequence[str]) -> int:
    options = parse(words)
    kinds = set(options.policy.split(","))
    policies = [placing for placing in placings(options.seeds) if placing.name.split("-")[0] in kinds]
    chosen = [p for p in programs() if not options.names or any(fnmatch(p.name, name) for name in options.names)]
    built = Builder(find_toolkit(), options.build).build_all(chosen, os.cpu_count() or 1)
    results: list[Result] = []
    with ThreadPoolExecutor(options.jobs) as pool:
        pending = [
            pool.submit(timed_row, name, executable, machine, policies)
            for name, executable in built.items()
            for machine in wanted_machines(options)
        ]
        for job in as_completed(pending):
            rows, seconds = job.result()
            show(rows, seconds)
            results += rows
    if options.json:
        options.json.write_text(json.dumps({"results": [asdict(result) for result in results]}, indent=1) + "\n")
    bad = sum(bool(result.faults) for result in results)
    print(f"{len(results)} runs, {bad} different; {sum(result.away for result in results)} launches on further GPUs")
    return 1 if bad else 0
