"""Random structured kernels, launched on the emulated driver and looked at thread by thread: does a byte lack?"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ptxtools.access.build import build
from ptxtools.access.template import AccessKind, Template
from ptxtools.ranges import Evaluator, Launch, Result
from ptxtools.reader import read
from tests.fuzz import structured
from tests.instruments import naive
from tests.instruments.campaign import judged
from tests.instruments.oracle import Interval, Oracle, Traced, Verdict, inside, launches

Evaluate = Callable[[Template], Callable[[Launch], Result]]

LAUNCHES_EACH = 3
_STALL_S = 20.0


def in_c(template: Template) -> Callable[[Launch], Result]:
    return Evaluator(template).evaluate


@dataclass(frozen=True, slots=True)
class Finding:
    """`by`: the "emulator" or the "oracle" touched bytes that are not predicted; or the "emulator alone" touched bytes
    that the oracle did not, which told of all; or a launch kept bytes against the "promise" that it overwrites them.
    `bytes`: these, by kind.
    """

    by: str
    job: str
    bytes: dict[str, list[Interval]]


@dataclass(slots=True)
class Checked:
    """`counts`: launches that were made, that came to their end ("complete"), that the ranges are exact for, ..."""

    counts: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    def add(self, by: str, job: str, pieces: Mapping[AccessKind, list[Interval]]) -> None:
        found = {kind.value: each for kind, each in pieces.items() if each}
        if found:
            self.findings.append(Finding(by, job, found))


def check(seed: int, kernels: int, directory: Path, evaluate: Evaluate = in_c) -> Checked:
    """Launches as many random kernels. The module lies in the directory, as `module.ptx`."""
    chance, file, found = random.Random(seed), directory / "module.ptx", Checked()
    text = structured.text(kernels, chance)
    file.write_text(text)
    module, oracle = read(text), Oracle()
    templates = {function.name: build(module, function) for function in module.kernels}
    oracle.templates = {(text, name): evaluate(template) for name, template in templates.items()}
    jobs, ends = list(structured.jobs(file, kernels, LAUNCHES_EACH, chance)), Counter[str]()
    verdicts = list(judged(jobs, directory, {"TESSERA_WORKERS": "1"}, oracle, _STALL_S, ends))
    found.counts["late"] = len(jobs) - ends.total()
    for number, (verdict, traced) in enumerate(zip(verdicts, launches(directory / "trace"), strict=True)):
        _count(verdict, found)
        if number % LAUNCHES_EACH == 0:  # thread by thread takes longest
            _look_at(verdict, traced, templates[traced.function], found)
    return found


def _count(verdict: Verdict, found: Checked) -> None:
    found.counts["launches"] += 1
    found.counts["complete"] += verdict.complete
    found.counts["unknown"] += bool(verdict.result.unknown)
    found.counts["exact"] += verdict.complete and verdict.predicted_bytes == verdict.traced_bytes
    if not verdict.result.unknown:
        missed = {kind: [each for of, each in verdict.missed if of is kind] for kind in AccessKind}
        found.add("emulator", verdict.job, missed)
    if verdict.complete:
        found.add("promise", verdict.job, {AccessKind.WRITE: verdict.kept})
        found.counts["written"] += verdict.written_bytes > 0
        found.counts["overwritten in full"] += 0 < verdict.written_bytes == verdict.overwritten_bytes
        found.counts["overwritten"] += verdict.overwritten_bytes > 0


def _look_at(verdict: Verdict, traced: Traced, template: Template, found: Checked) -> None:
    """Thread by thread."""
    try:
        real = naive.touched(template, traced.launch)
    except naive.TooLongError:
        found.counts["too long for the oracle"] += 1
        return
    found.counts["told by the oracle"] += any(real.accesses.values())
    found.counts["told in full"] += real.complete
    found.counts["told in full, exact"] += real.complete and naive.is_equal(verdict.result, real)
    found.add("oracle", verdict.job, naive.lacking(verdict.result, real))
    if real.complete:
        done = traced.accesses.items()
        beyond = {kind: [each for each in some if not inside(each, real.accesses[kind])] for kind, some in done}
        found.add("emulator alone", verdict.job, beyond)
