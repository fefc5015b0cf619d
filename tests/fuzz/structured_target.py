"""Random structured kernels, launched on the emulated driver and looked at thread by thread: does a byte lack?"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ptxtools.access.build import build
from ptxtools.access.template import Template
from ptxtools.ranges import Evaluator, Launch, Result
from ptxtools.reader import read
from tests.analysis import naive
from tests.analysis.against import launch_of
from tests.analysis.campaign import judged
from tests.analysis.oracle import Oracle
from tests.fuzz import structured

Evaluate = Callable[[Template], Callable[[Launch], Result]]

LAUNCHES_EACH = 3
_STALL_S = 20.0


def in_c(template: Template) -> Callable[[Launch], Result]:
    return Evaluator(template).evaluate


@dataclass(frozen=True, slots=True)
class Finding:
    """`by`: the "emulator", or the "naive" oracle. `lacking`: bytes that were touched and not predicted, by kind."""

    by: str
    job: str
    lacking: dict[str, list[tuple[int, int]]]


@dataclass(slots=True)
class Checked:
    """`counts`: launches that were made, that came to their end ("complete"), that the ranges are exact for, ..."""

    counts: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)


def check(seed: int, kernels: int, directory: Path, evaluate: Evaluate = in_c) -> Checked:
    """Launches as many random kernels. The module lies in the directory, as `module.ptx`."""
    chance, file, found = random.Random(seed), directory / "module.ptx", Checked()
    text = structured.text(kernels, chance)
    file.write_text(text)
    module = read(text)
    evaluators = {}
    oracle = Oracle()
    for function in module.kernels:
        template = build(module, function)
        evaluators[function.name] = template, evaluate(template)
        oracle.templates[text, function.name] = evaluators[function.name][1]
    jobs = list(structured.jobs(file, kernels, LAUNCHES_EACH, chance))
    _run(jobs, directory, oracle, found)
    for job in jobs[::LAUNCHES_EACH]:  # thread by thread takes longest
        entry = json.loads(job)
        _look_at(job, launch_of(entry), *evaluators[entry["function"]], found)
    return found


def _run(jobs: list[str], directory: Path, oracle: Oracle, found: Checked) -> None:
    """On the emulated driver."""
    ends: Counter[str] = Counter()
    for verdict in judged(jobs, directory, {"TESSERA_WORKERS": "1"}, oracle, _STALL_S, ends):
        found.counts["launches"] += 1
        found.counts["complete"] += verdict.complete
        found.counts["unknown"] += bool(verdict.result.unknown)
        found.counts["exact"] += verdict.complete and verdict.predicted_bytes == verdict.traced_bytes
        if verdict.missed and not verdict.result.unknown:
            lacking: dict[str, list[tuple[int, int]]] = {}
            for kind, interval in verdict.missed:
                lacking.setdefault(kind.value, []).append(interval)
            found.findings.append(Finding("emulator", verdict.job, lacking))
    found.counts["late"] += len(jobs) - ends.total()


def _look_at(
    job: str, launch: Launch, template: Template, evaluate: Callable[[Launch], Result], found: Checked
) -> None:
    """Thread by thread."""
    try:
        real = naive.touched(template, launch)
    except naive.TooLongError:
        found.counts["too long for the oracle"] += 1
        return
    result = evaluate(launch)
    lacking = naive.lacking(result, real)
    found.counts["told by the oracle"] += any(real.accesses.values())
    found.counts["told in full"] += real.complete
    found.counts["told in full, exact"] += real.complete and naive.is_equal(result, real)
    if lacking:
        found.findings.append(Finding("naive", job, {kind.value: pieces for kind, pieces in lacking.items()}))
