"""One process that writes records, from its reader's side: the journal and the rings, mapped.

The writer may die, be stopped, or be faulty at any moment. So files are mapped only if they are sealed against
shrinking, each number read from them is read once and checked, and positions that must not be lost are kept on this
side. A value that is impossible raises WireError; the caller then drops that process.
"""

import mmap
import os
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controlplane.ipc.memory_file import cannot_shrink
from controlplane.observe.layout import GPUS, HOST_CLOCK, OWN_CLOCK, EntryKind, Records, constant, dtype, joined
from ptxtools.errors import WireError

ENTRY_NUMBERS = ("number", "parent", "handle", "hash", "size")
ANCHOR_ATTEMPTS = 8
SPAN_BYTES = 1 << 20  # of the journal that are read at a time, at most


@dataclass(frozen=True, slots=True)
class Anchor:
    """The same moment in ticks, nanoseconds of CLOCK_MONOTONIC and of CLOCK_REALTIME."""

    ticks: int
    monotonic_ns: int
    realtime_ns: int


@dataclass(frozen=True, slots=True)
class Clock:
    """Turns ticks of a process into nanoseconds of CLOCK_MONOTONIC, by two anchors."""

    first: Anchor
    last: Anchor

    @property
    def ns_per_tick(self) -> float | None:
        """None until the anchors lie apart."""
        ticks, ns = self.last.ticks - self.first.ticks, self.last.monotonic_ns - self.first.monotonic_ns
        return ns / ticks if ticks > 0 and ns > 0 else None

    def nanoseconds(self, ticks: NDArray[np.uint64]) -> NDArray[np.int64]:
        """CLOCK_MONOTONIC at these ticks; with a rate of one if it is unknown."""
        relative = (ticks - np.uint64(self.last.ticks)).view(np.int64) * (self.ns_per_tick or 1.0)
        return self.last.monotonic_ns + relative.astype(np.int64)


@dataclass(frozen=True, slots=True)
class Process:
    """A process from its first record to its end. index: unique in this run, as pids come again.

    emulated: its GPUs are, and run PTX only.
    """

    index: int
    pid: int
    parent: int
    program: str
    driver_version: int
    own_gpu_clock: bool
    emulated: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """One definition of the journal; see struct tsr_entry."""

    kind: EntryKind
    number: int
    parent: int
    handle: int
    hash: int
    size: int
    text: str


@dataclass(frozen=True, slots=True)
class Counters:
    """What a process counted itself; exact even where records were lost.

    launches: by GPU; kept_home: captured ones, too; kept_reasons: of these, by enum tsr_reason.
    """

    lost: int = 0
    launches: tuple[int, ...] = (0,) * GPUS
    captured: int = 0
    graph_launches: int = 0
    graph_kernels: int = 0
    kept_home: int = 0
    kept_reasons: tuple[int, ...] = ()
    overhead_samples: int = 0
    overhead_ticks: int = 0
    timed_launches: int = 0
    times_lost: int = 0


def _sealed(descriptor: int, what: str, bytes_needed: int) -> None:
    """Makes sure that the file is at least so large, and stays it."""
    if not cannot_shrink(descriptor):
        raise WireError(f"a {what} is no memory file that is sealed against shrinking")
    if os.fstat(descriptor).st_size < bytes_needed:
        raise WireError(f"a {what} is too small")


def _header(view: mmap.mmap, struct: str, what: str) -> Records:
    header = np.frombuffer(view, dtype(struct), count=1)
    if int(header["magic"][0]) != constant("TSR_RECORDS_MAGIC"):
        raise WireError(f"a {what} is none")
    version, size = int(header["version"][0]), int(header["bytes"][0])
    if version != constant("TSR_RECORDS_VERSION") or size != dtype(struct).itemsize:
        raise WireError(f"a {what} is of another release (version {version}, {size} bytes)")
    return header


class Ring:
    """The records of one thread at a time. read() may be called at any time, also after the writer's death."""

    def __init__(self, descriptor: int) -> None:
        """Does not keep the descriptor."""
        self.capacity = constant("TSR_RING_RECORDS")
        offset, record = constant("TSR_RING_RECORDS_OFFSET"), dtype("tsr_record")
        size = offset + self.capacity * record.itemsize
        _sealed(descriptor, "ring", size)
        view = mmap.mmap(descriptor, size)
        self._header = _header(view, "tsr_ring", "ring")
        self._words = memoryview(view)[:offset].cast("Q")
        self._tail = dtype("tsr_ring").fields["tail"][1] // 8  # type: ignore[index]
        self._records = np.frombuffer(view, record, count=self.capacity, offset=offset)
        self.number = int(self._header["number"][0])
        self.thread = int(self._header["thread"][0])
        self.read_so_far = int(self._header["head"][0])

    def unread(self) -> int:
        """How many records wait; cheap. Nonsense if the writer is wrong, which read() finds out."""
        return self._words[self._tail] - self.read_so_far

    def read(self) -> Records:
        """A copy of the records that were not read yet; the first has the number read_so_far had before."""
        head, tail = self.read_so_far, self._words[self._tail]
        if not head <= tail <= head + self.capacity:
            raise WireError(f"ring {self.number} claims to hold records {head} to {tail}")
        begin, end = head % self.capacity, (tail - 1) % self.capacity + 1
        if tail == head:
            return self._records[:0]
        pieces = [self._records[begin:end]] if begin < end else [self._records[begin:], self._records[:end]]
        result = joined(pieces)
        self.read_so_far = tail
        self._header["head"][0] = tail
        return result

    def counter(self, name: str) -> int:
        return int(self._header[name][0])

    def counters(self, name: str) -> tuple[int, ...]:
        return tuple(int(count) for count in self._header[name][0])


class Journal:
    """What a process says about itself and the things its records refer to."""

    def __init__(self, descriptor: int) -> None:
        """Takes the descriptor over."""
        self._descriptor = descriptor
        self._start = constant("TSR_JOURNAL_ENTRIES_OFFSET")
        _sealed(descriptor, "journal", self._start)
        self._header = _header(mmap.mmap(descriptor, self._start), "tsr_journal", "journal")
        self._read_bytes = 0

    def close(self) -> None:
        os.close(self._descriptor)

    def process(self, index: int) -> Process:
        header = self._header[0]
        if int(header["gpu_clock"]) not in (HOST_CLOCK, OWN_CLOCK):
            raise WireError(f"a journal names an unknown clock: {int(header['gpu_clock'])}")
        program = bytes(header["program"]).split(b"\0")[0].decode("utf-8", "replace")
        own_clock = int(header["gpu_clock"]) == OWN_CLOCK
        return Process(
            index,
            int(header["pid"]),
            int(header["parent"]),
            program,
            int(header["driver_version"]),
            own_clock,
            bool(header["emulated"]),
        )

    def clock(self) -> Clock:
        last = self._anchor("last")
        for _ in range(ANCHOR_ATTEMPTS):  # it is renewed now and then, maybe right now
            before, last = last, self._anchor("last")
            if before == last:
                break
        return Clock(self._anchor("first"), last)

    def _anchor(self, name: str) -> Anchor:
        ticks, monotonic_ns, realtime_ns = (int(value) for value in self._header[name][0])
        return Anchor(ticks, monotonic_ns, realtime_ns)

    def counter(self, name: str) -> int:
        return int(self._header[name][0])

    def counters(self, name: str) -> tuple[int, ...]:
        return tuple(int(count) for count in self._header[name][0])

    def new_entries(self) -> list[Entry]:
        """The entries that are complete and were not read yet."""
        used = int(self._header["used"][0])
        if not self._read_bytes <= used <= constant("TSR_JOURNAL_BYTES"):
            raise WireError(f"a journal claims to hold {used} bytes")
        result: list[Entry] = []
        while self._read_bytes < used:
            wanted = min(SPAN_BYTES, used - self._read_bytes)
            data = os.pread(self._descriptor, wanted, self._start + self._read_bytes)
            entries, taken = _entries(data)
            if not taken:
                raise WireError("a journal's entry is longer than the journal")
            result += entries
            self._read_bytes += taken
        return result


def _entries(data: bytes) -> tuple[list[Entry], int]:
    """The whole entries at the start of the data, and how many bytes they take."""
    layout, result, place = dtype("tsr_entry"), [], 0
    while place + layout.itemsize <= len(data):
        head = np.frombuffer(data, layout, count=1, offset=place)[0]
        size, kind = int(head["bytes"]), int(head["kind"])
        if size < layout.itemsize or size % 8:
            raise WireError(f"a journal's entry has {size} bytes")
        if place + size > len(data):
            break
        text = data[place + layout.itemsize : place + size].split(b"\0")[0].decode("utf-8", "replace")
        if kind in EntryKind.__members__.values():
            number, parent, handle, hash_value, size_value = (int(head[name]) for name in ENTRY_NUMBERS)
            result.append(Entry(EntryKind(kind), number, parent, handle, hash_value, size_value, text))
        place += size
    return result, place
