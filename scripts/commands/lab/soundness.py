"""Compares predicted accesses with what the emulated driver records, and prints a table.

    scripts/lab soundness [--launches N] [--slice N] [--together N] [--seed N] [--json FILE]
                      FILE...
    scripts/lab soundness --traces TRACE...
    scripts/lab soundness --corpus DIR|FILE --state DIR [--launches N] [--seconds S] [--seed N] [--jobs N]
                      [--json FILE]

FILE: PTX texts, fat binaries or executables; each of their kernels that is understood is launched N times with random
shapes and parameters under `tessera-run --emulate 1`. TRACE: files that programs left under TESSERA_ACCESS_TRACE.
--corpus: what `scripts/lab corpus` made, or packed; N processes at a time go on where the run stopped (--state) until N
launches were made in all, or S seconds are over. A launch whose random parameters lead it out of its pointer's
allocation is stopped there, and counted as a stray (tests/instruments/oracle.py). Exit status 1 when a byte lies
outside of a prediction.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from time import monotonic

from ptxtools.image import best, texts
from scripts.commands.dispatch import parser_of
from tests.instruments.campaign import verdicts
from tests.instruments.nightly import Nightly
from tests.instruments.oracle import Oracle, launches
from tests.instruments.pack import unpacked
from tests.instruments.pieces import emulated
from tests.instruments.plan import Kernel, kernels
from tests.instruments.table import Table

REPORT_S = 30.0


def main(words: Sequence[str]) -> int:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
    parser.add_argument("--traces", action="store_true")
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--state", type=Path)
    parser.add_argument("--launches", type=int, help="of each kernel (20); with --corpus, in all (100000)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="with --corpus: processes at a time")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--slice", type=int, default=20, help="launches of one kernel in one process")
    parser.add_argument("--together", type=int, default=1, help="kernels in one process")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(words)
    if bool(options.corpus) != bool(options.state) or bool(options.corpus) == bool(options.files):
        parser.error("either files, or --corpus and --state")
    table, more = Table(), {}
    if options.traces:
        oracle = Oracle()
        for trace in options.files:
            table.add(trace.name, map(oracle.judge, launches(trace)))
    elif options.corpus:
        more = run_nightly(options, table)
    else:
        with tempfile.TemporaryDirectory() as directory:
            for file in options.files:
                launch_file(file, Path(directory), table, options)
    print("\n".join(table.lines()))
    summary = {**more, **table.summary()}
    print(json.dumps(summary, indent=2))
    if options.json:
        options.json.write_text(json.dumps(summary))
    return 1 if summary["violations"] else 0


def run_nightly(options: argparse.Namespace, table: Table) -> dict[str, object]:
    """Launches until there were enough. What is known of the corpus, and how the launches ended."""
    state, wanted = options.state.resolve(), options.launches or 100_000
    nightly = Nightly(unpacked(options.corpus.resolve(), state), state, options.seed, options.jobs)
    begin, first, reported = monotonic(), nightly.progress.launches, 0.0
    for progress in nightly.run(wanted, options.seconds):
        if (passed := monotonic() - begin) - reported > REPORT_S:
            reported = passed
            left = max(0, wanted - progress.launches) * passed / max(1, progress.launches - first)
            print(
                f"{progress.launches} of {wanted} launches, {nightly.violations()} violations, "
                f"{timedelta(seconds=int(left))} to go",
                flush=True,
            )
    for file, row in nightly.progress.rows.items():
        table.rows[file.partition("/")[0], file] = row
    return nightly.told()


def launch_file(file: Path, directory: Path, table: Table, options: argparse.Namespace) -> None:
    for number, text in enumerate(best(texts(file.read_bytes()), 1000)):
        path = directory / f"{file.name}.{number}.ptx"
        path.write_text(emulated(text.text))
        wanted = list(kernels(path))
        for begin in range(0, len(wanted), options.together):
            launch_kernels(file.name, wanted[begin : begin + options.together], directory, table, options)


def launch_kernels(
    source: str, wanted: list[Kernel], directory: Path, table: Table, options: argparse.Namespace
) -> None:
    """In processes of a few launches each, so that one that hangs costs little."""
    all_launches = options.launches or 20
    for begin in range(0, all_launches, options.slice):
        count = min(options.slice, all_launches - begin)
        table.add(source, verdicts(wanted, count, options.seed + begin, directory))
