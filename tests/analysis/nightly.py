"""A long run of random launches over a corpus, in batches, that goes on where it stopped.

The corpus is a directory of directories (where the kernels come from) of PTX files of one kernel each. Everything that
is known lies in the state directory: `survey.json` (which kernels can be launched, and why the others cannot),
`progress.json` (how far the run is, and its numbers by kernel), `violations.jsonl` (each with its launch; one
that is not complete had a wrong address, and may have gone through another buffer on the way there).
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from controlplane.errors import PtxError
from tests.analysis.campaign import judged
from tests.analysis.oracle import Oracle, Verdict
from tests.analysis.plan import Kernel, understood
from tests.analysis.table import Row

KERNELS_TOGETHER = 10
LAUNCHES_EACH = 100
PYTHON_EACH = 10  # batches of which one is judged by the evaluator in Python, the others by the one in C
STALL_S = 0.5
_MOST_STALLS = 2  # of a kernel: then it is left out


@dataclass(slots=True)
class Survey:
    """`known`: files, relative to the corpus. `unknown`, `damaged`: reasons by file."""

    known: list[str] = field(default_factory=list)
    unknown: dict[str, list[str]] = field(default_factory=dict)
    damaged: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Progress:
    """`native`: launches judged by the evaluator in C. By file: `stalls`, launches that took too long, and `rows`."""

    batch: int = 0
    launches: int = 0
    complete: int = 0
    refused: int = 0
    native: int = 0
    seconds: float = 0
    stalls: Counter[str] = field(default_factory=Counter)
    rows: dict[str, Row] = field(default_factory=dict)


class Nightly:
    """A run over a corpus. `step` makes a batch of launches and saves what is known after it."""

    def __init__(self, corpus: Path, state: Path, seed: int) -> None:
        self.corpus, self.state, self.seed = corpus, state, seed
        state.mkdir(parents=True, exist_ok=True)
        self.survey = self._surveyed()
        self.progress = self._loaded()
        self.oracle = Oracle()

    def step(self) -> None:
        begin = time.monotonic()
        chance = random.Random(f"{self.seed} {self.progress.batch}")
        files = self._chosen()
        wanted = {file: Kernel.read(self.corpus / file) for file in files}
        Oracle.evaluator = "c" if self.progress.batch % PYTHON_EACH else "python"
        self.oracle = Oracle()
        for kernel in wanted.values():
            self.oracle.keep(kernel.source, kernel.name, kernel.template)
        jobs = [kernel.job(chance) for kernel in wanted.values() for _ in range(LAUNCHES_EACH)]
        for verdict in self._launched(jobs):
            self._count(verdict)
        self.progress.batch += 1
        self.progress.seconds += time.monotonic() - begin
        self._save()

    def violations(self) -> int:
        return sum(row.violations for row in self.progress.rows.values())

    def told(self) -> dict[str, object]:
        """The corpus and the run in numbers."""
        survey, progress = self.survey, self.progress
        sources = Counter(file.partition("/")[0] for file in survey.known)
        reasons = Counter(reason for each in survey.unknown.values() for reason in each)
        return {
            "corpus_kernels": len(survey.known) + len(survey.unknown),
            "corpus_known": len(survey.known),
            "corpus_unknown_reasons": dict(reasons.most_common()),
            "corpus_damaged": len(survey.damaged),
            "corpus_by_source": dict(sources.most_common()),
            "complete": progress.complete,
            "refused": progress.refused,
            "judged_by_native_evaluator": progress.native,
            "took_too_long": progress.stalls.total(),
            "hours": round(progress.seconds / 3600, 2),
        }

    def _chosen(self) -> list[str]:
        """The next kernels of a round in which each has its turn, in another order each time."""
        turns = -(-len(self.survey.known) // KERNELS_TOGETHER)
        turn, place = divmod(self.progress.batch, turns)
        order = sorted(self.survey.known)
        random.Random(f"{self.seed} order {turn}").shuffle(order)
        files = order[place * KERNELS_TOGETHER : (place + 1) * KERNELS_TOGETHER]
        return [file for file in files if self.progress.stalls[file] < _MOST_STALLS]

    def _launched(self, jobs: list[str]) -> Iterator[Verdict]:
        """Without those that take too long; a kernel of which several do is left out from then on."""
        while jobs:
            ends: Counter[str] = Counter()
            yield from judged(jobs, self.state, {"TESSERA_WORKERS": "1"}, self.oracle, STALL_S, ends)
            made = ends.total()
            self.progress.refused += ends["refused"]
            if made >= len(jobs):
                return
            stalled = json.loads(jobs[made])["text"]
            self.progress.stalls[self._file(stalled)] += 1
            jobs = jobs[made + 1 :]
            if self.progress.stalls[self._file(stalled)] >= _MOST_STALLS:
                jobs = [job for job in jobs if json.loads(job)["text"] != stalled]

    def _file(self, text: str) -> str:
        return str(Path(text).relative_to(self.corpus))

    def _count(self, verdict: Verdict) -> None:
        file = self._file(json.loads(verdict.job)["text"])
        self.progress.launches += 1
        self.progress.native += Oracle.evaluator == "c"
        self.progress.complete += verdict.complete
        self.progress.rows.setdefault(file, Row()).add(verdict)
        if verdict.missed and not verdict.result.unknown:
            missed = [(kind.value, *interval) for kind, interval in verdict.missed[:8]]
            with (self.state / "violations.jsonl").open("a") as violations:
                entry = {"job": json.loads(verdict.job), "complete": verdict.complete, "missed": missed}
                violations.write(json.dumps(entry) + "\n")

    def _surveyed(self) -> Survey:
        """Of what is in the corpus now."""
        path = self.state / "survey.json"
        survey = Survey(**json.loads(path.read_text())) if path.exists() else Survey()
        seen = {*survey.known, *survey.unknown, *survey.damaged}
        for file in sorted(str(each.relative_to(self.corpus)) for each in self.corpus.glob("*/*.ptx")):
            if file not in seen:
                self._look_at(survey, file)
        _replace(path, asdict(survey))
        return survey

    def _look_at(self, survey: Survey, file: str) -> None:
        try:
            reasons = understood(self.corpus / file)
        except PtxError as problem:
            survey.damaged[file] = str(problem)
            return
        if reasons:
            survey.unknown[file] = reasons
        else:
            survey.known.append(file)

    def _loaded(self) -> Progress:
        path = self.state / "progress.json"
        if not path.exists():
            return Progress()
        entry = json.loads(path.read_text())
        rows = {name: Row.of(each) for name, each in entry.pop("rows").items()}
        return Progress(**{**entry, "stalls": Counter(entry["stalls"])}, rows=rows)

    def _save(self) -> None:
        entry = {each.name: getattr(self.progress, each.name) for each in fields(self.progress)}
        entry["rows"] = {file: row.entry() for file, row in self.progress.rows.items()}
        _replace(self.state / "progress.json", entry)


def _replace(path: Path, entry: object) -> None:
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(entry))
    draft.replace(path)
