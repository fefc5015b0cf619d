"""Builds a kernel's template. Functions that it calls are inlined."""

from __future__ import annotations

from dataclasses import replace

from ptxtools.access.activation import Activation, Place, called, guarded, make_access, stored, stored_values
from ptxtools.access.bits import add_disjoint
from ptxtools.access.depth import deep
from ptxtools.access.effects import TensorEffect, effects, is_harmless
from ptxtools.access.flow import Flow
from ptxtools.access.graph import Graph
from ptxtools.access.indices import find_indices
from ptxtools.access.must import mark_must
from ptxtools.access.steps import find_steps
from ptxtools.access.stored import MustRun, pointers
from ptxtools.access.template import Slot, Template, Unknown
from ptxtools.access.tensors import tensor_accesses
from ptxtools.access.values import Arguments, Values
from ptxtools.flow.blocks import ENDS, is_failure
from ptxtools.flow.loops import NestedLoopsError
from ptxtools.reader.function import Function
from ptxtools.reader.instruction import Instruction
from ptxtools.reader.module import Module

_DEPTH = 8  # calls in calls
_INSTRUCTIONS = 50_000  # of a kernel and all that it calls

# Functions of the system that touch no memory of the program: a failed assertion ends the kernel.
_HARMLESS_CALLS = {"__assertfail"}


def build(module: Module, function: Function) -> Template:
    """The template of a kernel. Errors: PtxError when its text cannot be read."""
    template = Template(function.name)
    template.slots = [Slot(each.index, each.offset, each.size) for each in function.parameters]
    if not function.body.instructions:
        return template
    try:
        with deep():
            _Builder(module, template).build(function)
    except RecursionError as problem:
        is_nested = isinstance(problem, NestedLoopsError)
        template.accesses.clear()
        template.unknown.append(Unknown(0, str(problem) if is_nested else "values depend on each other too deeply"))
    return template


class _Builder:
    def __init__(self, module: Module, template: Template) -> None:
        self.module, self.template = module, template
        self.graph = Graph(template)
        self.activations: list[Activation] = []
        self.stored: dict[int, list[int]] = {}  # by number of the access, values of 64 bits
        self.writing: set[int] = set()  # numbers of accesses of the kernel itself that put values into memory
        self.instructions = 0

    def build(self, kernel: Function) -> None:
        self.activate(kernel, 0, frozenset(), None, ())
        self.conditions()
        self.graph.simplify()
        find_indices(self.graph)
        self.graph.simplify()
        add_disjoint(self.graph)
        self.template.accesses = [
            replace(
                access,
                address=self.graph.resolve(access.address),
                pitch=self.resolved(access.pitch),
                length=self.resolved(access.length),
            )
            for access in self.template.accesses
        ]
        self.find_pointers()
        find_steps(self.graph)

    def find_pointers(self) -> None:
        """What stores of the kernel itself put where pointers may be loaded from."""
        called = (each.function.body.instructions for each in self.activations[1:])
        if any(instruction.base in ("exit", "trap") for code in called for instruction in code):
            return
        flow, code = self.activations[0].flow, self.activations[0].function.body.instructions
        ends = {number: code[block.end - 1] for number, block in enumerate(flow.blocks)}
        failing = {n for n, last in ends.items() if (last.base == "trap" or is_failure(last)) and not last.guard}
        exits = {number for number, last in ends.items() if last.base in ENDS} - failing
        must = MustRun(flow.blocks, flow.dominators, exits, failing)
        flow.mark_certain(must.failing, exits)
        mark_must(self.template, flow, exits, must.failing, self.writing)
        for number, values in self.stored.items():
            access = self.template.accesses[number]
            found = pointers(self.graph, values)
            if found is not None and must.runs(access.block - flow.base):
                self.template.accesses[number] = replace(access, pointers=found)

    def resolved(self, index: int) -> int:
        return index if index < 0 else self.graph.resolve(index)

    def activate(
        self,
        function: Function,
        condition: int,
        loops: frozenset[int],
        arguments: Arguments | None,
        callers: tuple[str, ...],
    ) -> None:
        """Adds the accesses of a function, and of those that it calls, as if its body stood in the caller's."""
        flow = Flow(function.body, self.template, condition, loops)
        values = Values(self.module, function, flow, self.graph, arguments)
        activation = Activation(function, flow, values, (*callers, function.name))
        self.activations.append(activation)
        code = function.body.instructions
        self.instructions += len(code)
        for number, block in enumerate(flow.blocks):
            for index in range(block.begin, block.end):
                if not is_harmless(code[index].opcode):
                    self.instruction(activation, code[index], Place(number, index))

    def conditions(self) -> None:
        """Makes the predicates of all conditions; making one may need more conditions."""
        while any(activation.flow.pending for activation in self.activations):
            for activation in self.activations:
                for condition, edge in list(activation.flow.pending.items()):
                    activation.flow.complete(condition, activation.values.at_exit(edge.guard, edge.source))

    def instruction(self, of: Activation, instruction: Instruction, place: Place) -> None:
        try:
            if instruction.base == "call":
                self.call(of, instruction, place)
                return
            found = effects(instruction.opcode, instruction.operand_count)
            if isinstance(found, str):
                raise ValueError(found)
            if isinstance(found, TensorEffect):
                tensors, maps = tensor_accesses(self.graph, of, instruction, found, place)
                self.template.tensors += tensors
                self.template.accesses += maps
                return
            for effect in found:
                access = make_access(self.graph, of, instruction, effect, place)
                if instruction.base == "st" and len(of.callers) == 1:
                    self.stored[len(self.template.accesses)] = stored_values(of, instruction, place)
                if instruction.base in ("st", "wmma") and len(of.callers) == 1:
                    self.writing.add(len(self.template.accesses))
                self.template.accesses.append(access)
        except ValueError as problem:
            self.template.unknown.append(Unknown(of.function.line(instruction.offset), str(problem)))

    def call(self, of: Activation, instruction: Instruction, place: Place) -> None:
        """Errors: ValueError with the reason why the call is not understood."""
        name, passed = called(instruction)
        function = self.module.functions.get(name)
        if function is None:
            raise ValueError("call through a pointer")
        if name in _HARMLESS_CALLS:
            return
        if not function.has_body:
            raise ValueError(f"call of {name}, which is defined elsewhere")
        if name in of.callers:
            raise ValueError(f"{name} calls itself")
        if len(of.callers) > _DEPTH or self.instructions + len(function.body.instructions) > _INSTRUCTIONS:
            raise ValueError(f"call of {name}: too many calls in calls")
        arguments = stored(of, place, function, passed)
        loops = self.template.block_loops[of.flow.base + place.block]
        self.activate(function, guarded(self.graph, of, instruction, place), loops, arguments, of.callers)
