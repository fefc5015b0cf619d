"""A part of a long run: random launches of a few kernels, made and judged by one process.

Every second launch is one of those that are likelier to come to their end.
"""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.instruments.campaign import judged
from tests.instruments.oracle import Oracle, Verdict
from tests.instruments.plan import Kernel
from tests.instruments.table import Row

LAUNCHES_EACH = 100
STALL_S = 0.5
_STRAYS_KEPT = 2  # of each kernel


@dataclass(frozen=True, slots=True)
class Batch:
    number: int
    files: list[str]
    seed: int


@dataclass(slots=True)
class Made:
    """What came of a batch. `stalls`: launches that took too long, by file. `violations`, `strays`: with their jobs."""

    number: int
    refused: int = 0
    stalls: Counter[str] = field(default_factory=Counter)
    rows: dict[str, Row] = field(default_factory=dict)
    violations: list[dict[str, object]] = field(default_factory=list)
    strays: list[dict[str, object]] = field(default_factory=list)


def make(batch: Batch, corpus: Path, directory: Path) -> Made:
    """Makes the launches of a batch; the directory is there for that time only."""
    oracle, chance = Oracle(), random.Random(f"{batch.seed} {batch.number}")
    directory.mkdir(exist_ok=True)
    made = Made(batch.number)
    jobs = []
    for file in batch.files:
        kernel = Kernel.read(corpus / file)
        oracle.keep(kernel.source, kernel.name, kernel.template)
        drawn = [kernel.job(chance) for _ in range(LAUNCHES_EACH)]
        jobs += [kernel.tamed(job, chance) if number % 2 else job for number, job in enumerate(drawn)]
    for verdict in _launched(jobs, directory, oracle, made, corpus):
        _count(made, str(Path(json.loads(verdict.job)["text"]).relative_to(corpus)), verdict)
    shutil.rmtree(directory)
    return made


def _launched(jobs: list[str], directory: Path, oracle: Oracle, made: Made, corpus: Path) -> Iterator[Verdict]:
    """Without those that take too long, and what follows them of the same kernel."""
    while jobs:
        ends: Counter[str] = Counter()
        yield from judged(jobs, directory, {"TESSERA_WORKERS": "1"}, oracle, STALL_S, ends)
        count = ends.total()
        made.refused += ends["refused"]
        if count >= len(jobs):
            return
        stalled = json.loads(jobs[count])["text"]
        made.stalls[str(Path(stalled).relative_to(corpus))] += 1
        jobs = [job for job in jobs[count + 1 :] if json.loads(job)["text"] != stalled]


def _count(made: Made, file: str, verdict: Verdict) -> None:
    row = made.rows.setdefault(file, Row())
    row.add(verdict)
    entry = {"job": json.loads(verdict.job)}
    kept = verdict.kept if verdict.complete else []
    if kept:
        made.violations.append({**entry, "complete": True, "kept": kept[:8]})
    if verdict.missed and not verdict.result.unknown:
        missed = [(kind.value, *interval) for kind, interval in verdict.missed[:8]]
        made.violations.append({**entry, "complete": verdict.complete, "missed": missed})
    if verdict.stray is not None and row.strays <= _STRAYS_KEPT:
        made.strays.append({**entry, "stray": asdict(verdict.stray)})
