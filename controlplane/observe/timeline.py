"""A trace as tracks of slices, for viewers: host threads with their calls, GPU streams with what ran there.

Only what was measured is on a GPU's tracks: a launch whose time on the GPU is not known is on its thread's track
alone. GPU times of emulated GPUs whose clock is not the host's have tracks, and neither flows nor a queue depth.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from controlplane.observe.describe import Describer
from controlplane.observe.layout import Flag, Kind
from controlplane.observe.memory import MemoryUse, host_calls
from controlplane.observe.pulls import PullSlices
from controlplane.observe.trace import Calls, Trace, TracedProcess, calls_and_pulls

PULLS = "pulls"  # a track's name


@dataclass(frozen=True, slots=True)
class Slice:
    """Something that took from start_ns to end_ns; `details` are shown with it."""

    start_ns: int
    end_ns: int
    name: str
    category: str
    details: dict[str, str | int]


@dataclass
class Track:
    """Slices in the order of their start; each lies within or after the one before it."""

    name: str
    slices: list[Slice] = field(default_factory=list)


@dataclass
class Counter:
    """A value that changes at points in time."""

    name: str
    points: list[tuple[int, int]]


@dataclass
class Group:
    """The tracks of a process on the host (device None), or of its streams on a GPU. pid: of the process."""

    name: str
    pid: int
    device: int | None
    tracks: list[Track] = field(default_factory=list)
    counters: list[Counter] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Flow:
    """An arrow between two slices."""

    name: str
    source: tuple[Track, Slice]
    target: tuple[Track, Slice]


@dataclass
class Timeline:
    """origin_ns: CLOCK_MONOTONIC of the first call; realtime_ns: the same moment on the wall clock."""

    groups: list[Group] = field(default_factory=list)
    flows: list[Flow] = field(default_factory=list)
    origin_ns: int = 0
    realtime_ns: int = 0


@dataclass(frozen=True, slots=True)
class Window:
    """Nanoseconds after the origin."""

    begin_ns: int = 0
    end_ns: int = 2**62


def build(trace: Trace, window: Window | None = None) -> Timeline:
    """All of the trace, or what lies at least partly in a window of it."""
    window = window or Window()
    all_calls = [(traced, *calls_and_pulls(traced)) for traced in trace.processes]
    starts = [int(found.start_ns.min()) for _, found, _, _ in all_calls if len(found.records)]
    result = Timeline(origin_ns=min(starts, default=0))
    for traced, found, pulls, consumers in all_calls:
        first = traced.clock.first
        result.realtime_ns = result.realtime_ns or first.realtime_ns + result.origin_ns - first.monotonic_ns
        _Builder(result, traced, found, PullSlices(found, pulls, consumers), window).build()
    return result


class _Builder:
    """Adds one process to the timeline."""

    def __init__(
        self, timeline: Timeline, traced: TracedProcess, found: Calls, pulls: PullSlices, window: Window
    ) -> None:
        self._timeline, self._traced, self._calls, self._window = timeline, traced, found, window
        self._pulls = pulls
        # A GPU clock of its own begins with its first time.
        times = np.concatenate([some.gpu_start_ns[some.timed] for some in (found, pulls.records)])
        own = traced.process.own_gpu_clock and bool(len(times))
        self._gpu_origin = int(times.min()) if own else timeline.origin_ns
        self._host_slices: dict[int, tuple[Track, Slice]] = {}  # by row of the calls
        self._gpu_slices: dict[int, tuple[Track, Slice]] = {}
        self._pull_slices: dict[int, tuple[Track, Slice]] = {}  # by row of the pulls
        self._describe = Describer(traced, found)

    def build(self) -> None:
        process = self._traced.process
        host = Group(f"{process.program.rsplit('/', 1)[-1]} [{process.pid}]", process.pid, None)
        self._timeline.groups.append(host)
        self._add_threads(host)
        self._add_memory(host)
        self._add_gpus(host.name)
        if not process.own_gpu_clock:
            for row, target in self._gpu_slices.items():
                if row in self._host_slices:
                    self._timeline.flows.append(Flow("launch", self._host_slices[row], target))
        self._timeline.flows += self._event_flows()
        self._timeline.flows += self._pull_flows()

    def _add_threads(self, host: Group) -> None:
        found, origin = self._calls, self._timeline.origin_ns
        start, end = found.start_ns - origin, found.end_ns - origin
        inside = (end >= self._window.begin_ns) & (start <= self._window.end_ns)
        for thread in np.unique(found.thread[inside]).tolist():
            rows = np.flatnonzero(inside & (found.thread == thread))
            rows = rows[np.lexsort((-end[rows], start[rows]))]
            slices = [(row, self._host_slice(row, int(start[row]), int(end[row]))) for row in rows.tolist()]
            self._host_slices |= _lay(host, f"thread {thread}" if thread else "further threads", slices)

    def _host_slice(self, row: int, start_ns: int, end_ns: int) -> Slice:
        return Slice(start_ns, end_ns, self._describe.host_name(row), "call", self._describe.details(row))

    def _gpu_slice(self, row: int, start_ns: int, end_ns: int) -> Slice:
        name, category = self._describe.gpu_name(row), self._describe.category(row)
        return Slice(start_ns, end_ns, name, category, self._describe.details(row))

    def _add_gpus(self, name: str) -> None:
        found = self._calls
        start = found.gpu_start_ns - self._gpu_origin
        shown = found.timed & (start + found.gpu_ns >= self._window.begin_ns) & (start <= self._window.end_ns)
        devices = self._devices()
        pulls = self._shown_pulls()
        for device in sorted({*devices[shown].tolist(), *pulls}):
            model = self._traced.devices.get(device, "")
            clock = ", own clock" if self._traced.process.own_gpu_clock else ""
            group = Group(f"GPU {device} {model}{clock} of {name}", self._traced.process.pid, device)
            self._timeline.groups.append(group)
            rows = np.flatnonzero(shown & (devices == device))
            rows = rows[np.lexsort((-found.gpu_ns[rows], start[rows]))]
            tracks: dict[str, list[tuple[int, Slice]]] = {}
            for row in rows.tolist():
                begin = int(start[row])
                slice_ = self._gpu_slice(row, begin, begin + int(found.gpu_ns[row]))
                tracks.setdefault(self._describe.stream(row), []).append((row, slice_))
            for track, slices in sorted(tracks.items()):
                self._gpu_slices |= _lay(group, track, slices)
            self._pull_slices |= _lay(group, PULLS, pulls.get(device, []))
            self._add_queue(group, rows)

    def _shown_pulls(self) -> dict[int, list[tuple[int, Slice]]]:
        """Those that were timed, by the GPU that pulled."""
        some = self._pulls.records
        result: dict[int, list[tuple[int, Slice]]] = {}
        start = some.gpu_start_ns - self._gpu_origin
        shown = some.timed & (start + some.gpu_ns >= self._window.begin_ns) & (start <= self._window.end_ns)
        rows = np.flatnonzero(shown)
        for row in rows[np.lexsort((-some.gpu_ns[rows], start[rows]))].tolist():
            begin = int(start[row])
            name, details = self._pulls.describe(row)
            slice_ = Slice(begin, begin + int(some.gpu_ns[row]), name, "pull", details)
            result.setdefault(int(some.records["pull.to"][row]), []).append((row, slice_))
        return result

    def _pull_flows(self) -> Iterator[Flow]:
        """From the launch that wrote the bytes to the pull, and from there to what they were pulled for."""
        for row, pull in self._pull_slices.items():
            writer, reader = self._pulls.writer(row), self._pulls.reader(row)
            if writer in self._gpu_slices:
                yield Flow("written", self._gpu_slices[writer], pull)
            if reader in self._gpu_slices:
                yield Flow("pulled for", pull, self._gpu_slices[reader])

    def _devices(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The GPU of each call's work: told by launches, of graphs if they left, and that of the context otherwise."""
        records = self._calls.records
        numbers, which = np.unique(records["context"], return_inverse=True)
        devices = np.array([self._traced.contexts.get(number, 0) for number in numbers.tolist()], np.int64)
        away = (records["kind"] == Kind.GRAPH) & (records["flags"] & Flag.REDIRECTED != 0)
        found = np.where(away, records["graph.device"].astype(np.int64), devices[which])
        return np.where(records["kind"] == Kind.LAUNCH, records["launch.device"].astype(np.int64), found)

    def _add_queue(self, group: Group, rows: np.ndarray[tuple[int], np.dtype[np.intp]]) -> None:
        """How much of what was timed has been asked for and has not ended."""
        if self._traced.process.own_gpu_clock:
            return
        asked = self._calls.start_ns[rows] - self._timeline.origin_ns
        ended = self._calls.gpu_start_ns[rows] + self._calls.gpu_ns[rows] - self._timeline.origin_ns
        moments = np.concatenate([asked, ended])
        steps = np.concatenate([np.ones(len(rows), np.int64), -np.ones(len(rows), np.int64)])
        order = np.lexsort((-steps, moments))
        points = zip(moments[order].tolist(), np.cumsum(steps[order]).tolist(), strict=True)
        group.counters.append(Counter("queue depth (timed work)", list(points)))

    def _add_memory(self, host: Group) -> None:
        records = self._calls.records
        chosen = np.isin(records["kind"], (Kind.ALLOCATE, Kind.FREE)) & (records["result"] == 0)
        rows = np.flatnonzero(chosen & np.isin(records["call"], host_calls(), invert=True))
        rows = rows[np.argsort(self._calls.start_ns[rows], kind="stable")]
        use, points = MemoryUse(), []
        columns = [records[name][rows].tolist() for name in ("kind", "memory.address", "memory.bytes")]
        for start, kind, address, size in zip(self._calls.start_ns[rows].tolist(), *columns, strict=True):
            use.step(kind == Kind.ALLOCATE, start, address, size)
            points.append((start - self._timeline.origin_ns, use.live_bytes))
        inside = [point for point in points if self._window.begin_ns <= point[0] <= self._window.end_ns]
        if inside:
            host.counters.append(Counter("device memory (bytes)", inside))

    def _event_flows(self) -> Iterator[Flow]:
        """From the record of an event to each wait for it."""
        found = self._calls
        kinds = found.records["kind"]
        rows = np.flatnonzero(np.isin(kinds, (Kind.EVENT_RECORD, Kind.EVENT_WAIT)) & (found.records["result"] == 0))
        rows = rows[np.argsort(found.start_ns[rows], kind="stable")]
        recorded: dict[int, int] = {}
        for row in rows.tolist():
            event = int(found.records["event.event"][row])
            if kinds[row] == Kind.EVENT_RECORD:
                recorded[event] = row
            elif recorded.get(event) in self._host_slices and row in self._host_slices:
                yield Flow("event", self._host_slices[recorded[event]], self._host_slices[row])


def _lay(group: Group, name: str, slices: list[tuple[int, Slice]]) -> dict[int, tuple[Track, Slice]]:
    """Puts slices, sorted by start and then falling end, on as few tracks as let them nest or follow each other."""
    lanes: list[tuple[Track, list[int]]] = []  # a track, and the ends of its slices that are open
    placed: dict[int, tuple[Track, Slice]] = {}
    for row, slice_ in slices:
        lane = next((lane for lane in lanes if _fits(lane[1], slice_)), None)
        if lane is None:
            lane = (Track(name if not lanes else f"{name} ({len(lanes) + 1})"), [])
            lanes.append(lane)
        track, open_ends = lane
        open_ends.append(slice_.end_ns)
        track.slices.append(slice_)
        placed[row] = (track, slice_)
    group.tracks += [track for track, _ in lanes]
    return placed


def _fits(open_ends: list[int], slice_: Slice) -> bool:
    """Forgets ends that have passed."""
    while open_ends and open_ends[-1] <= slice_.start_ns:
        open_ends.pop()
    return not open_ends or slice_.end_ns <= open_ends[-1]
