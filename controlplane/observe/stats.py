"""Statistics: records in, aggregates out. Pure: no input, no output, no clock.

Everything is summed per process while the program runs, so that memory does not grow with the number of launches;
report() puts the processes together.

Time on the GPU and queue time are known for the launches that the shim timed, a sample. Sums over all launches are
estimated as mean of the sample times count, per kernel and GPU. TKLQT is the total kernel launch and queuing time:
the sum, over launches, of the kernel's start on the GPU less the start of the call that launched it
("Characterizing and Optimizing LLM Inference Workloads on CPU-GPU Coupled Architectures",
https://arxiv.org/abs/2504.11750).
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from controlplane.observe.layout import CUT_OFF_TICKS, GPUS, EntryKind, Flag, Kind, Records
from controlplane.observe.memory import MemoryUse
from controlplane.observe.producer import Clock, Counters, Entry, Process
from controlplane.observe.receiver import Batch, HandedOver

HISTORY = 65536  # records of a ring within which a launch's time must arrive; a power of two
MAX_FUNCTIONS = 1 << 20
MIN_CLOCK_NS = 20_000_000  # anchors must lie so far apart before a host time is compared with a GPU's
MOST_WAITING = 1 << 18  # times that wait for a better clock
UNKNOWN_FUNCTION = "(unknown)"
LARGEST_INT = np.iinfo(np.int64).max
PLACES = {1: "host", 2: "device", 3: "array", 4: "any"}  # CUmemorytype
Ints = NDArray[np.int64]


class LaunchTable:
    """Sums per kernel and GPU, a row for each pair that was launched.

    Functions of one name are one kernel, however often their module is loaded: of a function, four bytes are kept.
    kernels: names and GPUs of the rows, of which there may be more in the arrays.
    """

    def __init__(self) -> None:
        self.kernels: list[tuple[str, int]] = []
        self._names: dict[str, int] = {UNKNOWN_FUNCTION: 0}
        self._texts = [UNKNOWN_FUNCTION]
        self._name_of = np.zeros(1, np.int32)  # by number of the function
        self._row_of: dict[tuple[int, int], int] = {}  # by name and GPU
        self.launches = self.captured = self.host_ticks = np.zeros(0, np.int64)
        self.timed = self.gpu_ns = self.gpu_ns_max = self.queued = self.queue_ns = self.launches
        self.gpu_ns_min = np.zeros(0, np.int64)

    def define(self, function: int, name: str) -> None:
        if function >= len(self._name_of):
            more = max(function + 1, 2 * len(self._name_of)) - len(self._name_of)
            self._name_of = np.concatenate([self._name_of, np.zeros(more, np.int32)])
        number = self._names.setdefault(name, len(self._names))
        if number == len(self._texts):
            self._texts.append(name)
        self._name_of[function] = number

    def rows(self, functions: Ints, devices: Ints) -> Ints:
        """The row of each launch; those of functions that nobody defined are one kernel's."""
        names = self._name_of[np.where(functions < len(self._name_of), functions, 0)]
        pairs, places = np.unique(names * np.int64(GPUS) + devices, return_inverse=True)
        return np.array([self._row(*divmod(pair, GPUS)) for pair in pairs.tolist()], np.int64)[places]

    def _row(self, name: int, device: int) -> int:
        found = self._row_of.get((name, device))
        if found is not None:
            return found
        row = self._row_of[name, device] = len(self.kernels)
        if row == len(self.launches):
            self._grow(max(64, row))
        self.kernels.append((self._texts[name], device))
        return row

    def _grow(self, more: int) -> None:
        for each in ("launches", "captured", "host_ticks", "timed", "gpu_ns", "gpu_ns_max", "queued", "queue_ns"):
            setattr(self, each, np.concatenate([getattr(self, each), np.zeros(more, np.int64)]))
        self.gpu_ns_min = np.concatenate([self.gpu_ns_min, np.full(more, LARGEST_INT)])


class RingHistory:
    """A ring's last launches, copies, memsets: times arrive later. Untouched pages of the arrays cost nothing."""

    def __init__(self) -> None:
        self.number = np.zeros(HISTORY, np.uint64)  # of the record, plus one; 0: none
        self.row = np.zeros(HISTORY, np.int64)  # of the launch table; -1: not one kernel's; below: of a PullTally
        self.start = np.zeros(HISTORY, np.uint64)


@dataclass(slots=True)
class Tally:
    """Of one sort of call: how many, bytes if it moves any, host time in it."""

    count: int = 0
    bytes: int = 0
    ticks: int = 0


@dataclass(slots=True)
class PullTally:
    """Of pulls from one GPU's copy to another's for one cause. row: below -1, of times that arrive later."""

    row: int
    count: int = 0
    bytes: int = 0
    timed: int = 0
    gpu_ns: int = 0


@dataclass
class ProcessStats:
    """One process. contexts: device by number."""

    process: Process
    clock: Clock | None = None
    counters: Counters = field(default_factory=Counters)
    contexts: dict[int, int] = field(default_factory=dict)
    table: LaunchTable = field(default_factory=LaunchTable)
    history: dict[int, RingHistory] = field(default_factory=dict)
    waiting: list[tuple[Ints, NDArray[np.uint64], Ints]] = field(default_factory=list)  # rows, call starts, GPU starts
    waiting_times: int = 0
    copies: dict[tuple[int, str], Tally] = field(
        default_factory=dict
    )  # by device of the context (-1: unknown), direction
    memsets: Tally = field(default_factory=Tally)
    graphs: Tally = field(default_factory=Tally)
    graph_kernels: int = 0
    synchronisations: dict[int, Tally] = field(default_factory=dict)  # by call
    pulls: dict[tuple[int, int, int], PullTally] = field(default_factory=dict)  # by GPU, source, cause
    failures: Counter[tuple[int, int]] = field(default_factory=Counter)  # by call, result
    memory: MemoryUse = field(default_factory=MemoryUse)
    host_memory: MemoryUse = field(default_factory=lambda: MemoryUse(of_host=True))
    late_times: int = 0


class Statistics:
    """A sink of records."""

    def __init__(self) -> None:
        self.processes: dict[int, ProcessStats] = {}

    def begin(self, process: Process) -> None:
        self.processes[process.index] = ProcessStats(process)

    def ring(self, process: Process, number: int, thread: int) -> None:
        """Threads are not told apart."""

    def define(self, process: Process, entries: Sequence[Entry]) -> None:
        stats = self.processes[process.index]
        for entry in entries:
            if entry.kind is EntryKind.FUNCTION and entry.number < MAX_FUNCTIONS:
                stats.table.define(entry.number, entry.text)
            elif entry.kind is EntryKind.CONTEXT:
                stats.contexts[entry.number] = entry.parent

    def records(self, process: Process, batches: Sequence[Batch]) -> None:
        stats = self.processes[process.index]
        for batch in batches:
            _add(stats, batch)
        # In a turn of its own: a time may come in another ring than its launch.
        for batch in batches:
            _add_times(stats, batch.records[batch.records["kind"] == Kind.TIME])
        all_records = [batch.records for batch in batches]
        stats.memory.add(all_records)
        stats.host_memory.add(all_records)

    def state(self, process: Process, clock: Clock, counters: Counters) -> None:
        stats = self.processes[process.index]
        stats.clock, stats.counters = clock, counters
        _compare_waiting(stats)

    def code(self, process: Process, code: HandedOver) -> None:
        """Modules are counted by their records."""

    def end(self, process: Process) -> None:
        """Forgets what only matters while records come."""
        stats = self.processes[process.index]
        finish(stats)
        stats.history.clear()
        stats.memory.forget()
        stats.host_memory.forget()


def _add(stats: ProcessStats, batch: Batch) -> None:
    records = batch.records
    kinds = records["kind"]
    failed = records["result"] != 0
    if failed.any():
        wrong = records[failed & (kinds != Kind.TIME) & (kinds != Kind.ATTRIBUTE)]
        for call, result in zip(wrong["call"].tolist(), wrong["result"].tolist(), strict=True):
            stats.failures[call, result] += 1
    for kind, add in ADDERS.items():
        chosen = np.flatnonzero((kinds == kind) & ~failed)
        if len(chosen):
            add(stats, batch, chosen)


def _ticks(records: Records) -> Ints:
    """Host time of calls; those too long for the field count as nothing rather than as something wrong."""
    ticks = records["ticks"].astype(np.int64)
    ticks[ticks == CUT_OFF_TICKS] = 0
    return ticks


def _add_launches(stats: ProcessStats, batch: Batch, chosen: NDArray[np.intp]) -> None:
    launches = batch.records[chosen]
    devices = launches["launch.device"].astype(np.int64) % GPUS
    rows = stats.table.rows(launches["launch.function"].astype(np.int64), devices)
    captured = (launches["flags"] & Flag.CAPTURED) != 0
    np.add.at(stats.table.captured, rows[captured], 1)
    np.add.at(stats.table.launches, rows[~captured], 1)
    np.add.at(stats.table.host_ticks, rows[~captured], _ticks(launches[~captured]))
    _remember(stats, batch, chosen, rows)


def _add_graphs(stats: ProcessStats, batch: Batch, chosen: NDArray[np.intp]) -> None:
    graphs = batch.records[chosen]
    _count(stats.graphs, graphs, 0)
    stats.graph_kernels += int(graphs["graph.kernels"].sum(dtype=np.int64))
    _remember_work(stats, batch, chosen)


def _remember_work(stats: ProcessStats, batch: Batch, chosen: NDArray[np.intp]) -> None:
    _remember(stats, batch, chosen, np.full(len(chosen), -1))


def _remember(stats: ProcessStats, batch: Batch, chosen: NDArray[np.intp], rows: Ints) -> None:
    history = stats.history.setdefault(batch.ring, RingHistory())
    numbers = np.uint64(batch.first) + chosen.astype(np.uint64)
    places = (numbers % np.uint64(HISTORY)).astype(np.intp)
    history.number[places] = numbers + np.uint64(1)
    history.row[places] = rows
    history.start[places] = batch.records["start"][chosen]


def direction_name(source: int, destination: int) -> str:
    """Of a copy, by two CUmemorytype; calls that tell neither leave it to the addresses."""
    if not source and not destination:
        return "by address"
    return f"{PLACES.get(source, 'any')} to {PLACES.get(destination, 'any')}"


def _add_copies(stats: ProcessStats, batch: Batch, chosen: NDArray[np.intp]) -> None:
    copies = batch.records[chosen]
    keys = copies["context"].astype(np.int64) << 16 | copies["copy.to"].astype(np.int64) << 8 | copies["copy.from"]
    for key in np.unique(keys).tolist():
        device = stats.contexts.get(key >> 16, -1)
        direction = direction_name(key & 255, key >> 8 & 255)
        some = copies[keys == key]
        _count(stats.copies.setdefault((device, direction), Tally()), some, int(some["copy.bytes"].sum(dtype=object)))
    _remember_work(stats, batch, chosen)


def _add_memsets(stats: ProcessStats, batch: Batch, chosen: NDArray[np.intp]) -> None:
    memsets = batch.records[chosen]
    _count(stats.memsets, memsets, int(memsets["memset.bytes"].sum(dtype=object)))
    _remember_work(stats, batch, chosen)


def _add_synchronisations(stats: ProcessStats, batch: Batch, chosen: NDArray[np.intp]) -> None:
    waits = batch.records[chosen]
    for call in np.unique(waits["call"]).tolist():
        _count(stats.synchronisations.setdefault(call, Tally()), waits[waits["call"] == call], 0)


def _count(tally: Tally, records: Records, size: int) -> None:
    tally.count += len(records)
    tally.bytes += size
    tally.ticks += int(_ticks(records).sum())


def _add_pulls(stats: ProcessStats, batch: Batch, chosen: NDArray[np.intp]) -> None:
    pulls = batch.records[chosen]
    columns = [pulls[f"pull.{name}"].astype(np.int64) for name in ("to", "from", "cause")]
    keys = columns[0] << 16 | columns[1] << 8 | columns[2]
    rows = np.zeros(len(chosen), np.int64)
    for key in np.unique(keys).tolist():
        place = (key >> 16, key >> 8 & 255, key & 255)
        tally = stats.pulls.setdefault(place, PullTally(-2 - len(stats.pulls)))
        some = pulls[keys == key]
        tally.count += len(some)
        tally.bytes += int(some["pull.bytes"].sum(dtype=object))
        rows[keys == key] = tally.row
    _remember(stats, batch, chosen, rows)


ADDERS = {
    Kind.LAUNCH: _add_launches,
    Kind.GRAPH: _add_graphs,
    Kind.COPY: _add_copies,
    Kind.MEMSET: _add_memsets,
    Kind.SYNCHRONIZE: _add_synchronisations,
    Kind.PULL: _add_pulls,
}


def _add_times(stats: ProcessStats, times: Records) -> None:
    for ring in np.unique(times["time.ring"]).tolist():
        of_ring = times[times["time.ring"] == ring]
        history = stats.history.get(ring)
        if history is None:
            stats.late_times += len(of_ring)
            continue
        numbers = of_ring["time.number"]
        places = (numbers % np.uint64(HISTORY)).astype(np.intp)
        found = (history.number[places] == numbers + np.uint64(1)) & (numbers < np.uint64(2**63))
        stats.late_times += len(of_ring) - int(found.sum())
        of_kernel = found & (history.row[places] >= 0)
        _add_kernel_times(stats, of_ring[of_kernel], history, places[of_kernel])
        of_pull = found & (history.row[places] < -1)
        _add_pull_times(stats, of_ring[of_pull], history.row[places[of_pull]])


def _add_pull_times(stats: ProcessStats, times: Records, rows: Ints) -> None:
    duration = np.minimum(times["time.ns"], np.uint64(2**50)).astype(np.int64)
    for tally in stats.pulls.values():
        tally.timed += int((rows == tally.row).sum())
        tally.gpu_ns += int(duration[rows == tally.row].sum())


def _add_kernel_times(stats: ProcessStats, times: Records, history: RingHistory, places: NDArray[np.intp]) -> None:
    table, rows = stats.table, history.row[places]
    duration = np.minimum(times["time.ns"], np.uint64(2**50)).astype(np.int64)
    np.add.at(table.timed, rows, 1)
    np.add.at(table.gpu_ns, rows, duration)
    np.minimum.at(table.gpu_ns_min, rows, duration)
    np.maximum.at(table.gpu_ns_max, rows, duration)
    if not stats.process.own_gpu_clock:
        started = np.minimum(times["time.start_ns"], np.uint64(2**62)).astype(np.int64)
        stats.waiting.append((rows, history.start[places], started))
        stats.waiting_times += len(rows)
        if stats.waiting_times > MOST_WAITING:
            _compare_waiting(stats, at_end=True)


def _compare_waiting(stats: ProcessStats, *, at_end: bool = False) -> None:
    """Queue times, as soon as the clock's anchors are far enough apart; at the end with what there is, or never."""
    clock = stats.clock
    apart = 0 if clock is None else clock.last.monotonic_ns - clock.first.monotonic_ns
    if not stats.waiting or (apart < MIN_CLOCK_NS and not at_end):
        return
    if clock is not None and clock.ns_per_tick is not None:
        for rows, starts, gpu_starts in stats.waiting:
            np.add.at(stats.table.queued, rows, 1)
            np.add.at(stats.table.queue_ns, rows, gpu_starts - clock.nanoseconds(starts))
    stats.waiting.clear()
    stats.waiting_times = 0


def finish(stats: ProcessStats) -> None:
    """To be called when nothing more will come, before the sums are read."""
    _compare_waiting(stats, at_end=True)
