"""Tensor maps that a kernel makes: it assembles them in shared memory and copies them to global memory, from where TMA
reads them.

Values that asynchronous copies put into shared memory, or that are computed other than by adding to pointers, are taken
to be data and in no map: see ptxtools/README.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ptxtools.access.bases import bases
from ptxtools.access.graph import Graph
from ptxtools.access.stored import Sources, sources
from ptxtools.access.template import IN_MEMORY, Access, Op, Template, TensorAccess

_POINTER_BITS, _WORD_BITS = 64, 32
_LANES = 32


@dataclass(frozen=True, slots=True)
class Cell:
    """`size` bytes of shared memory at a node's value plus `displacement`; `address` -1: anywhere."""

    address: int
    displacement: int
    size: int


@dataclass(frozen=True, slots=True)
class _Extent:
    """The sum of some nodes, each so many times, and a number between two."""

    terms: frozenset[tuple[int, int]]
    low: int
    high: int

    def plus(self, other: _Extent) -> _Extent:
        counts = dict(self.terms)
        for node, count in other.terms:
            counts[node] = counts.get(node, 0) + count
        terms = frozenset((node, count) for node, count in counts.items() if count)
        return _Extent(terms, self.low + other.low, self.high + other.high)

    def times(self, factor: int) -> _Extent:
        terms = frozenset((node, count * factor) for node, count in self.terms)
        return _Extent(terms, self.low * factor, self.high * factor)


class Maps:
    """`stored`: values of 64 bits put into shared memory; `loads`: where in it a line loads from; `written`: the words,
    or values of 64 bits, that accesses write to memory.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.stored: list[tuple[Cell, list[int]]] = []
        self.loads: dict[int, Cell] = {}
        self.written: dict[int, list[int]] = {}

    def complete(self) -> None:
        """Says of the maps in memory which pointers they may have been made of."""
        template = self._graph.template
        at = {access.line: access for access in template.accesses}
        template.tensors = [
            self._completed(template, tensor, at[tensor.line]) if tensor.offset == IN_MEMORY else tensor
            for tensor in template.tensors
        ]

    def _completed(self, template: Template, tensor: TensorAccess, map_read: Access) -> TensorAccess:
        """A map that no access of the kernel itself may write is as it was found: what is loaded there."""
        where = _pointers(template, map_read)
        written = {number: _pointers(template, template.accesses[number]) for number in self.written}
        writers = [number for number, pointers in written.items() if not _are_apart(where, pointers)]
        if not writers:
            return tensor
        found = Sources()
        for number in writers:
            for value in self.written[number]:
                self._add(found, value)
        if found.others:
            return replace(tensor, loads=())
        return replace(tensor, parameters=tuple(sorted(found.parameters)), loads=tuple(sorted(found.loads)))

    def _add(self, found: Sources, value: int) -> None:
        """The sources of a value that is written to where maps lie."""
        node = self._graph.nodes[self._graph.resolve(value)]
        if node.op is Op.LOADED and node.number in self.loads:
            self._add_cell(found, self.loads[node.number])
        elif node.op is not Op.NUMBER:
            of = sources(self._graph, [node.args[0] if node.op is Op.EXTRACT else value])
            found.parameters |= of.parameters
            found.loads |= of.loads
            found.others |= of.others or not self.loads.keys().isdisjoint(of.loads)

    def _add_cell(self, found: Sources, cell: Cell) -> None:
        for stored, values in self.stored:
            if self._may_overlap(stored, cell):
                of = sources(self._graph, values)
                found.parameters |= of.parameters
                found.loads |= of.loads
                found.others |= not self.loads.keys().isdisjoint(of.loads)

    def _may_overlap(self, one: Cell, other: Cell) -> bool:
        if one.address < 0 or other.address < 0:
            return True
        a, b = self._extent(one.address), self._extent(other.address)
        if a.terms != b.terms:
            return True
        first, second = a.low + one.displacement, b.low + other.displacement
        return first < b.high + other.displacement + other.size and second < a.high + one.displacement + one.size

    def _extent(self, at: int) -> _Extent:
        at = self._graph.resolve(at)
        node = self._graph.nodes[at]
        if node.op is Op.NUMBER:
            return _Extent(frozenset(), node.number, node.number)
        if node.op is Op.SPECIAL and node.name == "laneid":
            return _Extent(frozenset(), 0, _LANES - 1)
        if node.op is Op.ADD:
            return self._extent(node.args[0]).plus(self._extent(node.args[1]))
        if node.op in (Op.SELECT, Op.PHI):
            return self._either(at, node.args[1:] if node.op is Op.SELECT else node.args)
        if node.op in (Op.SHL, Op.MUL):
            factor = self._graph.number_of(node.args[1])
            if factor is not None and factor >= 0:
                return self._extent(node.args[0]).times(factor if node.op is Op.MUL else 1 << min(factor, _WORD_BITS))
        return _Extent(frozenset({(at, 1)}), 0, 0)

    def _either(self, at: int, args: Iterable[int]) -> _Extent:
        found = [self._extent(arg) for arg in args if self._graph.resolve(arg) != at]
        if len({each.terms for each in found}) != 1:
            return _Extent(frozenset({(at, 1)}), 0, 0)
        return _Extent(found[0].terms, min(each.low for each in found), max(each.high for each in found))


def _pointers(template: Template, access: Access) -> set[tuple[Op, int, str]]:
    """What an address may begin with."""
    alternatives = bases(template, access.address)
    return {
        (node.op, node.number, node.name)
        for alternative in alternatives
        for node in alternative
        if _is_pointer(node.op, node.width)
    }


def _is_pointer(op: Op, width: int) -> bool:
    return op is Op.SYMBOL or width == _POINTER_BITS


def _are_apart(one: set[tuple[Op, int, str]], other: set[tuple[Op, int, str]]) -> bool:
    """Whether two addresses begin with different pointers, as far as is known."""
    return bool(one) and bool(other) and one.isdisjoint(other)
