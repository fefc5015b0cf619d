"""Nodes of instructions that work lane by lane, from the transfer column of the table of instructions
(`ptxtools.isa`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import cache

from ptxtools.access.graph import Graph
from ptxtools.access.template import Node, Op
from ptxtools.isa.row import Form, Kind, Part, Row, Transfer
from ptxtools.isa.semantics import spelled
from ptxtools.isa.types import Type
from ptxtools.reader.instruction import Instruction

Source = Callable[[int], int]  # operand number to node

_TWO = {
    Kind.ADD: Op.ADD,
    Kind.SUB: Op.SUB,
    Kind.SHL: Op.SHL,
    Kind.SHR: Op.SHR,
    Kind.AND: Op.AND,
    Kind.OR: Op.OR,
    Kind.XOR: Op.XOR,
    Kind.MIN: Op.MIN,
    Kind.MAX: Op.MAX,
    Kind.DIV: Op.DIV,
    Kind.REM: Op.REM,
}
_ONE = {Kind.NOT: Op.NOT, Kind.NEG: Op.NEG, Kind.ABS: Op.ABS, Kind.CONVERT: Op.CONVERT}
_PREDICATES = {Kind.AND: Op.BOTH, Kind.OR: Op.EITHER}
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_RESULTS: dict[str, Callable[[int, int], bool]] = {
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
}
_PRODUCT = {Part.LOW: Op.MUL, Part.HIGH: Op.MUL_HIGH, Part.WIDE: Op.MUL_WIDE}


def lane_node(
    graph: Graph, instruction: Instruction, position: int, bits: int, source: Source, block: int, condition: int
) -> int | None:
    """The node of destination number `position`, a register of so many bits; None when nothing is known of its value.

    `source` gives the node of an operand; operand 0 is the destination. Errors: ValueError for malformed operands.
    """
    row = _understood(instruction.opcode)
    if row is None:
        return None
    if position == 0 and _is_cut(row, bits):
        return source(1)
    maker = _Maker(graph, row, block, condition)
    if row.form is not Form.MAP or row.dst is Type.PRED:
        return maker.predicate(source, position)
    return maker.value(source) if position == 0 else None


@cache
def _understood(opcode: str) -> Row | None:
    """The row of an opcode whose result is known from integers."""
    row = spelled(opcode)
    if row is None or row.transfer.kind is Kind.OPAQUE:
        return None
    if any(kind.floating for kind in row.sources) and row.transfer.kind is not Kind.COPY:
        return None
    return row


def _is_cut(row: Row, bits: int) -> bool:
    """Whether a conversion into a register of so many bits only leaves out those above: none that reads the register
    looks at them.
    """
    transfer = row.transfer
    return transfer.kind is Kind.CONVERT and not transfer.saturate and row.dst.bits == transfer.width == bits


class _Maker:
    def __init__(self, graph: Graph, row: Row, block: int, condition: int) -> None:
        self.graph, self.row, self.transfer = graph, row, row.transfer
        self.block, self.condition = block, condition

    def node(self, op: Op, args: tuple[int, ...], width: int, name: str = "") -> int:
        signed = self.transfer.signed
        node = Node(op, args, width, signed, name=name, block=self.block, condition=self.condition)
        return self.graph.add(node)

    def value(self, source: Source) -> int | None:
        transfer, width = self.transfer, self.transfer.width
        kind = transfer.kind
        if kind is Kind.COPY:
            return source(1)
        if kind is Kind.SELECT:
            return self.node(Op.SELECT, (source(3), source(1), source(2)), width)
        if kind in (Kind.MUL, Kind.MAD):
            return self.product(source, transfer)
        if transfer.saturate:
            return None
        if kind in _TWO:
            return self.node(_TWO[kind], (source(1), source(2)), width)
        if kind in _ONE:
            return self.node(_ONE[kind], (source(1),), width)
        if kind is Kind.EXTRACT:
            return self.node(Op.EXTRACT, (source(1), source(2), source(3)), width)
        if kind is Kind.INSERT:
            return self.insert(source, width)
        return None

    def insert(self, source: Source, width: int) -> int | None:
        """Bits of one value within another, as a sum: at a place that is a number, they do not overlap."""
        first, count = self.graph.number_of(source(3)), self.graph.number_of(source(4))
        if first is None or count is None:
            return None
        first, count = first & 255, min(count & 255, width - min(first & 255, width))
        if count == 0:
            return source(2)
        inserted, ones = source(1), (1 << count) - 1
        if first + count < width:
            inserted = self.node(Op.AND, (inserted, self.graph.number(ones)), width)
        inserted = self.node(Op.SHL, (inserted, self.graph.number(first)), width)
        kept = ((1 << width) - 1) & ~(ones << first)
        return self.node(Op.ADD, (inserted, self.node(Op.AND, (source(2), self.graph.number(kept)), width)), width)

    def product(self, source: Source, transfer: Transfer) -> int | None:
        if transfer.saturate:
            return None
        width = transfer.width
        product = self.node(_PRODUCT[transfer.part], (source(1), source(2)), width)
        if transfer.kind is Kind.MUL:
            return product
        return self.node(Op.ADD, (product, source(3)), width * 2 if transfer.part is Part.WIDE else width)

    def predicate(self, source: Source, position: int) -> int | None:
        kind = self.transfer.kind
        if kind is Kind.COPY:
            return source(1)
        if kind is Kind.NOT:
            return self.node(Op.OPPOSITE, (source(1),), 1)
        if kind in _PREDICATES and self.row.form is Form.MASKS:
            return self.node(_PREDICATES[kind], (source(1), source(2)), 1)
        if kind is not Kind.COMPARE or self.row.form is not Form.TEST or position > 1:
            return None
        name, _, combine = self.transfer.detail.partition(".")
        test = self.compared(_UNSIGNED.get(name, name), source(1), source(2))
        if position == 1:
            test = self.node(Op.OPPOSITE, (test,), 1)
        if not combine:
            return test
        if combine == "xor":
            return None
        return self.node(Op.BOTH if combine == "and" else Op.EITHER, (test, source(3)), 1)

    def compared(self, name: str, a: int, b: int) -> int:
        """A number that a predicate chooses of two, compared with a number, is that predicate or its opposite: inline
        assembly takes predicates as numbers.
        """
        choice, number = self.graph.nodes[a], self.graph.number_of(b)
        if choice.op is Op.SELECT and number is not None and name in _RESULTS:
            sides = [self.graph.number_of(side) for side in choice.args[1:]]
            truths = [None if side is None else self.holds(name, side, number) for side in sides]
            if truths == [True, False]:
                return choice.args[0]
            if truths == [False, True]:
                return self.node(Op.OPPOSITE, (choice.args[0],), 1)
        return self.node(Op.COMPARE, (a, b), self.transfer.width, name)

    def holds(self, name: str, a: int, b: int) -> bool:
        return _RESULTS[name](self.seen(a), self.seen(b))

    def seen(self, number: int) -> int:
        """A number as the comparison reads it."""
        sign = 1 << self.transfer.width - 1 if self.transfer.signed else 0
        return ((number + sign) & (1 << self.transfer.width) - 1) - sign
