"""The ranges of an iteration as bytes of allocations, and what these bytes are to the iterations."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence

from controlplane.graph.nodes import Node, Span, What, Why
from controlplane.profile.model import Access, Allocation, Extent, Kind, Role

KINDS = {Why.READ: Kind.READ, Why.WHOLE: Kind.WHOLE, Why.OLD: Kind.OLD, Why.SCRATCH: Kind.SCRATCH_READ}


class Bytes:
    """Sets of bytes, as intervals."""

    def __init__(self, spans: Iterable[tuple[int, int]] = ()) -> None:
        self.begins: list[int] = []
        self.ends: list[int] = []
        for first, end in spans:
            self.add(first, end)

    def add(self, first: int, end: int) -> None:
        if first >= end:
            return
        low = bisect_left(self.ends, first)
        high = bisect_right(self.begins, end)
        if low < high:
            first, end = min(first, self.begins[low]), max(end, self.ends[high - 1])
        self.begins[low:high], self.ends[low:high] = [first], [end]

    def less(self, first: int, end: int) -> list[tuple[int, int]]:
        """Of an interval, what is not in the set."""
        found = []
        place = bisect_right(self.ends, first)
        while first < end:
            begin = self.begins[place] if place < len(self.begins) else end
            if first < min(begin, end):
                found.append((first, min(begin, end)))
            if place >= len(self.begins):
                break
            first, place = max(first, self.ends[place]), place + 1
        return found

    def within(self, begin: int, end: int) -> list[tuple[int, int]]:
        low, high = bisect_right(self.ends, begin), bisect_left(self.begins, end)
        some = zip(self.begins[low:high], self.ends[low:high], strict=True)
        return [(max(first, begin), min(last, end)) for first, last in some]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self.begins, self.ends, strict=True)


class Places:
    """Which allocation an address is in, when some operations run; numbered as they are asked for. Memory that those
    operations use and that is in no allocation counts as one, as far as it is used.
    """

    def __init__(self, before: Iterable[Node], using: Iterable[Node]) -> None:
        self.begins: list[int] = []
        self.ends: list[int] = []
        self.numbers: dict[tuple[int, int], int] = {}
        for node in before:
            if node.what is What.FORGET:
                for write in node.writes:
                    self.allocated(write.span.first, write.span.end)
        known = Bytes(zip(self.begins, self.ends, strict=True))
        for node in using:
            for span in [*(read.span for read in node.reads), *(write.span for write in node.writes)]:
                if known.less(span.first, span.end):
                    self.joined(span.first, span.end)

    def allocated(self, first: int, end: int) -> None:
        """What was there before is gone."""
        low, high = bisect_right(self.ends, first), bisect_left(self.begins, end)
        self.begins[low:high], self.ends[low:high] = [first], [end]

    def joined(self, first: int, end: int) -> None:
        """With all that it meets, it is one."""
        low, high = bisect_right(self.ends, first), bisect_left(self.begins, end)
        if low < high:
            first, end = min(first, self.begins[low]), max(end, self.ends[high - 1])
        self.begins[low:high], self.ends[low:high] = [first], [end]

    def __call__(self, span: Span) -> tuple[int, int]:
        """(allocation's number, its address)."""
        place = bisect_right(self.begins, span.first) - 1
        of = (self.begins[place], self.ends[place])
        return self.numbers.setdefault(of, len(self.numbers)), of[0]


def accesses(node: Node, places: Places) -> tuple[Access, ...]:
    found: dict[Access, None] = {}
    for read in node.reads:
        if read.why in KINDS:
            found[_access(KINDS[read.why], read.span, places)] = None
    for write in node.writes:
        found[_access(Kind.SCRATCH if write.scratch else Kind.WRITE, write.span, places)] = None
    return tuple(found)


def _access(kind: Kind, span: Span, places: Places) -> Access:
    number, begin = places(span)
    return Access(kind, number, span.first - begin, span.end - span.first, span.stride, span.width)


def allocations(
    places: Places, iteration: Sequence[Node], recurring: Iterable[Node], takers: frozenset[int]
) -> tuple[Allocation, ...]:
    """In the order of their numbers. recurring: all operations of all iterations; takers: places in the iteration of
    operations that need something of an earlier iteration.
    """
    changed = Bytes(write.span[:2] for node in recurring if node.what is not What.FORGET for write in node.writes)
    constant, carried, written = Bytes(), Bytes(), Bytes()
    for place, node in enumerate(iteration):
        for read in node.reads:
            if read.why is Why.READ:
                _add(constant, changed.less(*read.span[:2]))
            if place in takers and read.why is not Why.SCRATCH:
                _add(carried, written.less(*read.span[:2]))
        for write in node.writes:
            written.add(*write.span[:2])
    used = Bytes(written)
    for node in iteration:
        for read in node.reads:
            used.add(*read.span[:2])
    found: list[Allocation] = []
    for begin, end in places.numbers:
        extents: list[tuple[int, int, Role]] = []
        for role, some in ((Role.CONSTANT, constant), (Role.CARRIED, carried), (Role.OWN, used)):
            taken = Bytes((first, last) for first, last, _ in extents)
            extents += [(*free, role) for part in some.within(begin, end) for free in taken.less(*part)]
        extents.sort(key=lambda extent: extent[:2])
        found.append(
            Allocation(end - begin, tuple(Extent(first - begin, last - first, role) for first, last, role in extents))
        )
    return tuple(found)


def _add(to: Bytes, some: Iterable[tuple[int, int]]) -> None:
    for first, end in some:
        to.add(first, end)
