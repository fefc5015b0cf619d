"""Accesses through tensor maps: which parameter holds the map."""

from __future__ import annotations

from collections.abc import Iterator

from ptxtools.access.activation import Activation, Place, guarded
from ptxtools.access.effects import TensorEffect
from ptxtools.access.graph import Graph
from ptxtools.access.template import Op, TensorAccess
from ptxtools.access.values import WINDOW
from ptxtools.reader.instruction import Instruction
from ptxtools.reader.operand import Address

BLOCK = "param"  # the name of a symbol: where the parameter block begins
_CHOICES = 64


def tensor_accesses(
    graph: Graph, of: Activation, instruction: Instruction, effect: TensorEffect, place: Place
) -> list[TensorAccess]:
    """The accesses that an instruction makes, one for each map that it may be given.

    Errors: ValueError when a map is not at a place of its own in the parameter block.
    """
    operand = instruction.operand(effect.map)
    if not isinstance(operand, Address) or operand.base is None:
        raise ValueError(f"{instruction.opcode}: operand {effect.map + 1} is no tensor map")
    base = of.values.name(operand.base, place.block, place.index)
    context, line = guarded(graph, of, instruction, place), of.function.line(instruction.offset)
    offsets = sorted({offset + operand.displacement for offset in places(graph, base)})
    if not offsets:
        raise ValueError("tensor map at a computed place")
    return [TensorAccess(effect.kind, offset, context, line) for offset in offsets]


def places(graph: Graph, index: int) -> Iterator[int]:
    """Offsets in the parameter block that a node's value is the address of. Errors: ValueError."""
    pending, visited = [(index, 0)], set[tuple[int, int]]()
    while pending:
        at, offset = pending.pop()
        at = graph.resolve(at)
        if (at, offset) in visited:
            continue
        visited.add((at, offset))
        node = graph.nodes[at]
        if len(visited) > _CHOICES:
            raise ValueError("tensor map at a computed place")
        if node.op is Op.SYMBOL and node.name == BLOCK:
            yield offset
        elif node.op is Op.SELECT:
            pending += [(arg, offset) for arg in node.args[1:]]
        elif node.op in (Op.JOIN, Op.LOOP):
            pending += [(arg, offset) for arg in node.args]
        elif node.op in (Op.ADD, Op.SUB):
            pending.append(_moved(graph, node.op, node.args, offset))
        elif node.op in (Op.PARAMETER, Op.LOADED):
            raise ValueError("tensor map in memory")
        else:
            raise ValueError("tensor map at a computed place")


def _moved(graph: Graph, op: Op, args: tuple[int, ...], offset: int) -> tuple[int, int]:
    """The summand that is no number, and the offset from it. The window of generic addresses adds nothing here."""
    sign = 1 if op is Op.ADD else -1
    first, second = (graph.resolve(arg) for arg in args)
    for one, other, factor in ((first, second, sign), (second, first, 1)):
        number = graph.number_of(other)
        node = graph.nodes[other]
        if number is not None and (op is Op.ADD or other == second):
            return one, offset + factor * number
        if node.op is Op.SYMBOL and node.name == WINDOW:
            return one, offset
    raise ValueError("tensor map at a computed place")
