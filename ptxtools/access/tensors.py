"""Accesses through tensor maps: which parameter holds the map, or that it lies in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ptxtools.access.activation import Activation, Place, guarded
from ptxtools.access.bases import bases
from ptxtools.access.effects import TensorEffect
from ptxtools.access.graph import Graph
from ptxtools.access.template import IN_MEMORY, Access, AccessKind, Op, TensorAccess
from ptxtools.access.values import WINDOW
from ptxtools.reader.instruction import Instruction
from ptxtools.reader.operand import Address

BLOCK = "param"  # the name of a symbol: where the parameter block begins
_CHOICES = 64
_MAP_BYTES, _POINTER_BITS = 128, 64


def tensor_accesses(
    graph: Graph, of: Activation, instruction: Instruction, effect: TensorEffect, place: Place
) -> tuple[list[TensorAccess], list[Access]]:
    """The accesses that an instruction makes, one for each map that it may be given; and those to maps in memory.

    Errors: ValueError when a map is neither at a place of its own in the parameter block nor in memory.
    """
    operand = instruction.operand(effect.map)
    if not isinstance(operand, Address) or operand.base is None:
        raise ValueError(f"{instruction.opcode}: operand {effect.map + 1} is no tensor map")
    base = of.values.name(operand.base, place.block, place.index)
    condition, line = guarded(graph, of, instruction, place), of.function.line(instruction.offset)
    tensor = TensorAccess(effect.kind, operand.displacement, condition, line)
    return of_map(graph, tensor, base, of.flow.base + place.block)


def of_map(graph: Graph, tensor: TensorAccess, base: int, block: int) -> tuple[list[TensorAccess], list[Access]]:
    """The accesses through the map at a node's value; the tensor's offset is from there. Errors: ValueError."""
    if _is_in_memory(graph, base):
        address = Access(AccessKind.READ, base, tensor.offset, _MAP_BYTES, tensor.condition, tensor.line, block=block)
        return [replace(tensor, offset=IN_MEMORY, loads=(tensor.line,))], [address]
    offsets = sorted(set(_places(graph, base)))
    if not offsets:
        raise ValueError("tensor map at a computed place")
    return [replace(tensor, offset=tensor.offset + offset) for offset in offsets], []


def _is_in_memory(graph: Graph, base: int) -> bool:
    """Whether an address begins with a pointer, and never in private memory: the parameter block is such."""
    alternatives = bases(graph.template, base)
    private = graph.template.private | {BLOCK}
    if any(node.op is Op.SYMBOL and node.name in private for alternative in alternatives for node in alternative):
        return False
    return any(
        node.op is Op.SYMBOL or node.width == _POINTER_BITS for alternative in alternatives for node in alternative
    )


def _places(graph: Graph, index: int) -> Iterator[int]:
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
        elif node.op in (Op.PHI, Op.LOOP):
            pending += [(arg, offset) for arg in node.args]
        elif node.op in (Op.ADD, Op.SUB):
            pending.append(_moved(graph, node.op, node.args, offset))
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
