"""A trace in memory, and its launches as a table."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controlplane.observe.layout import EntryKind, Kind, Records, joined
from controlplane.observe.producer import Anchor, Clock, Counters, Entry, Process
from controlplane.observe.receiver import Batch
from controlplane.observe.stats import UNKNOWN_FUNCTION, Statistics
from controlplane.observe.tracefile import EXPECTED, CodeOf, Fact, RecordsOf, TraceReader
from ptxtools.errors import ConfigError

NO_CALLS = (
    *(Kind.THREAD, Kind.ATTRIBUTE, Kind.TIME, Kind.PARAMETERS),
    *(Kind.LIBRARY, Kind.RANGE, Kind.TENSOR, Kind.BYTES, Kind.PULL),
)  # records that do not stand for a call of the driver
NO_CLOCK = Clock(Anchor(0, 0, 0), Anchor(0, 0, 0))


@dataclass(frozen=True, slots=True)
class CodePlace:
    """Where code lies: `size` bytes of a file from `offset` on; without a path, in the trace."""

    path: str
    offset: int
    size: int


@dataclass
class TracedProcess:
    """One process of a trace. By number: functions, the modules they are of, those modules' hashes and files (that hold
    or loaded them), contexts (their device), devices and their architectures; rings (their first owner). code: what was
    loaded, by hash; linked: hashes of the PTX in an image, by its hash.
    """

    process: Process
    clock: Clock = NO_CLOCK
    counters: Counters = field(default_factory=Counters)
    functions: dict[int, str] = field(default_factory=dict)
    modules: dict[int, int] = field(default_factory=dict)
    hashes: dict[int, int] = field(default_factory=dict)
    files: dict[int, str] = field(default_factory=dict)
    contexts: dict[int, int] = field(default_factory=dict)
    devices: dict[int, str] = field(default_factory=dict)
    architectures: dict[int, int] = field(default_factory=dict)
    code: dict[int, CodePlace] = field(default_factory=dict)
    linked: dict[int, list[int]] = field(default_factory=dict)
    rings: dict[int, int] = field(default_factory=dict)
    pieces: list[RecordsOf] = field(default_factory=list)

    def function(self, number: int) -> str:
        return self.functions.get(number, UNKNOWN_FUNCTION)


@dataclass(frozen=True, slots=True)
class Calls:
    """The records of one process that stand for calls, in the order of their rings; a row each. (Also its pulls.)

    thread: id of the caller. start_ns, end_ns: CLOCK_MONOTONIC. gpu_start_ns, gpu_ns: of what the call enqueued,
    where timed is true; see Process.own_gpu_clock.
    """

    records: Records
    thread: NDArray[np.int64]
    start_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    timed: NDArray[np.bool_]
    gpu_start_ns: NDArray[np.int64]
    gpu_ns: NDArray[np.int64]


@dataclass
class Trace:
    """A whole file. code: by hash, what lies in no file. cut_off: offset at which it ends too early, if it does."""

    file: Path
    processes: list[TracedProcess]
    cut_off: int | None = None
    code: dict[int, bytes] = field(default_factory=dict)

    def statistics(self) -> Statistics:
        """The same as the run's own."""
        result = Statistics()
        for traced in self.processes:
            result.begin(traced.process)
            result.define(traced.process, [*_entries(traced)])
            for piece in traced.pieces:
                result.records(traced.process, [Batch(piece.ring, piece.first, piece.records)])
            result.state(traced.process, traced.clock, traced.counters)
        return result


def _entries(traced: TracedProcess) -> Iterator[Entry]:
    for number, name in traced.functions.items():
        yield Entry(EntryKind.FUNCTION, number, 0, 0, 0, 0, name)
    for number, device in traced.contexts.items():
        yield Entry(EntryKind.CONTEXT, number, device, 0, 0, 0, "")


def load(file: Path, pid: int | None = None) -> Trace:
    """Reads a trace, of one pid only if it is given. Raises ConfigError."""
    reader = TraceReader(file)
    processes: dict[int, TracedProcess] = {}
    code: dict[int, bytes] = {}
    for item in reader:
        if isinstance(item, CodeOf):
            code[item.hash] = item.data
            continue
        if isinstance(item, RecordsOf):
            if item.process in processes:
                processes[item.process].pieces.append(item)
            continue
        try:
            _add(processes, item)
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(
                f"a chunk says {item.what!r} in a way of its own", expected=EXPECTED, file=file
            ) from error
    chosen = [traced for traced in processes.values() if pid is None or traced.process.pid == pid]
    if pid is not None and not chosen:
        there = ", ".join(str(traced.process.pid) for traced in processes.values())
        raise ConfigError(f"there is no process {pid}", expected=f"one of {there}", file=file)
    return Trace(file, chosen, reader.cut_off, code)


def _add(processes: dict[int, TracedProcess], fact: Fact) -> None:
    data: Any = fact.data
    if fact.what == "process":
        processes[fact.process] = TracedProcess(Process(**data))
        return
    traced = processes[fact.process]
    if fact.what == "ring":
        traced.rings[int(data["number"])] = int(data["thread"])
    elif fact.what == "state":
        clock = data["clock"]
        traced.clock = Clock(Anchor(**clock["first"]), Anchor(**clock["last"]))
        launches, reasons = (tuple(data["counters"].pop(name, ())) for name in ("launches", "kept_reasons"))
        traced.counters = Counters(launches=launches, kept_reasons=reasons, **data["counters"])
    elif fact.what == "code":
        _add_code(traced, data)
    elif fact.what == "definitions":
        for entry in data["entries"]:
            _define(traced, Entry(**{**entry, "kind": EntryKind(entry["kind"])}))


def _add_code(traced: TracedProcess, data: Any) -> None:
    hash_value, linked_into = int(data["hash"]), int(data["linked_into"])
    traced.code[hash_value] = CodePlace(str(data["path"]), int(data["offset"]), int(data["size"]))
    if linked_into:
        traced.linked.setdefault(linked_into, []).append(hash_value)


def _define(traced: TracedProcess, entry: Entry) -> None:
    if entry.kind is EntryKind.FUNCTION:
        traced.functions[entry.number] = entry.text
        traced.modules[entry.number] = entry.parent
    elif entry.kind is EntryKind.MODULE:
        traced.hashes[entry.number] = entry.hash
        traced.files[entry.number] = entry.text
    elif entry.kind is EntryKind.CONTEXT:
        traced.contexts[entry.number] = entry.parent
    elif entry.kind is EntryKind.DEVICE:
        traced.devices[entry.number] = entry.text
        traced.architectures[entry.number] = entry.parent


def calls(traced: TracedProcess) -> Calls:
    """The process' calls with their times on the GPU, where these are known."""
    found = _all(traced)
    return _chosen(found, np.isin(found.records["kind"], NO_CALLS, invert=True))


def calls_and_pulls(traced: TracedProcess) -> tuple[Calls, Calls, NDArray[np.intp]]:
    """The same; the pulls; and the row, of the calls, of the one that each pull was for: -1 where it is not known."""
    found = _all(traced)
    kinds = found.records["kind"]
    is_call, is_pull = np.isin(kinds, NO_CALLS, invert=True), kinds == Kind.PULL
    pulled = np.flatnonzero(is_pull)
    rows: NDArray[np.intp] = np.cumsum(is_call) - is_call  # of the calls before each record: of the next call
    after = np.minimum(rows[pulled], max(int(is_call.sum()) - 1, 0))
    of_calls, of_pulls = _chosen(found, is_call), _chosen(found, is_pull)
    if not len(of_calls.records):
        return of_calls, of_pulls, np.full(len(pulled), -1, np.intp)
    inside = (of_calls.start_ns[after] <= of_pulls.start_ns) & (of_pulls.start_ns <= of_calls.end_ns[after])
    return of_calls, of_pulls, np.where(inside & (rows[pulled] == after), after, -1).astype(np.intp)


def _chosen(found: Calls, kept: NDArray[np.bool_]) -> Calls:
    return Calls(
        found.records[kept],
        found.thread[kept],
        found.start_ns[kept],
        found.end_ns[kept],
        found.timed[kept],
        found.gpu_start_ns[kept],
        found.gpu_ns[kept],
    )


def _all(traced: TracedProcess) -> Calls:
    pieces = sorted(traced.pieces, key=lambda piece: (piece.ring, piece.first))
    records = joined([piece.records for piece in pieces])
    rings = np.concatenate([np.full(len(piece.records), piece.ring) for piece in pieces] or [np.empty(0, np.int64)])
    numbers = np.concatenate(
        [np.arange(piece.first, piece.first + len(piece.records), dtype=np.uint64) for piece in pieces]
        or [np.empty(0, np.uint64)]
    )
    threads = _threads(traced, records, rings)
    timed, gpu_start_ns, gpu_ns = _times(records, rings, numbers)
    start_ns = traced.clock.nanoseconds(records["start"])
    end_ns = traced.clock.nanoseconds(records["start"] + records["ticks"])
    return Calls(records, threads, start_ns, end_ns, timed, gpu_start_ns, gpu_ns)


def _threads(traced: TracedProcess, records: Records, rings: NDArray[np.int64]) -> NDArray[np.int64]:
    """Who owned the ring when the record was made: the last THREAD record before it, else the ring's first owner."""
    numbers, which = np.unique(rings, return_inverse=True)
    first = np.array([traced.rings.get(number, 0) for number in numbers.tolist()], np.int64)[which]
    places = np.arange(len(records))
    changes = records["kind"] == Kind.THREAD
    last = np.maximum.accumulate(np.where(changes, places, -1)) if len(records) else places
    known = (last >= 0) & (rings[last] == rings)
    owners = records["thread.id"][last].astype(np.int64)
    return np.where(known, owners, first)


def _times(
    records: Records, rings: NDArray[np.int64], numbers: NDArray[np.uint64]
) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64]]:
    """Of each record: whether its time on the GPU is known, and that."""
    timed, start_ns, ns = (
        np.zeros(len(records), bool),
        np.zeros(len(records), np.int64),
        np.zeros(len(records), np.int64),
    )
    times = records[records["kind"] == Kind.TIME]
    for ring in np.unique(times["time.ring"]).tolist():
        of_ring = times[times["time.ring"] == ring]
        places = np.flatnonzero(rings == ring)
        found = np.searchsorted(numbers[places], of_ring["time.number"])
        inside = found < len(places)
        found, of_ring = found[inside], of_ring[inside]
        same = numbers[places[found]] == of_ring["time.number"]
        targets, of_ring = places[found[same]], of_ring[same]
        timed[targets] = True
        start_ns[targets] = np.minimum(of_ring["time.start_ns"], np.uint64(2**62)).astype(np.int64)
        ns[targets] = np.minimum(of_ring["time.ns"], np.uint64(2**50)).astype(np.int64)
    return timed, start_ns, ns
