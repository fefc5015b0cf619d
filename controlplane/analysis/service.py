"""The analysis service of a run: a sink that learns what functions a program uses, and gives the shim their templates.

What the latest runs used is published from the cache before the program starts. Other functions are analysed in the
order of their first launch, each once per code, whatever process it is in. No launch waits for it: until a template is
there, launches of the function are unknown.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from controlplane.analysis.analyst import Analyst, Opened
from controlplane.analysis.cache import Key
from controlplane.analysis.recent import Recent
from controlplane.analysis.result import Analysis
from controlplane.analysis.table import Table
from controlplane.analysis.task import Place
from controlplane.ipc.loop import Loop
from controlplane.observe.layout import EntryKind
from controlplane.observe.producer import Clock, Counters, Entry, Process
from controlplane.observe.receiver import Batch, HandedOver
from controlplane.report.statistics import AnalysisReport
from ptxtools.machine.consent import Consent, may_disassemble

LAST_SECONDS = 10.0
FIRST_SECONDS = 2.0  # that the program's start waits at most
UNSAID = "it is not said why"
MOST_IMAGES = 4096  # descriptors that are kept open


@dataclass
class _Uses:
    """Of one process: its modules' (hash, size, file), its GPUs' architectures."""

    emulated: bool
    modules: dict[int, tuple[int, int, str]] = field(default_factory=dict)
    architectures: set[int] = field(default_factory=set)


class AnalysisService:
    """A sink of records and a service of the control plane."""

    def __init__(
        self,
        analyst: Analyst,
        table: Table | None,
        consent: Consent = Consent.OPEN,
        *,
        clones: bool = False,
        recent: Recent | None = None,
    ) -> None:
        """clones: functions' clones are published, too. recent: what the latest runs used; None: nobody remembers."""
        self._analyst, self._table, self._consent, self._clones = analyst, table, consent, clones
        self._uses: dict[int, _Uses] = {}
        self._codes: dict[tuple[int, int, str], tuple[int, int, str]] = {}  # one of each, however often it is loaded
        self._images: dict[int, Opened] = {}
        self._linked: dict[int, list[int]] = {}
        self._waiting: dict[int, list[Key]] = {}  # for the image with this hash
        self._wanted: set[Key] = set()
        self._useful: list[Key] = []  # of these, what is known
        self._known = self._unknown = 0
        self._reasons: dict[str, list[str]] = {}
        self._recent = recent

    def publish_recent(self) -> None:
        """Before the program starts, for as long as it may wait."""
        if self._table is None or self._recent is None:
            return
        self._table.give_shapes(self._recent.shapes())
        end = time.monotonic() + FIRST_SECONDS
        for key in self._recent.listed():
            found = self._analyst.cache.get(key, is_use=False)
            if found is not None:
                self._table.publish(key, found)
            if time.monotonic() > end:
                break

    def start(self, loop: Loop) -> None:
        self._analyst.pool.start(loop)

    def tick(self) -> float | None:
        return self._analyst.pool.tick()

    def finish(self) -> None:
        """What is not analysed after a last moment, for the cache, stays for another run."""
        self._analyst.pool.wait(LAST_SECONDS)
        self._analyst.pool.finish()
        if self._recent is not None:
            self._recent.remember(self._useful)
            self._remember_shapes(self._recent)
        for image in self._images.values():
            os.close(image.descriptor)
        self._images.clear()
        self._analyst.cache.trim()

    def report(self) -> AnalysisReport:
        analyst = self._analyst
        counts = len(self._wanted), self._known, self._unknown, analyst.cached, analyst.made
        return AnalysisReport(*counts, self._reasons)

    def begin(self, process: Process) -> None:
        self._uses[process.index] = _Uses(process.emulated)

    def ring(self, process: Process, number: int, thread: int) -> None:
        """Threads do not matter here."""

    def define(self, process: Process, entries: Sequence[Entry]) -> None:
        uses = self._uses[process.index]
        for entry in entries:
            if entry.kind is EntryKind.MODULE and entry.hash:
                code = (entry.hash, entry.size, entry.text)
                uses.modules[entry.number] = self._codes.setdefault(code, code)
            elif entry.kind is EntryKind.DEVICE:
                uses.architectures.add(entry.parent)
            elif entry.kind is EntryKind.FUNCTION and entry.parent in uses.modules:
                self._use(uses, entry)

    def code(self, process: Process, code: HandedOver) -> None:  # noqa: ARG002
        if code.linked_into:
            self._linked.setdefault(code.linked_into, []).append(code.hash)
        if code.hash not in self._images and len(self._images) < MOST_IMAGES:
            self._images[code.hash] = Opened(os.dup(code.descriptor), Place(code.offset, code.size))
        for key in self._waiting.pop(code.hash, []):
            self._make(key)

    def records(self, process: Process, batches: Sequence[Batch]) -> None:
        """A function's definition comes with its first launch."""

    def state(self, process: Process, clock: Clock, counters: Counters) -> None:
        """Nothing of it matters here."""

    def end(self, process: Process) -> None:
        self._uses.pop(process.index)

    def _remember_shapes(self, recent: Recent) -> None:
        """When they fill most of their room, those that are still launched are gathered anew."""
        shapes = b"" if self._table is None else self._table.shapes()
        if self._table is not None and shapes:
            recent.remember_shapes(shapes if len(shapes) < self._table.shapes_room * 3 // 4 else b"")

    def _use(self, uses: _Uses, function: Entry) -> None:
        code, size, file = uses.modules[function.parent]
        disassemble = may_disassemble(self._consent, file)
        sources = tuple(self._linked.get(code, []))
        for architecture in sorted(uses.architectures):
            key = Key(code, size, architecture, uses.emulated, function.text, sources, disassemble, self._clones)
            if key in self._wanted:
                continue
            self._wanted.add(key)
            found = self._analyst.remembered(key)
            if found is not None:
                self._done(key, found)
            elif code in self._images:
                self._make(key)
            else:
                self._waiting.setdefault(code, []).append(key)

    def _make(self, key: Key) -> None:
        images = [self._images[each] for each in (key.code, *key.sources) if each in self._images]
        if len(images) == 1 + len(key.sources):
            self._analyst.make(key, images, lambda analysis: self._done(key, analysis))

    def _done(self, key: Key, analysis: Analysis) -> None:
        if analysis.is_known:
            self._known += 1
            self._useful.append(key)
        else:
            self._unknown += 1
            reason = next((each["reason"] for each in analysis.description["unknown"]), UNSAID)
            self._reasons.setdefault(reason, []).append(key.function)
        if self._table is not None:
            self._table.publish(key, analysis)
