"""Writes a trace while the program runs: a sink that packs, and a thread that writes.

The thread keeps a slow disk from holding up the reading of rings. What waits for it is bounded; beyond that records
are left out and counted. An error of the file ends the trace, with one message, and nothing else.
"""

import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

from controlplane.ipc.loop import Loop
from controlplane.observe.layout import Kind, joined
from controlplane.observe.producer import Clock, Counters, Entry, Process
from controlplane.observe.receiver import Batch, HandedOver
from controlplane.observe.tracefile import MAX_CODE_BYTES, CodeOf, Fact, Item, RecordsOf, file_header, pack
from controlplane.report.statistics import TraceReport

CHUNK_RECORDS = 8192  # a chunk is packed in a few milliseconds
FLUSH_SECONDS = 1.0
WAITING_ITEMS = 512  # of at most CHUNK_RECORDS + a ring's records each
CLOSE_SECONDS = 8.0
CODE_BYTES = 256 << 20  # that are kept in a trace because they lie in no file


class TraceWriter:
    """A sink of records and a service of the control plane."""

    def __init__(self, descriptor: int, name: str, complain: Callable[[str], None]) -> None:
        """Takes the descriptor over; the file is empty."""
        self._descriptor, self._name, self._complain = descriptor, name, complain
        self._waiting: queue.Queue[Item | None] = queue.Queue(WAITING_ITEMS)
        self._gathered: dict[tuple[int, int], list[Batch]] = {}
        self._states: dict[int, tuple[Clock, Counters]] = {}
        self._code: set[int] = set()  # hashes of what was kept
        self._code_bytes = 0
        self._flush_due = 0.0
        self._launches = self._left_out = 0
        self._bytes = 0  # of the thread, until it is joined
        self._failed = False  # set by the thread
        self._thread = threading.Thread(target=self._write_all, name="trace", daemon=True)

    def start(self, loop: Loop) -> None:  # noqa: ARG002
        self._thread.start()

    def tick(self) -> float | None:
        if time.monotonic() >= self._flush_due:
            self._flush_due = time.monotonic() + FLUSH_SECONDS
            self._flush()
        return FLUSH_SECONDS if self._gathered else None

    def finish(self) -> None:
        self._flush()
        deadline = time.monotonic() + CLOSE_SECONDS
        try:
            self._waiting.put(None, timeout=CLOSE_SECONDS)
            self._thread.join(max(deadline - time.monotonic(), 0))
        except queue.Full:
            self._failed = True
        if self._thread.is_alive():
            self._failed = True
            self._complain(f"--trace {self._name}: the file does not take what it is given; the trace is not whole")
        elif self._left_out:
            self._complain(f"--trace {self._name}: the file was too slow; {self._left_out} records were left out")

    def report(self) -> TraceReport:
        """After finish()."""
        return TraceReport(self._name, self._bytes, self._launches, self._left_out, complete=not self._failed)

    def begin(self, process: Process) -> None:
        self._put(Fact("process", process.index, asdict(process)))

    def ring(self, process: Process, number: int, thread: int) -> None:
        self._put(Fact("ring", process.index, {"number": number, "thread": thread}))

    def define(self, process: Process, entries: Sequence[Entry]) -> None:
        self._put(Fact("definitions", process.index, {"entries": [asdict(entry) for entry in entries]}))

    def code(self, process: Process, code: HandedOver) -> None:
        path = code.path if _is_still(code) else ""
        if not path and code.hash not in self._code:
            self._keep(code)
        fields = {"module": code.module, "hash": code.hash, "linked_into": code.linked_into, "size": code.size}
        self._put(Fact("code", process.index, {**fields, "path": path, "offset": code.offset}))

    def records(self, process: Process, batches: Sequence[Batch]) -> None:
        for batch in batches:
            gathered = self._gathered.setdefault((process.index, batch.ring), [])
            gathered.append(batch)
            if sum(len(some.records) for some in gathered) >= CHUNK_RECORDS:
                self._pass_on(process.index, batch.ring)

    def state(self, process: Process, clock: Clock, counters: Counters) -> None:
        if self._states.get(process.index) != (clock, counters):
            self._states[process.index] = (clock, counters)
            self._put(Fact("state", process.index, {"clock": asdict(clock), "counters": asdict(counters)}))

    def end(self, process: Process) -> None:
        for index, ring in list(self._gathered):
            if index == process.index:
                self._pass_on(index, ring)
        self._states.pop(process.index, None)

    def _keep(self, code: HandedOver) -> None:
        if code.size > MAX_CODE_BYTES or self._code_bytes + code.size > CODE_BYTES:
            return
        data = os.pread(code.descriptor, code.size, code.offset)
        if len(data) == code.size and self._put(CodeOf(code.hash, data)):
            self._code.add(code.hash)
            self._code_bytes += code.size

    def _flush(self) -> None:
        for key in list(self._gathered):
            self._pass_on(*key)

    def _pass_on(self, process: int, ring: int) -> None:
        batches = self._gathered.pop((process, ring))
        records = joined([batch.records for batch in batches])
        if self._put(RecordsOf(process, ring, batches[0].first, records)):
            self._launches += int((records["kind"] == Kind.LAUNCH).sum())
        else:
            self._left_out += len(records)

    def _put(self, item: Item) -> bool:
        if self._failed:
            return True
        try:
            # What records refer to is small and must not be missing; it waits for a slow disk.
            self._waiting.put(item, timeout=0.0 if isinstance(item, RecordsOf) else 1.0)
        except queue.Full:
            return False
        return True

    def _write_all(self) -> None:
        """The thread. Goes on taking items after a failure, so that nobody waits for it."""
        self._write(file_header())
        while (item := self._waiting.get()) is not None:
            if not self._failed:
                self._write(pack(item))
        os.close(self._descriptor)

    def _write(self, data: bytes) -> None:
        try:
            view = memoryview(data)
            while view:
                written = os.write(self._descriptor, view)
                view = view[written:]
                self._bytes += written
        except OSError as error:
            self._failed = True
            self._complain(f"--trace {self._name}: {error.strerror}; the trace ends here, the program goes on")


def _is_still(code: HandedOver) -> bool:
    """Whether the file can be found by its name."""
    try:
        named, opened = Path(code.path).stat(), os.fstat(code.descriptor)
    except OSError:
        return False
    return (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino)
