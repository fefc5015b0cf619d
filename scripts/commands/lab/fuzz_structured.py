"""Holds predicted ranges of random structured kernels against their execution; reports every byte that lacks.

    scripts/lab fuzz-structured [--seconds S] [--seed N] [--kernels N] [--jobs N] [--findings DIR]

Kernels of loops, branches, predicates, phis, shifts and divisions (tests/fuzz/structured.py), so many in a module, each
launched three times on the emulated driver, which says what they touch. One of the launches is looked at thread by
thread, too, by the template (tests/instruments/naive.py). It must find all that was executed, or else the template is
wrong; where the ranges lack bytes that it finds, the evaluation is. Modules are begun for S seconds (60), the first
from seed N, the others from those after it. A module with a finding is kept in the directory, with the launches and the
bytes in a file beside it. Exit status 1 with any finding, 2 when launches did not come to their end.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict
from itertools import count
from pathlib import Path
from time import monotonic

from scripts.commands.dispatch import parser_of
from tests.fuzz.structured_target import Checked, check

REPORT_S = 30.0


def main(words: Sequence[str]) -> int:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kernels", type=int, default=100, help="of a module")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time, a module each")
    parser.add_argument("--findings", type=Path, default=Path("findings"))
    options = parser.parse_args(words)
    counts, modules = Counter[str](), 0
    begin = reported = monotonic()
    with ProcessPoolExecutor(options.jobs) as pool:
        seeds = count(options.seed)
        pending: set[Future[Checked]] = set()
        while True:
            while len(pending) < options.jobs and (not modules or monotonic() < begin + options.seconds):
                pending.add(pool.submit(look_at, next(seeds), options.kernels, options.findings))
                modules += 1
            if not pending:
                break
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            for each in done:
                counts += each.result().counts
                counts["findings"] += len(each.result().findings)
            if monotonic() - reported > REPORT_S:
                reported = monotonic()
                print(f"{modules} modules: {dict(counts)}", flush=True)
    print(json.dumps({"modules": modules, "seconds": round(monotonic() - begin, 1), **counts}, indent=2))
    if counts["findings"]:
        return 1
    return 2 if counts["late"] or counts["complete"] < counts["launches"] else 0


def look_at(seed: int, kernels: int, findings: Path) -> Checked:
    with tempfile.TemporaryDirectory() as name:
        found = check(seed, kernels, Path(name))
        if found.findings:
            findings.mkdir(parents=True, exist_ok=True)
            (findings / f"{seed}.ptx").write_bytes(Path(name, "module.ptx").read_bytes())
            (findings / f"{seed}.json").write_text(json.dumps([asdict(each) for each in found.findings], indent=1))
            for each in found.findings:
                print(f"seed {seed}, {json.loads(each.job)['function']}, by the {each.by}: {each.bytes}", flush=True)
    return found
