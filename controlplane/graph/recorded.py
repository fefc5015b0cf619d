"""A process of a trace as a program: what it launched, copied and set, with ranges, times and order."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from controlplane.analysis.allocations import Allocations
from controlplane.analysis.analyst import Analyst
from controlplane.analysis.coverage import analyse_all
from controlplane.analysis.operands import LibraryCall
from controlplane.analysis.traced import MAPPINGS, Images, Used, launch_at, used
from controlplane.base.demangle import demangle
from controlplane.graph.nodes import Node, Program, Read, Span, What, Why, Write
from controlplane.graph.predicted import NO_PARAMETERS, Predictor, same_call
from controlplane.graph.streams import Order
from controlplane.graph.times import ASSUMED, Times, guessed
from controlplane.graph.touched import touched
from controlplane.observe.layout import Flag, Kind, driver_functions
from controlplane.observe.memory import host_calls
from controlplane.observe.trace import NO_CALLS, Calls, Trace, TracedProcess, calls
from ptxtools.errors import ConfigError
from ptxtools.machine.consent import Consent

WANTED = "a trace that tessera-run --trace FILE --trace-parameters wrote"
PIECE = re.compile(r"cuMem(?:cpy(?:HtoD|DtoD|DtoH|Peer)?|setD(?:8|16|32))(?:Async)?(?:_v\d+)?(?:_pt[ds][sz])?\Z")
HOST, DEVICE = 1, 2  # CUmemorytype
KINDS = (
    *(Kind.LAUNCH, Kind.COPY, Kind.MEMSET, Kind.GRAPH, Kind.ALLOCATE, Kind.FREE),
    *(Kind.STREAM, Kind.EVENT_RECORD, Kind.EVENT_WAIT, Kind.SYNCHRONIZE),
)
OPERATIONS = {Kind.LAUNCH: What.LAUNCH, Kind.COPY: What.COPY, Kind.MEMSET: What.MEMSET, Kind.GRAPH: What.LAUNCH}


@dataclass(frozen=True, slots=True)
class Recording:
    """A program with what its trace says of it. rows: by node, its record among the process'; places: by record, its
    row among the calls. lost: launches that were not recorded.
    """

    program: Program
    process: Used
    rows: Sequence[int]
    calls: Calls
    places: NDArray[np.intp]
    lost: int = 0


def read_program(trace: Trace, analyst: Analyst, consent: Consent, say: Callable[[str], None]) -> Program:
    """The process with the most launches. Errors: ConfigError, of a trace that does not tell enough."""
    return read_recording(trace, analyst, consent, say).program


def read_recording(trace: Trace, analyst: Analyst, consent: Consent, say: Callable[[str], None]) -> Recording:
    """The same with more."""
    if trace.cut_off is not None:
        raise ConfigError(f"it was cut off at offset {trace.cut_off}", expected="a whole trace", file=trace.file)
    processes = [used(traced, consent) for traced in trace.processes]
    processes.sort(key=lambda process: -_launches(process))
    if not processes or not _launches(processes[0]):
        raise ConfigError("no kernel was launched in it", expected=WANTED, file=trace.file)
    process = processes[0]
    if sum(_launches(other) > 0 for other in processes) > 1:
        pid = process.traced.process.pid
        say(f"only process {pid}, which launched the most, is looked at; --process PID takes another")
    _refuse_without_parameters(trace, process)
    with Images(trace) as images:
        analyses = analyse_all([process], images, analyst, "*", say)
    lost = _lost(process.traced)
    builder = _Builder(process, Predictor(process, analyses, is_whole=not lost))
    program = builder.program()
    if lost:
        note = f"{lost} launches were not recorded: what depends on them is not seen"
        program = replace(program, notes=(*program.notes, note))
    return Recording(program, process, builder.rows, builder.calls, builder.places, lost)


def _launches(process: Used) -> int:
    return sum(function.launches for function in process.functions.values())


def _lost(traced: TracedProcess) -> int:
    recorded = sum(int((piece.records["kind"] == Kind.LAUNCH).sum()) for piece in traced.pieces)
    return max(sum(traced.counters.launches) + traced.counters.captured - recorded, 0)


def _refuse_without_parameters(trace: Trace, process: Used) -> None:
    launches = process.records[process.records["kind"] == Kind.LAUNCH]
    if not launches["detail"].any():
        raise ConfigError("its launches have no parameters", expected=WANTED, file=trace.file)


@dataclass(frozen=True, slots=True)
class _Operation:
    """What a record says of an operation, before its place in the order is known."""

    what: What
    name: str
    like: tuple[Hashable, ...]  # what operations have in common that take about as long
    reads: tuple[Read, ...] = ()
    writes: tuple[Write, ...] = ()
    unknown: str = ""
    size: int = 0
    with_host: bool = False
    from_host: bool = False
    library: LibraryCall | None = None


class _Builder:
    def __init__(self, process: Used, predictor: Predictor) -> None:
        self.process, self.records, self.predictor = process, process.records, predictor
        self.names = driver_functions()
        self.mappings = {row for row, name in enumerate(self.names) if name in MAPPINGS}
        self.is_parameters = np.asarray(self.records["kind"] == Kind.PARAMETERS)
        self.allocations, self.order, self.times = Allocations(), Order(), Times()
        self.nodes: list[Node] = []
        self.likes: list[tuple[Hashable, ...]] = []
        self.rows: list[int] = []
        self.calls = calls(process.traced)
        self.places: NDArray[np.intp] = np.cumsum(np.isin(self.records["kind"], NO_CALLS, invert=True)) - 1
        self.short: dict[int, str] = {}
        self.streams: dict[Hashable, str] = {}
        self.whole = self.bare = 0
        self.last_call: dict[int, tuple[int, LibraryCall | None]] = {}
        self.call = 0
        self._columns: dict[str, list[Any]] = {}

    def program(self) -> Program:
        found, place = self.calls, self.places
        rows = np.flatnonzero(np.isin(self.records["kind"], KINDS) & (self.records["result"] == 0))
        rows = rows[np.argsort(self.records["start"][rows], kind="stable")]
        origin = int(found.start_ns.min()) if len(found.start_ns) else 0
        threads, timed, ns = found.thread[place[rows]], found.timed[place[rows]], found.gpu_ns[place[rows]]
        starts = found.start_ns[place[rows]] - origin
        columns = (rows.tolist(), threads.tolist(), timed.tolist(), ns.tolist(), starts.tolist())
        for row, thread, is_timed, gpu_ns, at_ns in zip(*columns, strict=True):
            self.record(row, thread, float(gpu_ns) if is_timed else None, at_ns)
        guesses = self.fill_in_times()
        return Program(self.nodes, self.whole, tuple(self.notes(guesses)))

    def of(self, name: str, row: int) -> Any:
        """A record's field; whole columns are unpacked at a time, as single fields are slow to get."""
        if name not in self._columns:
            self._columns[name] = self.records[name].tolist()
        return self._columns[name][row]

    def record(self, row: int, thread: int, ns: float | None, at_ns: int) -> None:
        kind = self.of("kind", row)
        if kind in OPERATIONS:
            if not self.of("flags", row) & Flag.CAPTURED:
                self.add(row, self.operation(kind, row), thread, ns, at_ns)
        elif kind in (Kind.ALLOCATE, Kind.FREE):
            self.memory(kind, row, at_ns)
        else:
            self.ordering(kind, row, thread)

    def memory(self, kind: int, row: int, at_ns: int) -> None:
        begin, size = self.of("memory.address", row), self.of("memory.bytes", row)
        if kind == Kind.ALLOCATE:
            self.allocations.add(begin, size, mapped=self.of("call", row) in self.mappings)
            if self.of("call", row) not in host_calls() and size:
                self.nodes.append(Node(What.FORGET, "", 0.0, writes=(Write(Span(begin, begin + size)),), at_ns=at_ns))
                self.likes.append(())
                self.rows.append(row)
        else:
            _, end = self.allocations(begin) or (0, 0)
            self.allocations.remove(begin, size)
            self.predictor.changed(begin, max(end, begin + size))
        self.predictor.allocated()

    def ordering(self, kind: int, row: int, thread: int) -> None:
        context, stream, event = self.of("context", row), self.of("stream", row), self.of("event.event", row)
        key = self.order.key(context, stream, thread)
        if kind == Kind.STREAM:
            self.order.created(self.of("stream.handle", row), self.of("detail", row))
        elif kind == Kind.EVENT_RECORD:
            self.order.record(event, key)
        elif kind == Kind.EVENT_WAIT:
            self.order.wait(event, key)
        elif stream:
            self.order.synchronize_stream(key, thread)
        elif event:
            self.order.synchronize_event(event, thread)
        else:
            self.order.synchronize_context(context, thread)

    def add(self, row: int, of: _Operation, thread: int, ns: float | None, at_ns: int) -> None:
        number = len(self.nodes)
        key = self.order.key(self.of("context", row), self.of("stream", row), thread)
        blocking = bool(self.of("flags", row) & Flag.BLOCKING)
        before = self.order.enqueue(number, key, blocking=blocking, thread=thread)
        stream = self.streams.setdefault(key, f"stream {len(self.streams) + 1}")
        if ns is not None:
            self.times.add(of.like, ns)
        guess = guessed(of.size, with_host=of.with_host)
        self.nodes.append(
            Node(
                of.what,
                of.name,
                guess if ns is None else ns,
                of.reads,
                of.writes,
                of.unknown,
                ns is not None,
                stream,
                thread,
                *before,
                self.call_number(of.library, thread),
                of.from_host,
                at_ns,
            )
        )
        self.likes.append(of.like)
        self.rows.append(row)

    def call_number(self, library: LibraryCall | None, thread: int) -> int:
        before, last = self.last_call.get(thread, (0, None))
        if library is None:
            number = 0
        elif same_call(library, last):
            number = before
        else:
            self.call = number = self.call + 1
        self.last_call[thread] = (number, library)
        return number

    def operation(self, kind: int, row: int) -> _Operation:
        if kind == Kind.LAUNCH:
            return self.launch(row)
        if kind == Kind.GRAPH:
            self.predictor.changed()
            name = f"graph of {self.of('graph.kernels', row)} kernels"
            return _Operation(What.LAUNCH, name, (name,), unknown="a graph's launches are not looked at")
        return self.copy(row) if kind == Kind.COPY else self.memset(row)

    def launch(self, row: int) -> _Operation:
        launch = launch_at(self.records, row, self.is_parameters)
        predicted = self.predictor.launch(launch, self.allocations)
        reads, writes = touched(predicted.ranges, predicted.scratch)
        self.whole += any(each.whole for each in predicted.ranges)
        self.bare += predicted.unknown == NO_PARAMETERS
        number = launch.function
        if number not in self.short:
            self.short[number] = demangle(self.process.functions[number].name)
        size = sum(read.span.end - read.span.first for read in reads if read.why is Why.READ)
        size += sum(write.span.end - write.span.first for write in writes)
        like = ((number, launch.grid, launch.block), number)
        return _Operation(
            What.LAUNCH, self.short[number], like, reads, writes, predicted.unknown, size, library=launch.library
        )

    def copy(self, row: int) -> _Operation:
        size, call = self.of("copy.bytes", row), self.names[self.of("call", row)]
        source, destination = self.of("copy.source", row), self.of("copy.destination", row)
        ends = [
            kind == DEVICE or (kind != HOST and self.allocations(address) is not None)
            for kind, address in ((self.of("copy.from", row), source), (self.of("copy.to", row), destination))
        ]
        name = {(True, True): "copy", (False, True): "copy from host", (True, False): "copy to host"}.get(
            (ends[0], ends[1]), "copy on host"
        )
        common = {"size": size, "with_host": not all(ends), "from_host": not ends[0]}
        if not PIECE.match(call):
            self.predictor.changed()
            return _Operation(What.COPY, call, (call, size), unknown="a copy of several pieces", **common)
        reads = (Read(Span(source, source + size)),) if ends[0] and size else ()
        writes = (Write(Span(destination, destination + size)),) if ends[1] and size else ()
        for write in writes:
            self.predictor.changed(write.span.first, write.span.end)
        return _Operation(What.COPY, name, ((name, size),), reads, writes, **common)

    def memset(self, row: int) -> _Operation:
        size, begin, call = (
            self.of("memset.bytes", row),
            self.of("memset.address", row),
            self.names[self.of("call", row)],
        )
        if not PIECE.match(call):
            self.predictor.changed()
            return _Operation(What.MEMSET, call, (call, size), unknown="sets memory in several pieces", size=size)
        self.predictor.changed(begin, begin + size)
        return _Operation(
            What.MEMSET, "memset", (("memset", size),), (), (Write(Span(begin, begin + size)),), size=size
        )

    def fill_in_times(self) -> int:
        """How many times had to be guessed."""
        guesses = 0
        for number, node in enumerate(self.nodes):
            if node.measured or node.what is What.FORGET:
                continue
            like = self.times.like(self.likes[number])
            guesses += like is None
            if like is not None:
                self.nodes[number] = replace(node, ns=like)
        return guesses

    def notes(self, guesses: int) -> list[str]:
        operations = sum(node.what is not What.FORGET for node in self.nodes)
        notes = []
        if guesses:
            notes.append(f"times of {guesses} of {operations} operations are guessed, {ASSUMED}")
        unknown = Counter(node.unknown for node in self.nodes if node.unknown)
        notes += [f"{count} operations may touch anything: {reason}" for reason, count in unknown.most_common()]
        return notes
