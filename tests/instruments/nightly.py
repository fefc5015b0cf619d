"""A long run of random launches over a corpus, in batches, by several processes, that goes on where it stopped.

The corpus is a directory of directories (where the kernels come from) of PTX files of one kernel each. Everything that
is known lies in the state directory: `survey.json` (which kernels can be launched, and why the others cannot),
`progress.json` (how far the run is, and its numbers by kernel), `violations.jsonl` and `strays.jsonl` (each launch of
the one kind, and some of the other, as the launcher takes them).
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from ptxtools.errors import PtxError
from tests.instruments.batch import Batch, Made, make
from tests.instruments.plan import understood
from tests.instruments.table import Row

KERNELS_TOGETHER = 4
_MOST_STALLS = 2  # of a kernel: then it is left out
_SAVE_S = 5.0


@dataclass(slots=True)
class Survey:
    """`known`: files, relative to the corpus. `unknown`, `damaged`: reasons by file."""

    known: list[str] = field(default_factory=list)
    unknown: dict[str, list[str]] = field(default_factory=dict)
    damaged: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Progress:
    """`batch`: the next; `open`: those before it whose launches are not counted yet. By file: `stalls`, launches
    that took too long, and `rows`.
    """

    batch: int = 0
    open: list[int] = field(default_factory=list)
    launches: int = 0
    refused: int = 0
    seconds: float = 0
    stalls: Counter[str] = field(default_factory=Counter)
    rows: dict[str, Row] = field(default_factory=dict)


class Nightly:
    """A run over a corpus by so many processes. `run` makes launches and saves what is known of them."""

    def __init__(self, corpus: Path, state: Path, seed: int, jobs: int) -> None:
        self.corpus, self.state, self.seed, self.jobs = corpus, state, seed, jobs
        state.mkdir(parents=True, exist_ok=True)
        self.pool = ProcessPoolExecutor(jobs)
        self.survey = self._surveyed()
        self.progress = self._loaded()
        self.again, self.progress.open = self.progress.open, []
        self.order: tuple[int, list[str]] = (-1, [])

    def run(self, launches: int, seconds: float) -> Iterator[Progress]:
        """Until there are so many launches, or the time is over; what was begun is ended. Yields after each batch."""
        begin = saved = time.monotonic()
        before = self.progress.seconds
        pending: set[Future[Made]] = set()
        while True:
            now = time.monotonic()
            if self.progress.launches < launches and now - begin < seconds:
                pending |= {self._begin() for _ in range(self.jobs - len(pending))}
            if not pending:
                break
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            for each in done:
                self._count(each.result())
                yield self.progress
            self.progress.seconds = before + time.monotonic() - begin
            if now - saved > _SAVE_S:
                saved = now
                self._save()
        self._save()
        self.pool.shutdown()

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
            "refused": progress.refused,
            "took_too_long": progress.stalls.total(),
            "hours": round(progress.seconds / 3600, 2),
        }

    def _begin(self) -> Future[Made]:
        """Gives the next batch to the pool."""
        if self.again:
            number = self.again.pop()
        else:
            number, self.progress.batch = self.progress.batch, self.progress.batch + 1
        self.progress.open.append(number)
        batch = Batch(number, self._chosen(number), self.seed)
        return self.pool.submit(make, batch, self.corpus, self.state / f"batch-{number}")

    def _chosen(self, number: int) -> list[str]:
        """The kernels of a batch: in a round each has its turn, in another order each time."""
        turn, place = divmod(number, -(-len(self.survey.known) // KERNELS_TOGETHER))
        if self.order[0] != turn:
            order = sorted(self.survey.known)
            random.Random(f"{self.seed} order {turn}").shuffle(order)
            self.order = turn, order
        files = self.order[1][place * KERNELS_TOGETHER : (place + 1) * KERNELS_TOGETHER]
        return [file for file in files if self.progress.stalls[file] < _MOST_STALLS]

    def _count(self, made: Made) -> None:
        progress = self.progress
        progress.open.remove(made.number)
        progress.refused += made.refused
        progress.stalls += made.stalls
        for file, row in made.rows.items():
            progress.launches += row.launches
            progress.rows.setdefault(file, Row()).join(row)
        for name, entries in (("violations", made.violations), ("strays", made.strays)):
            with (self.state / f"{name}.jsonl").open("a") as lines:
                lines.writelines(json.dumps(entry) + "\n" for entry in entries)

    def _surveyed(self) -> Survey:
        """Of what is in the corpus now."""
        path = self.state / "survey.json"
        survey = Survey(**json.loads(path.read_text())) if path.exists() else Survey()
        seen = {*survey.known, *survey.unknown, *survey.damaged}
        files = sorted({str(each.relative_to(self.corpus)) for each in self.corpus.glob("*/*.ptx")} - seen)
        found = self.pool.map(_look_at, (self.corpus / file for file in files), chunksize=4)
        for file, reasons in zip(files, found, strict=True):
            if isinstance(reasons, str):
                survey.damaged[file] = reasons
            elif reasons:
                survey.unknown[file] = reasons
            else:
                survey.known.append(file)
        _replace(path, asdict(survey))
        return survey

    def _loaded(self) -> Progress:
        path = self.state / "progress.json"
        if not path.exists():
            return Progress()
        entry = json.loads(path.read_text())
        rows = {name: Row.of(each) for name, each in entry.pop("rows").items()}
        known = {each.name: entry[each.name] for each in fields(Progress) if each.name in entry}
        return Progress(**{**known, "stalls": Counter(entry["stalls"])}, rows=rows)

    def _save(self) -> None:
        entry = {each.name: getattr(self.progress, each.name) for each in fields(self.progress)}
        entry["rows"] = {file: row.entry() for file, row in self.progress.rows.items()}
        _replace(self.state / "progress.json", entry)


def _look_at(file: Path) -> list[str] | str:
    """Why a kernel cannot be launched (nothing when it can), or what is wrong with its text."""
    try:
        return understood(file)
    except PtxError as problem:
        return str(problem)


def _replace(path: Path, entry: object) -> None:
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(entry))
    draft.replace(path)
