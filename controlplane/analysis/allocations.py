"""What memory is allocated at a moment of a trace: ranges end with the allocation that a pointer lies in."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort


class Allocations:
    """Intervals that do not overlap. Neighbouring mappings of a program's own address ranges count as one."""

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._ends: dict[int, int] = {}
        self._mapped: set[int] = set()

    def add(self, begin: int, size: int, *, mapped: bool = False) -> None:
        if begin not in self._ends:
            insort(self._begins, begin)
        self._ends[begin] = begin + size
        if mapped:
            self._mapped.add(begin)

    def remove(self, begin: int, size: int = 0) -> None:
        """size: of an unmapping, which may end several; else 0."""
        last = begin + max(size, 1)
        place = bisect_left(self._begins, begin)
        while place < len(self._begins) and self._begins[place] < last:
            gone = self._begins.pop(place)
            del self._ends[gone]
            self._mapped.discard(gone)

    def __call__(self, address: int) -> tuple[int, int] | None:
        """(begin, end) of the allocation that contains the address."""
        place = bisect_right(self._begins, address) - 1
        if place < 0 or self._ends[self._begins[place]] <= address:
            return None
        return self._joined(place)

    def _joined(self, place: int) -> tuple[int, int]:
        first = last = place
        if self._begins[place] in self._mapped:
            while first > 0 and self._follows(first):
                first -= 1
            while last + 1 < len(self._begins) and self._follows(last + 1):
                last += 1
        return self._begins[first], self._ends[self._begins[last]]

    def _follows(self, place: int) -> bool:
        begin, before = self._begins[place], self._begins[place - 1]
        return begin in self._mapped and before in self._mapped and self._ends[before] == begin
