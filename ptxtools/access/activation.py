"""One activation of a function: the kernel itself, or one inlined call; and what its instructions access."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ptxtools.access.effects import Effect, elements, width
from ptxtools.access.flow import Flow
from ptxtools.access.graph import Graph
from ptxtools.access.lookback import looks_back
from ptxtools.access.template import Access, Node, Op
from ptxtools.access.values import Arguments, Values
from ptxtools.reader.function import Function
from ptxtools.reader.instruction import Instruction
from ptxtools.reader.operand import Address, Group, Operand, Register


@dataclass(frozen=True, slots=True)
class Activation:
    """`callers`: names of the functions on the way here, this one last."""

    function: Function
    flow: Flow
    values: Values
    callers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """An instruction: its block, a number of the function's own, and its index in the body."""

    block: int
    index: int


def guarded(graph: Graph, of: Activation, instruction: Instruction, place: Place) -> int:
    """The condition of an instruction: its block's, and its own guard."""
    condition = of.flow.conditions[place.block]
    if not instruction.guard:
        return condition
    guard = of.values.register(instruction.guard, place.block, place.index)
    return graph.condition(condition, guard, not instruction.guard_negated)


def make_access(graph: Graph, of: Activation, instruction: Instruction, effect: Effect, place: Place) -> Access:
    """The access that an instruction's effect is. Errors: ValueError for operands that cannot be read."""
    operand = instruction.operand(effect.address)
    if not isinstance(operand, Address):
        raise ValueError(f"{instruction.opcode}: operand {effect.address + 1} is no address")
    base = graph.number(0)
    if operand.base is not None:
        base = of.values.name(operand.base, place.block, place.index)
    condition = guarded(graph, of, instruction, place)
    length, condition = _length(graph, of, instruction, effect, place, condition)
    return Access(
        effect.kind,
        base,
        operand.displacement,
        effect.size,
        condition,
        of.function.line(instruction.offset),
        effect.generic,
        effect.rows,
        _pitch(graph, of, instruction, effect, place),
        length,
        of.flow.base + place.block,
        looks_back=looks_back(graph.template.name, effect.kind, instruction.parts),
    )


def _pitch(graph: Graph, of: Activation, instruction: Instruction, effect: Effect, place: Place) -> int:
    """The stride operand of wmma in bytes; without one, rows follow each other."""
    if effect.pitch < 0:
        return -1
    last = len(instruction.operand_texts) - 1
    if last < 2 or instruction.operand_texts[last][:1] in ("{", "["):
        return graph.number(effect.size)
    stride = of.values.operand(instruction.operand(last), place.block, place.index)
    args = (stride, graph.number(effect.pitch_bytes))
    block, condition = of.flow.base + place.block, of.flow.conditions[place.block]
    return graph.add(Node(Op.MUL_WIDE, args, 32, block=block, condition=condition))


def _length(
    graph: Graph, of: Activation, instruction: Instruction, effect: Effect, place: Place, condition: int
) -> tuple[int, int]:
    """The node of a size, and the condition in which it is not 0."""
    if effect.length < 0:
        return -1, condition
    length = of.values.operand(instruction.operand(effect.length), place.block, place.index)
    partial = _partial(of, instruction, effect, place)
    if partial is None:
        return length, condition
    while (node := graph.nodes[graph.resolve(partial)]).op is Op.SELECT:
        predicate, *choices = node.args
        empty = [graph.number_of(choice) == 0 for choice in choices]
        if empty[0] == empty[1]:
            break
        partial, condition = choices[empty[0]], graph.condition(condition, predicate, not empty[0])
    block = of.flow.base + place.block
    return graph.add(Node(Op.MIN, (partial, length), 32, block=block, condition=condition)), condition


def _partial(of: Activation, instruction: Instruction, effect: Effect, place: Place) -> int | None:
    """cp.async reads fewer than cp-size bytes when a src-size is given; a predicate or a policy is none."""
    if effect.partial < 0 or instruction.operand_count <= effect.partial:
        return None
    operand = instruction.operand(effect.partial)
    if isinstance(operand, Register) and of.function.body.register_type(operand.name) not in ("b32", "u32", "s32"):
        return None
    return of.values.operand(operand, place.block, place.index)


def stored_values(of: Activation, instruction: Instruction, place: Place) -> list[int]:
    """The values that a store writes, when they have 64 bits; else one of which nothing is known."""
    source = instruction.operand(1)
    if width(instruction.parts) != 64:
        return [of.values.opaque(64, place.block)]
    parts = source.parts if isinstance(source, Group) else (source,)
    return [of.values.operand(part, place.block, place.index) for part in parts]


def called(instruction: Instruction) -> tuple[str, Sequence[Operand]]:
    """The name in a call, and what is passed. Errors: ValueError."""
    operands = list(instruction.operand_texts)
    if operands and operands[0][:1] == "(":
        del operands[0]
    if not operands:
        raise ValueError("call of nothing")
    passed = instruction.operand(instruction.operand_texts.index(operands[1])) if len(operands) > 1 else None
    return operands[0], passed.parts if isinstance(passed, Group) else ()


def stored(of: Activation, place: Place, function: Function, passed: Sequence[Operand]) -> Arguments:
    """What the caller's block stored into the call's parameters before it."""
    arguments: dict[str, dict[int, tuple[int, int]]] = {}
    names = {
        operand.name: parameter.name
        for operand, parameter in zip(passed, function.parameters, strict=False)
        if isinstance(operand, Register)
    }
    code = of.function.body.instructions
    for index in range(of.flow.blocks[place.block].begin, place.index):
        instruction = code[index]
        if not instruction.opcode.startswith("st.param"):
            continue
        target = instruction.operand(0)
        if not isinstance(target, Address) or target.base not in names:
            continue
        values = arguments.setdefault(names[target.base], {})
        bits, count = width(instruction.parts), elements(instruction.parts)
        source = instruction.operand(1)
        parts = source.parts if isinstance(source, Group) and count > 1 else (source,)
        for number, part in enumerate(parts):
            offset = target.displacement + number * bits // 8
            node = of.values.operand(part, place.block, index)
            if instruction.guard:
                node = of.values.opaque(bits, place.block)
            values[offset] = (node, bits)
    return arguments
