"""The simulation: threads issue operations, GPUs run them, links carry what is not where it is read.

A thread issues its iteration's operations in their order, each after what the host waits for and the time that it
takes of the thread. An operation begins when what it reads is made and has been copied, what comes before it in its
stream is done there, and its GPU has room. GPUs run operations of one stream in order, those of several beside each
other as far as they fit. Each link carries one copy at a time in each direction, driven by one of its source's engines.

Constants are on all GPUs. The same input gives the same result.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from dataclasses import dataclass, field

from controlplane.graph.rule import Part
from controlplane.profile.model import HOST, Machine
from controlplane.simulate.curve import Curve
from controlplane.simulate.load import Load
from controlplane.simulate.place import Asked, Placement
from controlplane.simulate.work import Need, Task, Way, Work

QUEUE = 1024  # launches that the driver of a real GPU takes before it makes the thread wait
LEAST_LINK_NS = 3000.0
Stream = tuple[int, int]  # thread, number in the iteration


@dataclass(slots=True)
class Slice:
    """What ran where; for pictures."""

    request: int
    place: int
    gpu: int
    start_ns: float
    end_ns: float


@dataclass(slots=True)
class Copy:
    request: int
    place: int
    source: int
    target: int
    start_ns: float
    end_ns: float
    bytes: int


@dataclass(slots=True)
class Ran:
    """By request: when it arrived, began to be issued, and was done. launches: by GPU."""

    arrived_ns: list[float] = field(default_factory=list)
    begun_ns: list[float] = field(default_factory=list)
    done_ns: list[float] = field(default_factory=list)
    gpus: int = 0
    slices: list[Slice] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)
    launches: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Strand:
    """A stream's part on one GPU. given: operations; marks: operations up to it, and when others are told of them."""

    given: int = 0
    end_ns: float = 0.0  # of the last
    since_ns: float = 0.0  # work since the last mark
    marks: list[tuple[int, float]] = field(default_factory=list)

    def add(self, ns: float, end_ns: float, mark_ns: float) -> None:
        self.given, self.end_ns, self.since_ns = self.given + 1, end_ns, self.since_ns + ns
        if self.since_ns >= mark_ns:
            self.mark()

    def mark(self) -> None:
        self.marks.append((self.given, self.end_ns))
        self.since_ns = 0.0

    def told(self, number: int) -> float:
        """When others know that the operation is done; if no mark follows it, one is made now."""
        if not self.marks or self.marks[-1][0] < number:
            self.mark()
        return self.marks[bisect_left(self.marks, (number,))][1]


@dataclass(slots=True)
class _Request:
    """An iteration that is under way, or of which later ones need something. Of each operation: gpu, end; done: when
    all of its stream up to it is; ticket; strand, and its number in it.
    """

    number: int
    gpu: list[int] = field(default_factory=list)
    end: list[float] = field(default_factory=list)
    done: list[float] = field(default_factory=list)
    ticket: list[int] = field(default_factory=list)
    strand: list[_Strand] = field(default_factory=list)
    order: list[int] = field(default_factory=list)
    holders: dict[tuple[int, int], int] = field(default_factory=dict)  # of (piece, writer): bits


@dataclass(slots=True)
class _Thread:
    clock: float
    number: int
    begun: int = 0  # requests
    past: list[_Request] = field(default_factory=list)  # the newest first
    now: _Request | None = None


class Simulation:
    """keep: slices and copies are kept for pictures."""

    def __init__(self, work: Work, machine: Machine, placement: Placement, *, keep: bool = False) -> None:
        self.work, self.machine, self.placement, self.keep = work, machine, placement, keep
        gpus = range(len(machine.gpus))
        self.home = machine.home
        self.sms = [Curve() for _ in gpus]
        self.engines = [Curve(max(machine.types[of].copy_engines, 1)) for of in machine.gpus]
        self.links: dict[tuple[int, int], Curve] = {}
        self.figures = {(link.source, link.target): link for link in machine.links}
        self.strands: dict[tuple[Stream, int], _Strand] = {}  # by stream and GPU
        self.streams: dict[Stream, float] = {}  # when all of it is
        self.floors: dict[Stream, tuple[float, int]] = {}  # after what joined all strands, and where that was
        self.last: dict[Stream, int] = {}
        self.queued: list[list[float]] = [[] for _ in gpus]
        self.ticket = 0
        self.ran = Ran(gpus=len(machine.gpus), launches=[0 for _ in gpus])
        self.room = 0 if machine.emulated else QUEUE

    def run(self, load: Load) -> Ran:
        ran, servers = self.ran, load.servers or load.threads
        threads = [(0.0, number, _Thread(0.0, number)) for number in range(min(servers, load.requests))]
        heapq.heapify(threads)
        begun = 0
        while threads:
            clock, number, thread = heapq.heappop(threads)
            if thread.now is None:
                if begun == load.requests or (not load.servers and thread.begun == -(-load.requests // servers)):
                    continue
                thread.begun += 1
                thread.clock = max(clock, load.at_ns[begun]) if load.at_ns else clock
                thread.now = _Request(begun)
                ran.arrived_ns.append(load.at_ns[begun] if load.at_ns else thread.clock)
                ran.begun_ns.append(thread.clock)
                ran.done_ns.append(0.0)
                begun += 1
            else:
                self.step(thread, thread.now)
                if len(thread.now.end) == len(self.work.tasks):
                    self.finish(thread, thread.now, waits=bool(load.servers))
            heapq.heappush(threads, (thread.clock, number, thread))
        return ran

    def finish(self, thread: _Thread, request: _Request, *, waits: bool) -> None:
        """waits: who serves a request begins the next one when it is done."""
        done = max(request.end, default=thread.clock)
        self.ran.done_ns[request.number] = done
        if waits:
            thread.clock = max(thread.clock, done)
        thread.past = [request, *thread.past][: max(self.work.back, 1)]
        thread.now = None

    # one operation

    def step(self, thread: _Thread, request: _Request) -> None:
        place = len(request.end)
        task = self.work.tasks[place]
        stream = (thread.number, task.stream)
        thread.clock = self.waited(thread, request, task) + task.host_ns
        self.ticket += 1
        missing = self.missing(thread, request, task)
        last, parts = self.last.get(stream, 0), self.parts(missing)
        asked = Asked(task, request.number, place, stream, self.ticket, last, thread.clock, parts)
        gpu = self.placement.choose(asked)
        if gpu != self.home and task.way is Way.COMPUTE:
            thread.clock += max(self.machine.post_ns - self.machine.call_ns, -task.host_ns)
        self.make_room(thread, gpu)
        ready = self.ready(thread, request, task, stream, gpu)
        for need, owner in missing:
            ready = max(ready, self.arrival(request, place, need, owner, gpu, ready))
        start, end = self.begin(task, gpu, ready)
        self.end(request, task, stream, gpu, (start, end))
        if self.keep:
            self.ran.slices.append(Slice(request.number, place, gpu, start, end))

    def waited(self, thread: _Thread, request: _Request, task: Task) -> float:
        """When the host has waited for what it waits for."""
        clock = thread.clock
        for number in task.waits:
            owner, place = self.owner(thread, request, number)
            if owner is not None:
                reads_back = self.placement.by_data and self.work.tasks[place].reads_back
                until = owner.end[place] if reads_back else owner.done[place]
                if until > clock:
                    self.placement.waited(owner.ticket[place], clock, until)
                    clock = until
        for number in task.returned:
            owner, place = self.owner(thread, request, number)
            if owner is not None and owner.end[place] > clock:
                self.placement.waited(owner.ticket[place], clock, owner.end[place])
                clock = owner.end[place]
        return clock

    def owner(self, thread: _Thread, request: _Request, number: int) -> tuple[_Request | None, int]:
        """The request, and the place in it, of an operation of this iteration or the one before."""
        if number >= 0:
            return request, number
        return (thread.past[0] if thread.past else None), number + len(self.work.tasks)

    def missing(self, thread: _Thread, request: _Request, task: Task) -> list[tuple[Need, _Request]]:
        """What it needs, of which request."""
        found = []
        for need in task.needs:
            if need.back == 0:
                found.append((need, request))
            elif need.back <= len(thread.past):
                found.append((need, thread.past[need.back - 1]))
        return found

    def parts(self, needs: list[tuple[Need, _Request]]) -> list[Part]:
        sizes: dict[tuple[int, int], int] = {}
        for need, owner in needs:
            key = (owner.ticket[need.writer], self.holders(need, owner))
            sizes[key] = sizes.get(key, 0) + need.bytes
        return [Part(writer, size, held) for (writer, held), size in sizes.items()]

    def holders(self, need: Need, owner: _Request) -> int:
        return owner.holders.get((need.piece, need.writer), 1 << owner.gpu[need.writer])

    def make_room(self, thread: _Thread, gpu: int) -> None:
        """The driver's queue at home has an end."""
        queue = self.queued[gpu]
        if self.room and gpu == self.home and len(queue) >= self.room:
            thread.clock = max(thread.clock, queue[-self.room])

    def ready(self, thread: _Thread, request: _Request, task: Task, stream: Stream, gpu: int) -> float:
        """When it may begin, but for what it reads."""
        ready = max(thread.clock, self.strand(stream, gpu).end_ns)
        floor, where = self.floors.get(stream, (0.0, gpu))
        if floor:
            ready = max(ready, floor + self.fence(where, gpu))
        if task.joins or not self.placement.by_data:
            for other in range(self.ran.gpus):
                if (stream, other) in self.strands:
                    ready = max(ready, self.strands[stream, other].end_ns + self.fence(other, gpu))
        for number in task.after:
            owner, place = self.owner(thread, request, number)
            if owner is not None:
                ready = max(ready, owner.done[place] + self.fence(owner.gpu[place], gpu))
        return ready

    def strand(self, stream: Stream, gpu: int) -> _Strand:
        return self.strands.setdefault((stream, gpu), _Strand())

    def fence(self, source: int, target: int) -> float:
        if source == target:
            return 0.0
        link = self.figures.get((source, target))
        return link.fence_ns if link is not None else 0.0

    def arrival(self, request: _Request, place: int, need: Need, owner: _Request, gpu: int, ready: float) -> float:
        """When the bytes are on the GPU."""
        held, writer = self.holders(need, owner), owner.gpu[need.writer]
        made = owner.end[need.writer]
        if writer != gpu:
            made = owner.strand[need.writer].told(owner.order[need.writer]) + self.fence(writer, gpu)
        if held >> gpu & 1:
            return made
        source = writer if held >> writer & 1 else next(one for one in range(self.ran.gpus) if held >> one & 1)
        start, end = self.copy(source, gpu, need.bytes, max(made, ready))
        owner.holders[need.piece, need.writer] = held | 1 << gpu
        self.ran.copies.append(Copy(request.number, place, source, gpu, start, end, need.bytes))
        return end

    def copy(self, source: int, target: int, size: int, ready: float) -> tuple[float, float]:
        link = self.figures.get((source, target))
        first_ns, rate = (link.latency_ns, link.bytes_per_s) if link is not None else (LEAST_LINK_NS, 0)
        ns = first_ns + (size / rate * 1e9 if rate else 0.0)
        curve = self.links.setdefault((source, target), Curve())
        engine = self.engines[source if source != HOST else target]
        start = ready
        while (found := engine.earliest(1.0, ns, curve.earliest(1.0, ns, start))) > start:
            start = found
        curve.book(1.0, start, ns)
        engine.book(1.0, start, ns)
        return start, start + ns

    def begin(self, task: Task, gpu: int, ready: float) -> tuple[float, float]:
        if task.way is Way.COMPUTE:
            start = self.sms[gpu].place(task.share[gpu], task.ns[gpu], ready)
            return start, start + task.ns[gpu]
        ends = (HOST, gpu) if task.way is Way.FROM_HOST else (gpu, HOST)
        curve = self.links.setdefault(ends, Curve())
        start = curve.place(1.0, task.ns[gpu], ready)
        return start, start + task.ns[gpu]

    def end(self, request: _Request, task: Task, stream: Stream, gpu: int, ran: tuple[float, float]) -> None:
        start, end = ran
        strand = self.strand(stream, gpu)
        strand.add(end - start, end, self.placement.mark_ns)
        self.streams[stream] = max(self.streams.get(stream, 0.0), end)
        if task.joins:
            self.floors[stream] = (end, gpu)
        self.last[stream] = self.ticket
        self.ran.launches[gpu] += 1
        if self.room:
            self.queued[gpu].append(end)
        request.gpu.append(gpu)
        request.end.append(end)
        request.done.append(self.streams[stream])
        request.ticket.append(self.ticket)
        request.strand.append(strand)
        request.order.append(strand.given)
