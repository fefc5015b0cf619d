"""From a trace to a profile: the recurring iteration, with times by class, ranges, waits, host time, and memory."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median, quantiles

import numpy as np
from numpy.typing import NDArray

from controlplane.graph.nodes import Node, What, Why
from controlplane.graph.recorded import Recording
from controlplane.graph.versions import dependencies
from controlplane.observe.layout import Flag, Kind
from controlplane.observe.memory import MemoryUse
from controlplane.profile import iteration as iterations
from controlplane.profile.model import (
    HOST,
    Carried,
    Coverage,
    Iteration,
    LaunchClass,
    Machine,
    Operation,
    Profile,
    Source,
    Time,
)
from controlplane.profile.touched import Places, accesses, allocations

COPY_NS = 2000.0
UNLIKE = 0.5  # what a time of the same function in another shape may be wrong by
ROUGH = 1.0  # what a guess may be wrong by
WAITING = frozenset({Kind.SYNCHRONIZE})
ENQUEUES = frozenset(
    {Kind.LAUNCH, Kind.COPY, Kind.MEMSET, Kind.GRAPH, Kind.EVENT_RECORD, Kind.EVENT_WAIT, Kind.HOST, Kind.SYNCHRONIZE}
)
Key = tuple[Hashable, ...]


def profile_of(recording: Recording, machine: Machine) -> Profile:
    """Numbers of GPUs in the trace are places in machine.gpus."""
    return _Maker(recording, machine).profile()


class _Maker:
    def __init__(self, recording: Recording, machine: Machine) -> None:
        self.recording, self.machine = recording, machine
        self.nodes = recording.program.nodes
        self.records = recording.process.records
        self.found = dependencies(recording.program)
        self.keys = [self.key(number) for number in range(len(self.nodes))]
        self.recurring = iterations.find(self.found, self.keys)
        self.middle = len(self.recurring.starts) // 2
        self.chosen = self.recurring.nodes(self.middle)
        self.place = {number: index for index, number in enumerate(self.recurring.numbers)}
        self.classes: dict[Key, int] = {}
        self.streams: dict[str, int] = {}
        self.library_calls: dict[int, int] = {}
        self.samples: dict[tuple[Key, int], list[float]] = defaultdict(list)
        self.alike: dict[tuple[Hashable, int], list[float]] = defaultdict(list)

    def key(self, number: int) -> Key:
        """What operations of one class have in common; the second is the function."""
        node, row = self.nodes[number], self.recording.rows[number]
        if node.what is What.LAUNCH and self.records["kind"][row] == Kind.LAUNCH:
            record = self.records[row]
            grid, block = tuple(record["launch.grid"].tolist()), tuple(record["launch.block"].tolist())
            return (node.what, int(record["launch.function"]), grid, block, int(record["launch.shared_bytes"]))
        return (node.what, node.name, self.size(number))

    def size(self, number: int) -> int:
        what, row = self.nodes[number].what, self.recording.rows[number]
        field = {What.COPY: "copy.bytes", What.MEMSET: "memset.bytes"}.get(what)
        return int(self.records[field][row]) if field else 0

    def profile(self) -> Profile:
        self.take_times()
        inside = [self.nodes[number] for number in self.chosen]
        places = Places(self.nodes[: self.chosen[-1] + 1], inside)
        host = self.host_times()
        operations = tuple(
            self.operation(index, number, host[index], places) for index, number in enumerate(self.chosen)
        )
        carried = self.carried()
        span = self.recurring.starts[0], self.recurring.starts[-1] + self.recurring.length
        recurring = [self.nodes[number] for number in self.recurring.numbers[span[0] : span[1]]]
        period = self.period()
        iteration = Iteration(
            operations,
            len(self.recurring.starts),
            *(period or (sum(node.ns for node in inside), 0.0)),
            carried,
            self.recurring.threads,
        )
        return Profile(
            self.recording.process.traced.process.program,
            self.machine,
            tuple(self.classes_made(inside)),
            iteration,
            allocations(places, inside, recurring, frozenset(each.reader for each in carried)),
            self.peak_bytes(),
            self.coverage(inside),
        )

    # times

    def take_times(self) -> None:
        calls, places = self.recording.calls, self.recording.places
        for number, node in enumerate(self.nodes):
            if node.what is What.FORGET:
                continue
            row = self.recording.rows[number]
            call = int(places[row])
            if not calls.timed[call]:
                continue
            device = int(self.records["launch.device"][row]) if node.what is What.LAUNCH else self.machine.home
            if self.records["flags"][row] & Flag.KEPT_HOME:
                device = self.machine.home
            of = self.machine.gpus[device] if device < len(self.machine.gpus) else self.machine.home_type
            ns, key = float(calls.gpu_ns[call]), self.keys[number]
            self.samples[key, of].append(ns)
            self.alike[key[:2], of].append(ns)

    def time(self, key: Key, of: int) -> Time | None:
        samples = self.samples.get((key, of))
        if samples:
            return Time(median(samples), len(samples), _spread(samples))
        alike = self.alike.get((key[:2], of)) if key[0] is What.LAUNCH else None
        return Time(median(alike), len(alike), _spread(alike), Source.ALIKE, UNLIKE) if alike else None

    def guess(self, of: LaunchClass, gpu_type: int) -> Time:
        """From the bytes, by what the machine's memory and links can do."""
        if of.what is What.COPY and (of.from_host or of.to_host):
            home = self.machine.home
            link = self.machine.link(*((HOST, home) if of.from_host else (home, HOST)))
            rate, first_ns = (link.bytes_per_s, link.latency_ns) if link is not None else (50 * 10**9, COPY_NS)
            return Time(first_ns + of.bytes / rate * 1e9, 0, 0.0, Source.GUESSED, ROUGH)
        kind = self.machine.types[gpu_type]
        moved = 2 * of.bytes if of.what is What.COPY else of.bytes
        rate = kind.memory_bytes_per_s or 10**12
        return Time(max(kind.fixed_ns, moved / rate * 1e9), 0, 0.0, Source.GUESSED, ROUGH)

    def classes_made(self, inside: Sequence[Node]) -> list[LaunchClass]:
        sizes: dict[int, list[int]] = defaultdict(list)
        for number, node in zip(self.chosen, inside, strict=True):
            spans = {read.span for read in node.reads if read.why is Why.READ} | {write.span for write in node.writes}
            bytes_used = sum(
                span.end - span.first if not span.stride else (span.end - span.first) // span.stride * span.width
                for span in spans
            )
            sizes[self.classes[self.keys[number]]].append(bytes_used)
        made = []
        for key, number in self.classes.items():
            node = next(self.nodes[each] for each in self.chosen if self.keys[each] == key)
            made.append(self.class_made(key, node, sizes[number]))
        return made

    def class_made(self, key: Key, node: Node, sizes: Sequence[int]) -> LaunchClass:
        if len(key) < 5:
            to_host = node.what is What.COPY and not node.writes and not node.unknown
            size = key[2]
            assert isinstance(size, int)
            of = LaunchClass(node.what, node.name, bytes=size, from_host=node.from_host, to_host=to_host)
        else:
            _, function, grid, block, shared_bytes = key
            assert isinstance(function, int)
            assert isinstance(grid, tuple)
            assert isinstance(block, tuple)
            assert isinstance(shared_bytes, int)
            traced = self.recording.process.traced
            code = traced.hashes.get(traced.modules.get(function, 0), 0)
            name = traced.function(function)
            mean = sum(sizes) // len(sizes)
            of = LaunchClass(node.what, node.name, name, f"{code:016x}", grid, block, shared_bytes, mean)
        home = self.machine.home_type
        times = [self.time(key, number) for number in range(len(self.machine.types))]
        times[home] = times[home] or self.guess(of, home)
        return replace(of, times=tuple(times))

    # the order of operations

    def operation(self, index: int, number: int, host_ns: float, places: Places) -> Operation:
        node = self.nodes[number]
        return Operation(
            self.classes.setdefault(self.keys[number], len(self.classes)),
            self.streams.setdefault(node.stream, len(self.streams)),
            0,
            host_ns,
            accesses(node, places),
            self.near(node.after, index),
            self.near(node.waits, index),
            self.near(node.returned, index),
            self.call(number),
            node.unknown,
        )

    def call(self, number: int) -> int:
        """Numbers of calls from 1 on."""
        call = self.nodes[number].call
        return self.library_calls.setdefault(call, len(self.library_calls) + 1) if call else 0

    def near(self, numbers: Sequence[int], index: int) -> tuple[int, ...]:
        """Of this iteration or the one before; -1 is the last operation before this iteration."""
        first, found = self.recurring.starts[self.middle], []
        for number in numbers:
            if number in self.place:
                here = self.place[number] - first
                if -self.recurring.length <= here < index:
                    found.append(here)
        return tuple(sorted(found))

    def carried(self) -> tuple[Carried, ...]:
        """What operations of the iteration need of earlier iterations. What was there before is each one's own."""
        first, length = self.recurring.starts[self.middle], self.recurring.length
        found: Counter[tuple[int, int, int]] = Counter()
        for index, number in enumerate(self.chosen):
            for (writer, why), size in self.found.raw[number].items():
                if why is Why.ANYTHING or writer not in self.place or self.found.is_constant(writer, number):
                    continue
                place = self.place[writer] - first
                like = self.keys[writer] == self.keys[self.chosen[place % length]]
                if like and self.recurring.starts[0] - first <= place < 0:
                    found[place % length, index, -(place // length)] += size
        return tuple(Carried(writer, reader, size, back) for (writer, reader, back), size in sorted(found.items()))

    def period(self) -> tuple[float, float] | None:
        """From an operation's beginning on a GPU to the next iteration's; of the first that was timed often."""
        calls, count = self.recording.calls, len(self.recurring.starts)
        for index in range(min(self.recurring.length, 256)):
            starts: list[tuple[int, int]] = []
            for turn in range(count):
                call = self.call_row(self.recurring.nodes(turn)[index])
                if calls.timed[call]:
                    starts.append((turn, int(calls.gpu_start_ns[call])))
            gaps = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(starts)]
            if len(gaps) >= max(count // 2, 2):
                return median(gaps), _spread(gaps)
        return None

    # the host

    def host_times(self) -> list[float]:
        """What the thread spends on each operation, the middle one of all iterations."""
        calls = self.recording.calls
        kinds = calls.records["kind"]
        waits = np.isin(kinds, [*WAITING]) | ((calls.records["flags"] & Flag.BLOCKING) != 0)
        if self.machine.emulated:
            cost = np.where(np.isin(kinds, [*ENQUEUES]), self.machine.call_ns, 0.0)
        else:
            # A wait is what the GPUs took; what the call itself costs is not known, and little.
            cost = np.where(waits, 0.0, (calls.end_ns - calls.start_ns).astype(np.float64))
        spent: list[list[float]] = [[] for _ in range(self.recurring.length)]
        for turn in range(len(self.recurring.starts)):
            rows = [self.call_row(number) for number in self.recurring.nodes(turn)]
            thread = int(calls.thread[rows[0]])
            before = self.recurring.starts[turn] - 1
            last = self.call_row(self.recurring.numbers[before]) if before >= 0 else -1
            for index, row in enumerate(rows):
                if last >= 0:
                    spent[index].append(self.between(last, row, thread, cost))
                last = row
        return [median(each) if each else 0.0 for each in spent]

    def call_row(self, number: int) -> int:
        return int(self.recording.places[self.recording.rows[number]])

    def between(self, last: int, row: int, thread: int, cost: NDArray[np.float64]) -> float:
        """Of one thread, from the end of one call to the end of a later one."""
        calls = self.recording.calls
        rows = [each for each in range(last + 1, row + 1) if calls.thread[each] == thread] if last < row else [row]
        if self.machine.emulated:
            return float(sum(cost[each] for each in rows))
        busy = sum(float(cost[each]) for each in rows)
        ends = [int(calls.end_ns[last]), *(int(calls.end_ns[each]) for each in rows[:-1])]
        gaps = sum(max(int(calls.start_ns[each]) - end, 0) for each, end in zip(rows, ends, strict=True))
        return busy + gaps

    # the rest

    def peak_bytes(self) -> int:
        use = MemoryUse()
        use.add([self.records])
        return use.peak_bytes

    def coverage(self, inside: Sequence[Node]) -> Coverage:
        program = self.recording.program
        times = [self.time(self.keys[number], self.machine.home_type) for number in self.chosen]
        untimed = [
            node.ns
            for node, time in zip(inside, times, strict=True)
            if time is None or time.source is not Source.MEASURED
        ]
        whole = sum(node.ns for node in inside)
        notes = list(program.notes)
        if not self.recurring.is_recurring:
            notes.append("nothing repeats often enough: the whole program counts as one iteration")
        return Coverage(
            program.launches,
            self.recording.lost,
            program.whole,
            tuple(Counter(node.unknown for node in inside if node.unknown).most_common()),
            len(untimed),
            round(sum(untimed) / whole, 6) if whole else 0.0,
            tuple(notes),
        )


def _spread(samples: Sequence[float]) -> float:
    if len(samples) < 2:
        return 0.0
    first, _, third = quantiles(samples, n=4, method="inclusive")
    return (third - first) / 2
