"""Dependencies: one pass over a program with a map of memory, which knows each byte's last writer.

The map is a sorted list of disjoint cells. A cell has the versions of its bytes, the newest last: the first one is of
all bytes, those on top are rows. An operation that may write bytes without being known to overwrite them counts as
reading the old ones and as their only writer from then on.

A version of a cell is a *piece*, with a number. A piece that is split becomes two with new numbers, whose parent it is:
so pieces can be followed in the order of the program.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from controlplane.graph.nodes import UNWRITTEN, Program, Read, Span, What, Why
from controlplane.graph.rows import Rows, common, covers, overlap, rows_of

EVERYTHING = Span(0, 1 << 64)
EXPANDED = 4  # strided ranges of so few pieces are as many intervals
MOST_LAYERS = 64  # strided versions on top of each other; of more, the oldest are taken for constants
MOST_READERS = 64  # of bytes that are overwritten in part again and again
OLD = 3000  # operations after which what was written counts as constant
LEAST_SPAN = 1000  # operations over which something that a launch wrote once is read, to count as constant

Edges: TypeAlias = "dict[tuple[int, Why], int]"


@dataclass(slots=True)
class Dependencies:
    """By operation: raw: bytes by (writer, why); war: bytes by reader; waw: bytes by writer; needs: pieces, bytes, why.

    Of a piece: its writer and the piece that it was cut from, itself if from none. constant_writers: of what is
    read over a long part of the program and never written again. A constant is what they wrote, or somebody long ago;
    fresh: the needs of what is none, with its writers.
    """

    program: Program
    raw: list[Edges] = field(default_factory=list)
    war: list[Counter[int]] = field(default_factory=list)
    waw: list[Counter[int]] = field(default_factory=list)
    needs: list[list[tuple[int, int, Why]]] = field(default_factory=list)
    writers: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    constant_writers: frozenset[int] = frozenset()
    fresh: list[list[tuple[int, int, Why, int]]] = field(default_factory=list)

    def is_constant(self, writer: int, reader: int) -> bool:
        return writer == UNWRITTEN or reader - writer > OLD or writer in self.constant_writers


class _Cell:
    """Bytes up to `end`. layers: (rows, writer, piece); readers: (reader, rows) since the last full write."""

    __slots__ = ("end", "layers", "readers")

    def __init__(self, end: int, layers: list[tuple[Rows, int, int]], readers: list[tuple[int, Rows]]) -> None:
        self.end, self.layers, self.readers = end, layers, readers


class _Map:
    def __init__(self, found: Dependencies, calls: Sequence[int]) -> None:
        self.found, self.calls = found, calls
        self.begins = [EVERYTHING.first]
        self.cells = [_Cell(EVERYTHING.end, [(None, UNWRITTEN, self.piece(UNWRITTEN))], [])]
        self.overwritten: set[int] = set()  # writers of whose bytes some are gone
        self.needed: set[int] = set()  # pieces that the present operation is known to need

    def piece(self, writer: int, parent: int = -1) -> int:
        number = len(self.found.writers)
        self.found.writers.append(writer)
        self.found.parents.append(number if parent < 0 else parent)
        return number

    def cut(self, at: int) -> int:
        """A cell begins there afterwards; the result is its place."""
        place = bisect_right(self.begins, at) - 1
        if place + 1 == len(self.begins) and at >= EVERYTHING.end:
            return place + 1
        if self.begins[place] == at:
            return place
        cell = self.cells[place]
        halves = [
            [
                (rows, writer, piece if writer == UNWRITTEN else self.piece(writer, piece))
                for rows, writer, piece in cell.layers
            ]
            for _ in range(2)
        ]
        self.cells[place] = _Cell(at, halves[0], cell.readers)
        self.begins.insert(place + 1, at)
        self.cells.insert(place + 1, _Cell(cell.end, halves[1], cell.readers[:]))
        return place + 1

    def read(self, node: int, span: Span, why: Why) -> None:
        rows = rows_of(span)
        first, end = self.cut(span.first), self.cut(span.end)
        for place in range(first, end):
            cell, begin = self.cells[place], self.begins[place]
            if rows is None and len(cell.layers) == 1:
                _, writer, piece = cell.layers[0]
                if piece not in self.needed:
                    self.need(node, writer, piece, cell.end - begin, why)
            else:
                self.read_layers(node, cell, begin, rows, why)
            if not cell.readers or cell.readers[-1] != (node, rows):
                cell.readers.append((node, rows))

    def read_layers(self, node: int, cell: _Cell, begin: int, rows: Rows, why: Why) -> None:
        """From the newest one down, until no byte is left."""
        for of, writer, piece in reversed(cell.layers):
            if overlap(of, rows) and (size := common(of, rows, begin, cell.end)):
                self.need(node, writer, piece, size, why)
            if covers(of, rows, begin, cell.end):
                return

    def need(self, node: int, writer: int, piece: int, size: int, why: Why) -> None:
        if why is Why.SCRATCH and (writer == UNWRITTEN or self.calls[writer] != self.calls[node]):
            return
        if writer == node:
            return
        if writer != UNWRITTEN:
            edges = self.found.raw[node]
            edges[writer, why] = edges.get((writer, why), 0) + size
        self.found.needs[node].append((piece, size, why))
        self.needed.add(piece)

    def write(self, node: int, span: Span, *, scratch: bool = False) -> None:
        rows = rows_of(span)
        first, end = self.cut(span.first), self.cut(span.end)
        if not scratch:
            for place in range(first, end):
                self.order(node, self.cells[place], self.begins[place], rows)
        for place in range(first, end):
            self.overwritten.update(writer for of, writer, _ in self.cells[place].layers if overlap(of, rows))
        if rows is None:
            cell = _Cell(span.end, [(None, node, self.piece(node))], [])
            self.begins[first:end], self.cells[first:end] = [span.first], [cell]
            return
        for place in range(first, end):
            cell, begin = self.cells[place], self.begins[place]
            layers = [layer for layer in cell.layers[1:] if not covers(rows, layer[0], begin, cell.end)]
            cell.layers = [*_fewer([cell.layers[0], *layers]), (rows, node, self.piece(node))]
            kept = [reader for reader in cell.readers if not covers(rows, reader[1], begin, cell.end)]
            cell.readers = kept[-MOST_READERS:]

    def order(self, node: int, cell: _Cell, begin: int, rows: Rows) -> None:
        """Whom it must not overtake on the GPU that has only one copy of the bytes."""
        for of, writer, _ in cell.layers:
            if writer not in (UNWRITTEN, node) and overlap(of, rows):
                self.found.waw[node][writer] += common(of, rows, begin, cell.end)
        for reader, of in cell.readers:
            if reader != node and overlap(of, rows):
                self.found.war[node][reader] += common(of, rows, begin, cell.end)

    def write_all(self, node: int) -> None:
        """It may have left anything anywhere."""
        self.overwritten.update(writer for cell in self.cells for _, writer, _ in cell.layers)
        self.begins = [EVERYTHING.first]
        self.cells = [_Cell(EVERYTHING.end, [(None, node, self.piece(node))], [])]

    def forget(self, span: Span) -> None:
        first, end = self.cut(span.first), self.cut(span.end)
        for cell in self.cells[first:end]:
            self.overwritten.update(writer for _, writer, _ in cell.layers)
        self.begins[first:end] = [span.first]
        self.cells[first:end] = [_Cell(span.end, [(None, UNWRITTEN, 0)], [])]


def _fewer(layers: list[tuple[Rows, int, int]]) -> list[tuple[Rows, int, int]]:
    return layers if len(layers) < MOST_LAYERS else [layers[0], *layers[len(layers) - MOST_LAYERS // 2 :]]


def dependencies(program: Program) -> Dependencies:
    """What each operation needs of the others. An operation that may touch anything needs all before it, and all after
    it need it.
    """
    found = Dependencies(program)
    nodes = program.nodes
    memory = _Map(found, [node.call for node in nodes])
    fence, unordered = UNWRITTEN, set[int]()
    for number, node in enumerate(nodes):
        found.raw.append({})
        found.war.append(Counter())
        found.waw.append(Counter())
        found.needs.append([])
        if node.what is What.FORGET:
            for write in node.writes:
                memory.forget(write.span)
            continue
        if node.unknown:
            found.raw[number].update({(other, Why.ANYTHING): 0 for other in unordered or {fence} - {UNWRITTEN}})
            memory.write_all(number)
            fence, unordered = number, set()
            continue
        reads = [(span, read.why) for read in sorted(node.reads, key=_sureness) for span in _intervals(read.span)]
        for span, _ in reads:  # so that no piece is cut that it has been seen to need
            memory.cut(span.first)
            memory.cut(span.end)
        memory.needed.clear()
        for span, why in reads:
            memory.read(number, span, why)
        for write in node.writes:
            for span in _intervals(write.span):
                memory.write(number, span, scratch=write.scratch)
        if fence != UNWRITTEN and not found.raw[number]:
            found.raw[number][fence, Why.ANYTHING] = 0
        unordered.add(number)
        unordered.difference_update(writer for writer, _ in found.raw[number])
    found.constant_writers = _constant_writers(found, memory.overwritten)
    writers = found.writers
    found.fresh = [
        [(*need, writers[need[0]]) for need in needs if not found.is_constant(writers[need[0]], number)]
        for number, needs in enumerate(found.needs)
    ]
    return found


def _sureness(read: Read) -> Why:
    return read.why


def _intervals(span: Span) -> list[Span]:
    """The bytes of a span in as few spans as the map can do with."""
    if span.first >= span.end:
        return []
    if rows_of(span) is None:
        return [Span(span.first, span.end)]
    if span.end - span.first > EXPANDED * span.stride:
        return [span]
    starts = range(span.first, span.end, span.stride)
    return [Span(start, min(start + span.width, span.end)) for start in starts]


def _constant_writers(found: Dependencies, overwritten: set[int]) -> frozenset[int]:
    nodes = found.program.nodes
    readers: dict[int, list[int]] = {}
    for number, edges in enumerate(found.raw):
        for writer in {writer for writer, _ in edges}:
            readers.setdefault(writer, []).append(number)
    least = len(nodes) // 4
    constant_writers = set()
    for writer, some in readers.items():
        node = nodes[writer]
        is_given = node.what is What.MEMSET or node.from_host
        span = some[-1] - writer
        is_kept = writer not in overwritten and not node.unknown
        if is_kept and len(some) > 1 and span > least and (is_given or span > LEAST_SPAN):
            constant_writers.add(writer)
    return frozenset(constant_writers)
