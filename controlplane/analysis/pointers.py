"""Pointers that launches leave in memory for later ones: which allocations may a launch touch that loads them?

A launch that must write its parameters' pointers, plus offsets or not, to some words leaves known words there. They
stay known until something else may have written to them; a launch that loads them may touch the allocations that they
point into. docs/observing.md says what is assumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from controlplane.analysis.allocations import Allocations
from ptxtools.access import flat
from ptxtools.access.bases import bases
from ptxtools.access.template import IN_MEMORY, Access, AccessKind, Op, Template
from ptxtools.ranges import Evaluator, Launch, Range, Result
from ptxtools.ranges.tensor import MAP_BYTES
from ptxtools.ranges.threads import written

WORD = 8
MOST = 1 << 12  # words that one load of a pointer may read
_LEAST_POINTER = 1 << 32  # below are numbers
FOLLOWED = {"pointer loaded from memory", "tensor map in memory"}


@dataclass(frozen=True, slots=True)
class Word:
    """8 bytes of memory. `pointers`: all that it may be; `launch`, `array`: who stored it, through which pointer."""

    pointers: frozenset[int]
    launch: int
    array: int


class Kernel:
    """A template, and what of it concerns pointers in memory. `follows_pointers`: a launch of it was seen to."""

    def __init__(self, data: bytes, needs_parameters: bool) -> None:
        self._data = data
        self.needs_parameters, self.follows_pointers = needs_parameters, False
        self._parts: dict[tuple[Access, ...], Evaluator] = {}

    @cached_property
    def template(self) -> Template:
        return flat.read(self._data)

    @cached_property
    def every(self) -> Evaluator:
        """Evaluates it with all reasons why something is unknown."""
        return Evaluator(self._data)

    @cached_property
    def quick(self) -> Evaluator:
        """Evaluates it with one reason, and remembers."""
        return Evaluator(self._data, memo=True)

    @cached_property
    def stores(self) -> list[tuple[Access, int]]:
        """Writes that tell what they store, with where in the parameter block the pointer lies that they go through."""
        found = []
        for access in self.template.accesses:
            alternatives = bases(self.template, access.address) if access.pointers is not None else set()
            offsets = {
                node.number
                for alternative in alternatives
                for node in alternative
                if node.op is Op.PARAMETER and node.width == 64
            }
            if len(offsets) == 1:
                found.append((access, offsets.pop()))
        return found

    @cached_property
    def pointers(self) -> list[int]:
        """Where in the parameter block pointers lie that it stores."""
        return sorted({offset for access, _ in self.stores for offset in access.pointers or ()})

    def ranges(self, accesses: Iterable[Access], launch: Launch) -> Result:
        """The ranges of these accesses alone."""
        key = tuple(accesses)
        if key not in self._parts:
            self._parts[key] = Evaluator(replace(self.template, accesses=list(key), tensors=[], unknown=[]))
        return self._parts[key].evaluate(launch)


class Pointers:
    """The words of a process' memory that are known at a moment of a trace."""

    def __init__(self) -> None:
        self._words: dict[int, Word] = {}
        self._launches = 0

    @property
    def is_empty(self) -> bool:
        return not self._words

    def forget(self, begin: int = 0, end: int = 1 << 64) -> None:
        """Something may have been written there."""
        for address in [address for address in self._words if begin - WORD < address < end]:
            del self._words[address]

    def after(self, kernel: Kernel | None, launch: Launch, result: Result) -> None:
        """A launch with these ranges has run."""
        self._launches += 1
        if result.unknown:
            self.forget()
            return
        for each in result.ranges:
            if each.kind is not AccessKind.READ:
                self.forget(*((each.begin, each.end) if each.first <= each.last else ()))
        if kernel is not None and any(_is_pointer(_pointer(launch, offset)) for offset in kernel.pointers):
            self._words.update(self._stored(kernel, launch))

    def _stored(self, kernel: Kernel, launch: Launch) -> dict[int, Word]:
        """Words that hold pointers for sure when the launch is over, whichever of its stores to them came last."""
        if any(tensor.kind is not AccessKind.READ for tensor in kernel.template.tensors):
            return {}
        telling = {access for access, _ in kernel.stores}
        others = [each for each in kernel.template.accesses if each.kind is not AccessKind.READ and each not in telling]
        spoilt = kernel.ranges(others, launch)
        if spoilt.unknown:
            return {}
        found: dict[int, Word] = {}
        for access, offset in kernel.stores:
            for address in written(kernel.template, access, launch):
                for word in range(address, address + access.size, WORD):
                    if word % WORD == 0 and not _reach(spoilt.ranges, word):
                        found[word] = Word(frozenset(), self._launches, _pointer(launch, offset))
        for access, _ in kernel.stores if found else ():
            may = kernel.ranges([access], launch)
            if may.unknown:
                return {}
            stored = {_pointer(launch, offset) for offset in access.pointers or ()}
            pointers = frozenset(filter(_is_pointer, stored))
            for word in [word for word in found if _reach(may.ranges, word)]:
                found[word] = replace(found[word], pointers=found[word].pointers | pointers)
        return found

    def followed(self, kernel: Kernel, launch: Launch, allocations: Allocations) -> Result:
        """The ranges of a launch, with those that it reaches through pointers in memory, as far as these are known."""
        kernel.follows_pointers = True
        result = kernel.every.evaluate(launch)
        own = [each for each in result.ranges if each.kind is not AccessKind.READ]
        found, unknown = list(result.ranges), []
        for line, reason in result.unknown:
            ranges = self._reached(kernel, launch, allocations, line, own) if reason in FOLLOWED else None
            if ranges is None:
                unknown.append((line, reason))
            else:
                found += ranges
        return Result(list(dict.fromkeys(found)), unknown)

    def _reached(
        self, kernel: Kernel, launch: Launch, allocations: Allocations, line: int, own: list[Range]
    ) -> list[Range] | None:
        """The allocations that a line may touch through pointers; None when they are not known."""
        found: list[Range] = []
        for each in _through(kernel.template, line):
            pointers = self._pointers(kernel, launch, each, own)
            if pointers is None:
                return None
            for pointer in sorted(pointers):
                bounds = allocations(pointer)
                if bounds is None:
                    return None
                first, last = bounds[0] - pointer, bounds[1] - pointer - 1
                found.append(Range(each.kind, None, None, pointer, first, last, whole=True))
        return found

    def _pointers(self, kernel: Kernel, launch: Launch, through: Through, own: list[Range]) -> set[int] | None:
        """What a line's accesses begin with. A parameter that points nowhere is not followed."""
        if not through.parameters and not through.loads:
            return None
        found = {_pointer(launch, offset) for offset in through.parameters}
        found = {pointer for pointer in found if launch.allocation(pointer) is not None}
        for line in through.loads:
            loads = [each for each in kernel.template.accesses if each.line == line and each.kind is AccessKind.READ]
            read = kernel.ranges(loads, launch)
            if read.unknown or not read.ranges:
                return None
            for each in read.ranges:
                words = self._read(each, launch)
                if words is None or any(_reach(own, word) for word in words):
                    return None
                if through.is_map and line == through.line:
                    words = [word for word in words if (word - each.begin) % MAP_BYTES == 0]
                found |= {pointer for word in words for pointer in self._words[word].pointers}
        return found

    def _read(self, of: Range, launch: Launch) -> list[int] | None:
        """The words that a load of pointers may read, all of them known; of an index that is not known, an array's."""
        if of.whole:
            return self._array(of.base, launch) if of.base in self._words else None
        length = of.end - of.begin
        stride, width = (of.stride, of.width) if of.stride else (length, length)
        if length > MOST * WORD or any(size % WORD for size in (of.begin, stride, width)):
            return None
        steps = range(of.begin, of.end, stride)
        words = [word for begin in steps for word in range(begin, begin + width, WORD)]
        return words if all(word in self._words for word in words) else None

    def _array(self, place: int, launch: Launch) -> list[int]:
        """The known words around a place. Where one launch stored through another pointer, and the launch that loads
        has a pointer to there, another array begins.
        """
        ends = {_pointer(launch, offset) for offset in range(0, len(launch.parameters), WORD)}
        first = last = place
        while not self._begins(first, ends):
            first -= WORD
        while not self._begins(last + WORD, ends):
            last += WORD
        return list(range(first, last + WORD, WORD))

    def _begins(self, place: int, ends: set[int]) -> bool:
        """Whether the word is not of the same array as the one in front of it."""
        here, before = self._words.get(place), self._words.get(place - WORD)
        if here is None or before is None:
            return True
        return place in ends and here.launch == before.launch and here.array != before.array


@dataclass(frozen=True, slots=True)
class Through:
    """An access of a line through pointers that parameters hold, or that loads in other lines give. `is_map`: through
    a tensor map.
    """

    line: int
    kind: AccessKind
    parameters: tuple[int, ...]
    loads: tuple[int, ...]
    is_map: bool = False


def _through(template: Template, line: int) -> Iterator[Through]:
    """What a line does through pointers in memory."""
    for tensor in template.tensors:
        if tensor.line == line and tensor.offset == IN_MEMORY:
            yield Through(line, tensor.kind, tensor.parameters, tensor.loads, is_map=True)
    for access in template.accesses:
        loads = _loaded(template, access) if access.line == line else ()
        if loads:
            yield Through(line, access.kind, (), loads)


def _loaded(template: Template, access: Access) -> tuple[int, ...]:
    """Lines that load the pointers that an address may begin with."""
    alternatives = bases(template, access.address)
    return tuple(
        sorted(
            {
                node.number
                for alternative in alternatives
                for node in alternative
                if node.op is Op.LOADED and node.width == 64
            }
        )
    )


def _is_pointer(value: int) -> bool:
    return value >= _LEAST_POINTER


def _pointer(launch: Launch, offset: int) -> int:
    return int.from_bytes(launch.parameters[offset : offset + WORD], "little")


def _reach(ranges: list[Range], word: int) -> bool:
    return any(each.begin < word + WORD and word < each.end for each in ranges)
