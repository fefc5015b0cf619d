"""How long a program takes on some GPUs when its launches go where the rule sends them, and not where streams do.

The rule and its clocks are those of the application's process (controlplane/graph/rule.py, tessera/place.h). Each GPU
runs its launches one after another; copies from one GPU to another do, too. Constants lie everywhere. An operation that
may touch anything waits for all GPUs and runs on the first one.

Pure: the same program gives the same schedule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from controlplane.graph.nodes import Node, What, Why
from controlplane.graph.rule import Answer, Guard, GuardRule, Part, Place, Rule
from controlplane.graph.versions import Dependencies

FIRST = 0  # the GPU that the program believes it uses


@dataclass(slots=True)
class Schedule:
    """By operation: its GPU, when it begins and ends, and the bytes that are copied to its GPU for it. marked_ns: when
    everything up to `mark` was done. rested: launches that the guard kept at home.
    """

    gpus: int
    gpu: list[int] = field(default_factory=list)
    start_ns: list[float] = field(default_factory=list)
    end_ns: list[float] = field(default_factory=list)
    moved: list[int] = field(default_factory=list)
    marked_ns: float = 0.0
    rested: int = 0

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
Pins = Callable[[int], int | None]  # the GPU on which an operation must run


def everything(number: int, why: Why) -> bool:  # noqa: ARG001
    return True


def anywhere(number: int) -> int | None:  # noqa: ARG001
    return None


def simulate(
    found: Dependencies,
    gpus: int,
    rule: Rule | None = None,
    counts: Counts = everything,
    mark: int = -1,
    *,
    pins: Pins = anywhere,
    guard: GuardRule | None = None,
) -> Schedule:
    """mark: the last operation before what is measured; by default all is. guard: None: there is none."""
    run = _Run(found, gpus, rule or Rule(), counts, pins, guard)
    for number in range(len(found.program.nodes)):
        run.step(number)
        if number == mark:
            run.out.marked_ns = run.out.length_ns
    run.out.rested = run.guard.rested if run.guard is not None else 0
    return run.out


class _Run:
    def __init__(
        self, found: Dependencies, gpus: int, rule: Rule, counts: Counts, pins: Pins, guard: GuardRule | None
    ) -> None:
        self.found, self.rule, self.counts, self.pins = found, rule, counts, pins
        self.out = Schedule(gpus)
        self.place = Place(gpus, rule)
        self.guard = Guard(guard) if guard is not None else None
        self.stays = False
        self.alike: dict[tuple[What, str], int] = {}
        self.host: dict[int, float] = {}  # when each thread calls next
        self.last: dict[str, int] = {}  # number of each stream's last operation that ran
        self.before: list[int] = []  # at each operation: of its stream, up to it
        self.held: dict[int, int] = {}  # bits: GPUs that hold a piece
        self.everywhere = (1 << gpus) - 1
        self.has_fences = any(node.unknown for node in found.program.nodes)

    def step(self, number: int) -> None:
        node, out = self.found.program.nodes[number], self.out
        called = self.called(node)
        if node.what is What.FORGET:
            answer = Answer(FIRST, called, called, called, 0)
        else:
            answer = self.run(number, node, called)
            self.host[node.thread] = called + self.rule.host_ns
            self.last[node.stream] = number
        out.gpu.append(answer.gpu)
        out.start_ns.append(answer.start_ns)
        out.end_ns.append(answer.finish_ns)
        out.moved.append(answer.pulled)
        self.before.append(self.last.get(node.stream, -1))

    def called(self, node: Node) -> float:
        """When the host calls it, having waited for what it waits for."""
        called = self.host.get(node.thread, 0.0)
        waited = [self.before[each] for each in node.waits if self.before[each] >= 0] + list(node.returned)
        for each in sorted(waited, key=self.out.end_ns.__getitem__):
            if self.out.end_ns[each] > called:
                self.place.waited(each + 1, called, self.out.end_ns[each])
                called = self.out.end_ns[each]
        return called

    def run(self, number: int, node: Node, called: float) -> Answer:
        parts, allowed = self.parts(number), self.pins(number)
        if node.unknown and self.counts(number, Why.ANYTHING):
            called, allowed = max(called, self.place.end_ns), FIRST
        answer = self.place.next(
            number + 1,
            self.last.get(node.stream, -1) + 1,
            called,
            node.ns,
            parts,
            like=self.alike.setdefault((node.what, node.name), len(self.alike) + 1),
            written=sum(write.span.end - write.span.first for write in node.writes),
            allowed=None if allowed is None else 1 << allowed,
            stays=self.stays,
        )
        if self.guard is not None:
            self.stays = self.guard.stays(self.place.clocks)
        self.take(number, answer.gpu)
        return answer

    def parts(self, number: int) -> list[Part]:
        """What it reads of freshly made bytes."""
        counts, sizes = self.counts, dict[tuple[int, int], int]()
        for piece, size, why, writer in self.found.fresh[number]:
            if counts(number, why):
                key = (writer, self.holders(piece))
                sizes[key] = sizes.get(key, 0) + size
        parts = [Part(writer + 1, size, held) for (writer, held), size in sizes.items()]
        if self.has_fences:
            fences = (writer for writer, why in self.found.raw[number] if why is Why.ANYTHING and counts(writer, why))
            parts += [Part(writer + 1, 0, self.everywhere) for writer in fences]
        return parts

    def holders(self, piece: int) -> int:
        """A piece is held where what it was cut from was held, which nobody has used since."""
        chain = []
        while piece not in self.held:
            parent = self.found.parents[piece]
            if parent == piece:
                self.held[piece] = 1 << self.out.gpu[self.found.writers[piece]]
                break
            chain.append(piece)
            piece = parent
        held = self.held[piece]
        for each in chain:
            self.held[each] = held
        return held

    def take(self, number: int, gpu: int) -> None:
        """It runs there, and what it needs is there from then on."""
        for piece, _, why, _ in self.found.fresh[number]:
            if self.counts(number, why):
                self.held[piece] = self.holders(piece) | 1 << gpu
