"""How long a program takes on some GPUs when its launches go where their bytes are, and not where streams send them.

The rule: a launch belongs to the GPU that holds most of what it reads of freshly made bytes; if nothing is fresh, to
the GPU where the last one went. It leaves only if it would finish elsewhere earlier by more than `lead_ns`, the way
there and back, and the copying of what is missing there; and not alone: what uses its results has to go along, or it
and those that do are as much work as the lead. For that the rule looks at what is called within the lead; meanwhile the
launch can wait, since it leaves a GPU that has still more to do. Each GPU runs its launches one after another.
Constants lie everywhere. An operation that may touch anything waits for all GPUs and runs on the first one.

Pure: the same program gives the same schedule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from controlplane.graph.nodes import What, Why
from controlplane.graph.versions import Dependencies

FIRST = 0  # the GPU that the program believes it uses


@dataclass(frozen=True, slots=True)
class Rule:
    """Figures of two H200s over NVLink. host_ns: between a thread's calls; fence_ns: until another GPU sees that work
    is done; copy_ns: before a copy's first byte; bytes_per_ns: of the link.
    """

    lead_ns: float = 500e3
    host_ns: float = 5e3
    fence_ns: float = 8e3
    copy_ns: float = 3e3
    bytes_per_ns: float = 390.0


@dataclass(slots=True)
class Schedule:
    """By operation: its GPU, when it begins and ends, and the bytes that are copied to its GPU for it. marked_ns: when
    everything up to `mark` was done.
    """

    gpus: int
    gpu: list[int] = field(default_factory=list)
    start_ns: list[float] = field(default_factory=list)
    end_ns: list[float] = field(default_factory=list)
    moved: list[int] = field(default_factory=list)
    marked_ns: float = 0.0

    @property
    def length_ns(self) -> float:
        return max(self.end_ns, default=0.0)

    @property
    def span_ns(self) -> float:
        """After the mark."""
        return self.length_ns - self.marked_ns

    @property
    def moved_bytes(self) -> int:
        return sum(self.moved)


Counts = Callable[[int, Why], bool]  # whether an operation's need for such a reason counts


def everything(number: int, why: Why) -> bool:  # noqa: ARG001
    return True


def simulate(
    found: Dependencies, gpus: int, rule: Rule | None = None, counts: Counts = everything, mark: int = -1
) -> Schedule:
    """mark: the last operation before what is measured; by default all is."""
    run = _Run(found, gpus, rule or Rule(), counts)
    for number in range(len(found.program.nodes)):
        run.step(number)
        if number == mark:
            run.out.marked_ns = run.out.length_ns
    return run.out


class _Run:
    def __init__(self, found: Dependencies, gpus: int, rule: Rule, counts: Counts) -> None:
        self.found, self.rule, self.counts = found, rule, counts
        self.out = Schedule(gpus)
        self.free = [0.0] * gpus  # when each GPU has done what it was given
        self.host: dict[int, float] = {}  # when each thread calls next
        self.done: dict[str, float] = {}  # of each stream
        self.stream_done: list[float] = []  # of the stream of each operation, up to it
        self.held: dict[int, int] = {}  # bits: GPUs that hold a piece
        self.last = FIRST
        self.has_fences = any(node.unknown for node in found.program.nodes)

    def step(self, number: int) -> None:
        node, out = self.found.program.nodes[number], self.out
        waited = [self.stream_done[each] for each in node.waits] + [out.end_ns[each] for each in node.returned]
        called = max([self.host.get(node.thread, 0.0), *waited])
        if node.what is What.FORGET:
            start, gpu, missing, end = called, FIRST, 0, called
        else:
            start, gpu, missing = self.everywhere(called) if self.is_fence(number) else self.choose(number, called)
            end = start + node.ns
            self.free[gpu] = end
            self.host[node.thread] = called + self.rule.host_ns
            self.last = gpu
        out.gpu.append(gpu)
        out.start_ns.append(start)
        out.end_ns.append(end)
        out.moved.append(missing)
        self.done[node.stream] = max(self.done.get(node.stream, 0.0), end)
        self.stream_done.append(self.done[node.stream])

    def is_fence(self, number: int) -> bool:
        return bool(self.found.program.nodes[number].unknown) and self.counts(number, Why.ANYTHING)

    def everywhere(self, called: float) -> tuple[float, int, int]:
        start = max(called, *self.free) if len(self.free) > 1 else max(called, self.free[0])
        self.free = [start] * len(self.free)
        return start, FIRST, 0

    def choose(self, number: int, called: float) -> tuple[float, int, int]:
        """Start, GPU, and bytes that it lacks there."""
        rule, ns = self.rule, self.found.program.nodes[number].ns
        starts, missing, is_fresh = self.options(number, called)
        gpus = range(len(starts))
        least = min(missing)
        own = self.last
        if is_fresh and missing[own] != least:
            own = min(gpus, key=lambda gpu: (missing[gpu], starts[gpu]))
        best, best_score = own, starts[own] + ns
        for gpu in gpus:
            score = starts[gpu] + ns + 2 * rule.fence_ns + 2 * missing[gpu] / rule.bytes_per_ns + rule.lead_ns
            if gpu != own and score < best_score:
                best, best_score = gpu, score
        if best != own and not self.pays(number, own, best):
            best = own
        self.take(number, best)
        return starts[best], best, missing[best]

    def pays(self, number: int, own: int, other: int) -> bool:
        """Whether it pays to leave the own GPU with what follows. What would not go along is bound by bytes that the
        own GPU is about to make, directly or by what it reads of other operations that are.
        """
        nodes, rule = self.found.program.nodes, self.rule
        along, bound, work_ns = {number}, set[int](), nodes[number].ns
        late_ns = self.free[own] - 3 * rule.fence_ns - rule.copy_ns - rule.lead_ns
        for later in range(number + 1, min(number + 1 + int(rule.lead_ns / rule.host_ns), len(nodes))):
            if work_ns >= rule.lead_ns:
                break
            needs = [need for need in self.found.fresh[later] if self.counts(later, need[2])]
            is_along = any(writer in along for *_, writer in needs)
            if any(need[3] in bound or self.binds(need, other, number, late_ns) for need in needs):
                if is_along:
                    return False
                bound.add(later)
            elif is_along:
                along.add(later)
                work_ns += nodes[later].ns
        return True

    def binds(self, need: tuple[int, int, Why, int], other: int, before: int, late_ns: float) -> bool:
        """Whether bytes of an operation before this one would get to the other GPU too late for a launch to leave."""
        piece, size, _, writer = need
        if writer >= before or self.holding(piece) >> other & 1:
            return False
        return self.out.end_ns[writer] + 3 * size / self.rule.bytes_per_ns >= late_ns

    def options(self, number: int, called: float) -> tuple[list[float], list[int], bool]:
        """By GPU: when the operation could start, and bytes that it would lack; whether it reads anything fresh."""
        found, rule, counts, end_ns, where = self.found, self.rule, self.counts, self.out.end_ns, self.out.gpu
        starts = [max(called, free) for free in self.free]
        missing, is_fresh = [0] * len(starts), False
        for piece, size, why, writer in found.fresh[number]:
            if not counts(number, why):
                continue
            is_fresh = True
            held, end, home = self.holders(piece), end_ns[writer], where[writer]
            for gpu in range(len(starts)):
                if held >> gpu & 1:
                    ready = end if home == gpu else end + rule.fence_ns
                else:
                    missing[gpu] += size
                    ready = end + rule.fence_ns + rule.copy_ns + size / rule.bytes_per_ns
                if ready > starts[gpu]:
                    starts[gpu] = ready
        if self.has_fences:
            for writer, why in found.raw[number]:
                if why is Why.ANYTHING and counts(writer, why):
                    starts = [max(start, end_ns[writer]) for start in starts]
        return starts, missing, is_fresh

    def holders(self, piece: int) -> int:
        """A piece is held where what it was cut from was held, which nobody has used since."""
        held = self.holding(piece)
        while piece not in self.held:
            self.held[piece] = held
            piece = self.found.parents[piece]
        return held

    def holding(self, piece: int) -> int:
        """As holders, of bytes that may still be cut: nothing is kept."""
        while piece not in self.held:
            parent = self.found.parents[piece]
            if parent == piece:
                return 1 << self.out.gpu[self.found.writers[piece]]
            piece = parent
        return self.held[piece]

    def take(self, number: int, gpu: int) -> None:
        """It runs there, and what it needs is there from then on."""
        for piece, _, why, _ in self.found.fresh[number]:
            if self.counts(number, why):
                self.held[piece] = self.holders(piece) | 1 << gpu
