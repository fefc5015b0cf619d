"""Builds a kernel's template."""

from __future__ import annotations

from dataclasses import replace

from ptxtools.access.effects import Effect, effects
from ptxtools.access.flow import Flow
from ptxtools.access.graph import Graph
from ptxtools.access.steps import find_steps
from ptxtools.access.template import Access, Node, Op, Slot, Template, Unknown
from ptxtools.access.values import Values
from ptxtools.reader.function import Function
from ptxtools.reader.instruction import Instruction
from ptxtools.reader.module import Module
from ptxtools.reader.operand import Address, Number

# Functions of the system that touch no memory of the program: a failed assertion ends the kernel.
_HARMLESS_CALLS = {"__assertfail"}


def build(module: Module, function: Function) -> Template:
    """The template of a kernel. Errors: PtxError when its text cannot be read."""
    template = Template(function.name)
    template.slots = [Slot(each.index, each.offset, each.size) for each in function.parameters]
    if not function.body.instructions:
        return template
    try:
        _Builder(module, function, template).build()
    except RecursionError:
        template.accesses.clear()
        template.unknown.append(Unknown(0, "values depend on each other too deeply"))
    return template


class _Builder:
    def __init__(self, module: Module, function: Function, template: Template) -> None:
        self.module, self.function, self.template = module, function, template
        self.graph = Graph(template)
        self.flow = Flow(function.body, template)
        self.values = Values(module, function, self.flow, self.graph)

    def build(self) -> None:
        code = self.function.body.instructions
        for number, block in enumerate(self.flow.blocks):
            for index in range(block.begin, block.end):
                self.instruction(code[index], number, index)
        self.conditions()
        self.graph.simplify()
        resolve = self.graph.resolve
        self.template.accesses = [
            replace(
                access,
                address=resolve(access.address),
                pitch=self.resolved(access.pitch),
                length=self.resolved(access.length),
            )
            for access in self.template.accesses
        ]
        find_steps(self.graph)

    def resolved(self, index: int) -> int:
        return index if index < 0 else self.graph.resolve(index)

    def conditions(self) -> None:
        """Makes the predicates of all contexts; making one may need more contexts."""
        while self.flow.pending:
            for context, edge in list(self.flow.pending.items()):
                self.flow.settle(context, self.values.at_exit(edge.guard, edge.source))

    def instruction(self, instruction: Instruction, block: int, index: int) -> None:
        if instruction.base == "call":
            self.call(instruction)
            return
        found = effects(instruction.parts, len(instruction.operand_texts))
        if isinstance(found, str):
            self.unknown(instruction, found)
            return
        for effect in found:
            try:
                self.access(instruction, effect, block, index)
            except ValueError as problem:
                self.unknown(instruction, str(problem))

    def unknown(self, instruction: Instruction, reason: str) -> None:
        self.template.unknown.append(Unknown(self.function.line(instruction.offset), reason))

    def call(self, instruction: Instruction) -> None:
        names = [text for text in instruction.operand_texts if text[:1] != "("]
        target = names[0] if names else ""
        if target not in self.module.functions:
            self.unknown(instruction, "call through a pointer")
        elif target not in _HARMLESS_CALLS:
            self.unknown(instruction, f"call of {target}")

    def access(self, instruction: Instruction, effect: Effect, block: int, index: int) -> None:
        operand = instruction.operand(effect.address)
        if not isinstance(operand, Address):
            raise ValueError(f"{instruction.opcode}: operand {effect.address + 1} is no address")
        base = self.graph.number(0)
        if operand.base is not None:
            base = self.values.name(operand.base, block, index)
        context = self.flow.contexts[block]
        if instruction.guard:
            guard = self.values.register(instruction.guard, block, index)
            context = self.graph.context(context, guard, not instruction.guard_negated)
        self.template.accesses.append(
            Access(
                effect.kind,
                base,
                operand.displacement,
                effect.size,
                context,
                self.function.line(instruction.offset),
                effect.generic,
                effect.rows,
                self.pitch(instruction, effect, block, index),
                self.length(instruction, effect, block, index),
                block,
            )
        )

    def pitch(self, instruction: Instruction, effect: Effect, block: int, index: int) -> int:
        if effect.pitch < 0:
            return -1
        position = len(instruction.operand_texts) - 1
        operand = instruction.operand(position)
        if position < 2 or instruction.operand_texts[position][0] in "{[":
            return self.graph.number(effect.size)
        stride = self.values.operand(operand, block, index)
        unit = self.graph.number(effect.pitch_bytes)
        context = self.flow.contexts[block]
        return self.graph.add(Node(Op.MUL_WIDE, (stride, unit), 32, block=block, context=context))

    def length(self, instruction: Instruction, effect: Effect, block: int, index: int) -> int:
        """cp.async reads at most cp-size bytes; when a smaller size is given, the rest is filled with zeros."""
        if effect.length < 0:
            return -1
        operand = instruction.operand(effect.length)
        if isinstance(operand, Number) and operand.value is not None:
            return self.graph.number(operand.value)
        return self.values.operand(operand, block, index)
