"""A profile's iteration as a program for controlplane/graph: operations with ranges at addresses, several times over.

Constants are at the same addresses in all iterations. All other bytes are each iteration's own: GPUs have copies, so
another iteration in the same place waits for nothing. What an iteration needs of an earlier one is said by
`Iteration.carried` alone: such bytes get addresses of their own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

from controlplane.graph.nodes import Node, Program, Read, Span, What, Why, Write
from controlplane.profile.model import READS, Access, Kind, Profile, Role

PAGE = 2 << 20
WHYS = {Kind.READ: Why.READ, Kind.WHOLE: Why.WHOLE, Kind.OLD: Why.OLD, Kind.SCRATCH_READ: Why.SCRATCH}
Times = Callable[[int], float]  # how long an operation of the iteration takes


def unrolled(profile: Profile, iterations: int = 1, times: Times | None = None) -> Program:
    """Iteration i's operations are nodes i * n to (i + 1) * n - 1. times: by default those of home's type of GPU, 0
    where they are not known.
    """
    layout = _Layout(profile)
    times = times or (lambda number: profile.ns(number) or 0.0)
    operations = profile.iteration.operations
    takes = [times(number) for number in range(len(operations))]
    nodes: list[Node] = []
    for turn in range(iterations):
        for number, operation in enumerate(operations):
            of = profile.classes[operation.of]
            reads, writes = layout.touched(number, turn)
            nodes.append(
                Node(
                    of.what,
                    of.name if of.what is What.LAUNCH else f"{of.name} {of.bytes}",
                    takes[number],
                    reads,
                    writes,
                    operation.unknown,
                    stream=f"stream {operation.stream + 1}",
                    thread=operation.thread,
                    after=_placed(operation.after, turn, len(operations)),
                    waits=_placed(operation.waits, turn, len(operations)),
                    returned=_placed(operation.returned, turn, len(operations)),
                    call=operation.call and operation.call + turn * (len(operations) + 1),
                    from_host=of.from_host,
                )
            )
    return Program(nodes)


def _placed(numbers: Sequence[int], turn: int, size: int) -> tuple[int, ...]:
    return tuple(turn * size + number for number in numbers if turn * size + number >= 0)


class _Layout:
    """Where bytes lie: constants once, then each iteration's own, then what is carried from it to later ones."""

    def __init__(self, profile: Profile) -> None:
        self.operations = profile.iteration.operations
        self.begins: list[int] = []
        address = PAGE
        for allocation in profile.allocations:
            self.begins.append(address)
            address += -(-allocation.size // PAGE) * PAGE + PAGE
        self.constants = [
            sorted((each.offset, each.offset + each.size) for each in allocation.extents if each.role is Role.CONSTANT)
            for allocation in profile.allocations
        ]
        self.carried = profile.iteration.carried
        self.parcels: list[int] = []
        self.first_parcel = address
        for carried in self.carried:
            self.parcels.append(address)
            address += -(-carried.bytes // PAGE) * PAGE + PAGE
        self.stride = address
        self.given: list[list[int]] = [[] for _ in self.operations]
        self.taken: list[list[int]] = [[] for _ in self.operations]
        for number, carried in enumerate(self.carried):
            self.given[carried.writer].append(number)
            self.taken[carried.reader].append(number)

    def touched(self, number: int, turn: int) -> tuple[tuple[Read, ...], tuple[Write, ...]]:
        reads: list[Read] = []
        writes: list[Write] = []
        for access in self.operations[number].accesses:
            for span in self.spans(access, turn):
                if access.kind in READS:
                    reads.append(Read(span, WHYS[access.kind]))
                else:
                    writes.append(Write(span, access.kind is Kind.SCRATCH))
        writes.extend(Write(self.parcel(each, turn)) for each in self.given[number])
        for each in self.taken[number]:
            before = turn - self.carried[each].back
            if before >= 0:
                reads.append(Read(self.parcel(each, before)))
        return tuple(reads), tuple(writes)

    def parcel(self, number: int, turn: int) -> Span:
        first = self.parcels[number] + turn * self.stride
        return Span(first, first + self.carried[number].bytes)

    def spans(self, access: Access, turn: int) -> list[Span]:
        """Cut where constants begin and end."""
        base, own = self.begins[access.allocation], self.begins[access.allocation] + turn * self.stride
        end, place, found = access.offset + access.size, access.offset, list[Span]()
        some = self.constants[access.allocation]
        for first, last in some[max(bisect_right(some, (place, 1 << 64)) - 1, 0) :]:
            if first >= end:
                break
            if place < min(first, end):
                found.append(_part(access, place, first, own))
            if max(place, first) < min(last, end):
                found.append(_part(access, max(place, first), min(last, end), base))
            place = max(place, last)
        if place < end:
            found.append(_part(access, place, end, own))
        return found


def _part(access: Access, first: int, end: int, base: int) -> Span:
    """Of a strided range, from a whole stride on."""
    if not access.stride:
        return Span(base + first, base + end)
    first -= (first - access.offset) % access.stride
    return Span(base + first, base + end, access.stride, access.width)
