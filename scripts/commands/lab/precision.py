"""How many more bytes than affine kernels touch the analysis predicts for them, and which it says to be overwritten.

    scripts/lab precision CORPUS [--worst N] [--json FILE]

CORPUS: a directory that `scripts/lab corpus` made, with its project, triton and numba (what is not there is named and
left out), or one file that it was packed into. The kernels and their launches are those of tests/instruments/affine.py.
Exit status 1 when bytes are missing, or kept that were to be overwritten; when the median excess is above 5 % or the
90th percentile above 20 %; or when less than 99 % of the written bytes are overwritten in the median kernel, or less
than 90 % at the 10th percentile. --worst N: only the N kernels with the least overwritten.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from scripts.commands.dispatch import parser_of
from tests.instruments.affine import CASES
from tests.instruments.campaign import judged
from tests.instruments.pack import unpacked
from tests.instruments.table import Row, Table

MEDIAN, NINETIETH = 5.0, 20.0  # percent
OVERWRITTEN = 99.0, 90.0  # percent of written bytes, median and 10th percentile


def main(words: Sequence[str]) -> int:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("corpus", type=Path, metavar="CORPUS")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--worst", type=int)
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as name:
        table = measured(unpacked(options.corpus.resolve(), Path(name)), Path(name))
    print("\n".join(table.lines() if options.worst is None else table.least_overwritten(options.worst)))
    summary = table.summary()
    print(json.dumps(summary, indent=2))
    if options.json:
        options.json.write_text(json.dumps(summary))
    return 0 if is_precise(summary) else 1


def measured(corpus: Path, directory: Path) -> Table:
    jobs = []
    for case in CASES:
        try:
            jobs += list(case.jobs(corpus))
        except LookupError as problem:
            print(problem, file=sys.stderr)
    table = Table()
    for verdict in judged(jobs, directory):
        name = str(Path(json.loads(verdict.job)["text"]).relative_to(corpus))
        row = table.rows.setdefault((name, verdict.function), Row())
        row.add(verdict)
        if verdict.clamped and verdict.complete:
            row.ratios.append(verdict.predicted_bytes / verdict.traced_bytes)
    return table


def is_precise(summary: dict[str, object]) -> bool:
    median, ninetieth = summary["excess_median_percent"], summary["excess_90th_percent"]
    assert isinstance(median, float)
    assert isinstance(ninetieth, float)
    overwritten = summary["overwritten_median_percent"], summary["overwritten_10th_percent"]
    is_told = all(
        isinstance(each, float) and each >= least for each, least in zip(overwritten, OVERWRITTEN, strict=True)
    )
    return not summary["violations"] and median <= MEDIAN and ninetieth <= NINETIETH and is_told
