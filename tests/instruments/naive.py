"""What a launch touches by its template, naively: thread by thread, iteration by iteration, in numbers.

The reference that the evaluator is held against: it must cover every byte that is told here. What depends on memory, on
values of which no step is known, or on incoming edges that both seem taken is not told. A place is taken to be reached
wherever its path condition holds, which may be more often than the kernel gets there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod

from ptxtools.access.depth import deep
from ptxtools.access.template import Access, AccessKind, Node, Op, Template
from ptxtools.ranges import Launch, Result
from ptxtools.ranges.threads import MOST, computed, parameter, special, threads
from tests.instruments.oracle import Interval, inside, spread, union

MOST_ITERATIONS = 300
MOST_WORK = 400_000  # nodes looked at
_ADDRESSES = 1 << 64

_At = dict[int, int]  # by loop around a place: which of its iterations


class TooLongError(Exception):
    """A launch that takes too long to look at one by one."""


@dataclass(slots=True)
class Touched:
    """Bytes by kind. `complete`: of every thread it was told whether, and where, it accesses memory."""

    accesses: dict[AccessKind, list[Interval]] = field(default_factory=lambda: {kind: [] for kind in AccessKind})
    complete: bool = True


def touched(template: Template, launch: Launch) -> Touched:
    """Errors: TooLongError."""
    if prod((*launch.grid, *launch.block)) > MOST:
        raise TooLongError
    found, work = Touched(), [MOST_WORK]
    found.complete = not template.unknown and not template.tensors
    with deep():
        for place in threads(launch):
            thread = _Thread(template, launch, place, work)
            for access in template.accesses:
                for piece in thread.pieces(access):
                    if piece is None:
                        found.complete = False
                    else:
                        found.accesses[access.kind].append(piece)
    return replace(found, accesses={kind: union(pieces) for kind, pieces in found.accesses.items()})


def lacking(result: Result, of: Touched) -> dict[AccessKind, list[Interval]]:
    """Bytes that are touched and lie outside of a result's ranges."""
    found: dict[AccessKind, list[Interval]] = {}
    for kind, pieces in of.accesses.items():
        ranges = [each for each in result.ranges if each.kind is kind]
        if any(each.whole and each.last < each.first for each in ranges):
            continue  # an allocation whose ends nobody knows
        known = union(piece for each in ranges for piece in spread(each))
        missed = [piece for piece in pieces if not inside(piece, known)]
        if missed and not result.unknown:
            found[kind] = missed
    return found


def is_equal(result: Result, of: Touched) -> bool:
    """Whether a result's ranges have these bytes and no others."""
    return not result.unknown and all(
        union(piece for each in result.ranges if each.kind is kind for piece in spread(each)) == pieces
        for kind, pieces in of.accesses.items()
    )


class _Thread:
    """Values of nodes in one thread: numbers from 0 to 2^64; predicates 0 or 1; None when it is not known.

    A value of a loop that has ended is that of its last iteration.
    """

    def __init__(self, template: Template, launch: Launch, place: Mapping[str, int], work: list[int]) -> None:
        self.template, self.launch, self.place, self.work = template, launch, place, work
        self.known: dict[tuple[int, tuple[tuple[int, int], ...]], int | None] = {}
        self.counts: dict[tuple[int, tuple[tuple[int, int], ...]], int | None] = {}

    def pieces(self, access: Access) -> Iterator[Interval | None]:
        """What an access touches in all iterations; None when it is not known, or whether it is made is not."""
        for at in self.iterations(self.loops(access.block), {}):
            made = None if at is None else self.holds(access.condition, at)
            if made is False:
                continue
            yield from self.rows(access, at) if made and at is not None else [None]

    def rows(self, access: Access, at: _At) -> Iterator[Interval | None]:
        address = self.value(access.address, at)
        pitch = 0 if access.rows == 1 else self.value(access.pitch, at)
        size = access.size if access.length < 0 else self.value(access.length, at)
        if address is None or pitch is None or size is None:
            yield None
            return
        for row in range(access.rows):
            begin = (address + access.displacement + row * pitch) % _ADDRESSES
            if size:
                yield begin, begin + size % (1 << 32)

    def loops(self, block: int) -> list[int]:
        """Those around a block, the outermost first."""
        around = self.template.block_loops[block] if block < len(self.template.block_loops) else frozenset()
        return sorted(around, key=lambda loop: len(self.template.loops[loop].within))

    def iterations(self, loops: list[int], at: _At) -> Iterator[_At | None]:
        """All that there are of these loops inside of each other; None for more of them, as nobody knows how many."""
        if not loops:
            yield at
            return
        entered = self.any_holds(self.template.loops[loops[0]].entries, at)
        number = 0
        while entered:
            inner = {**at, loops[0]: number}
            yield from self.iterations(loops[1:], inner)
            entered, number = self.goes_on(loops[0], inner), number + 1
        if entered is None:
            yield None

    def goes_on(self, loop: int, at: _At) -> bool | None:
        return self.any_holds(self.template.loops[loop].backs, at) if at[loop] < MOST_ITERATIONS else None

    def last(self, loop: int, at: _At) -> int | None:
        """The last iteration of a loop; None when it has none, or that is not known."""
        key = loop, tuple(sorted(at.items()))
        if key not in self.counts:
            self.counts[key] = None
            number = 0
            goes_on = self.any_holds(self.template.loops[loop].entries, at)
            while goes_on:
                goes_on, number = self.goes_on(loop, {**at, loop: number}), number + 1
            self.counts[key] = number - 1 if goes_on is False and number else None
        return self.counts[key]

    def any_holds(self, conditions: tuple[int, ...], at: _At) -> bool | None:
        found = [self.holds(condition, at) for condition in conditions]
        return True if True in found else None if None in found else False

    def holds(self, condition: int, at: _At) -> bool | None:
        """Whether all conditions hold."""
        found: bool | None = True
        while condition:
            entry = self.template.conditions[condition]
            value = self.value(entry.predicate, at) if entry.predicate >= 0 else int(entry.truth)
            if value is None:
                found = None
            elif value != int(entry.truth):
                return False
            condition = entry.parent
        return found

    def value(self, index: int, at: _At) -> int | None:
        """In these iterations of loops around the place where it is used."""
        self.work[0] -= 1
        if self.work[0] < 0:
            raise TooLongError
        node = self.template.nodes[index]
        here: _At = {}
        for loop in self.loops(node.block):
            number = at[loop] if loop in at else self.last(loop, here)
            if number is None:
                return None
            here[loop] = number
        key = index, tuple(here.items())
        if key not in self.known:
            self.known[key] = None  # while it leads to itself
            found = self.made(index, node, here)
            self.known[key] = None if found is None else found % _ADDRESSES
        return self.known[key]

    def made(self, index: int, node: Node, at: _At) -> int | None:
        match node.op:
            case Op.NUMBER:
                return node.number
            case Op.PARAMETER:
                return parameter(node, self.launch)
            case Op.SPECIAL:
                return special(node.name, self.launch, self.place)
            case Op.SYMBOL:
                return self.launch.variables.get(node.name)
            case Op.SELECT:
                chosen = self.value(node.args[0], at)
                return None if chosen is None else self.value(node.args[1 if chosen else 2], at)
            case Op.PHI:
                return self.joined(node, at)
            case Op.LOOP:
                return self.stepped(index, node, at)
            case Op.INDUCTION:
                return at.get(node.number)
            case Op.BOTH | Op.EITHER:
                args = [self.value(arg, at) for arg in node.args]
                decisive = 0 if node.op is Op.BOTH else 1
                return decisive if decisive in args else None if None in args else 1 - decisive
            case Op.LOADED | Op.OPAQUE | Op.HAVOC | Op.UNKNOWN:
                return None
        numbers = [each for arg in node.args if (each := self.value(arg, at)) is not None]
        return computed(node, numbers) if len(numbers) == len(node.args) else None

    def joined(self, node: Node, at: _At) -> int | None:
        """That of the one incoming edge that is taken."""
        edges = [(self.holds(condition, at), arg) for arg, condition in zip(node.args, node.conditions, strict=True)]
        taken = [arg for holds, arg in edges if holds]
        if any(holds is None for holds, _ in edges) or not taken:
            return None
        values = {self.value(arg, at) for arg in taken}
        return values.pop() if len(values) == 1 else None

    def stepped(self, index: int, node: Node, at: _At) -> int | None:
        """What it began with, and a step more after each iteration."""
        number = at.get(node.number)
        if number is None:
            return None
        if number == 0:
            return self.value(node.args[0], {loop: each for loop, each in at.items() if loop != node.number})
        before = {**at, node.number: number - 1}
        value, step = self.value(index, before), self.value(node.args[1], before)
        if value is None or step is None:
            return None
        return (value + step) % (1 << (node.width or 64))
