"""Variables of the program's module in a clone, which is another module and has its own of each.

For variables in global memory, the clone uses the program's: their addresses, which are in the clone's own variable,
replace their names. Variables in constant memory, which no kernel writes, are copied.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from ptxtools.clone.check import load_place, most_places
from ptxtools.reader import Address, Function, Instruction, Module, Register, Symbol
from ptxtools.reader.operand import parse

_NAME = re.compile(r"[%A-Za-z_$][\w$.#]*+")
_USE = r"(?<![\w$%.]){}(?![\w$.])(?:[ \t]*[-+][ \t]*-?\w+)?"
_MOVES = {"mov.u64", "mov.b64", "mov.s64", "cvta.global.u64", "cvta.to.global.u64"}


@dataclass(slots=True)
class Places:
    """`global_names`: in the order of their addresses in the clone's variable. `constant_names`: to be copied."""

    module: Module
    global_names: list[str] = field(default_factory=list)
    constant_names: list[str] = field(default_factory=list)

    def find(self, functions: Iterable[Function]) -> None:
        """Adds what the functions use. Errors: ValueError when something of it cannot be given to a clone."""
        takes_constants = False
        for function in functions:
            for instruction in function.body.instructions:
                takes_constants |= instruction.opcode.startswith("cvta.const")
                for name in self._names(function, instruction):
                    self._add(name, instruction)
        if takes_constants and self.constant_names:
            raise ValueError("generic address of a variable in constant memory")
        if len(self.global_names) > most_places():
            raise ValueError(f"more than {most_places()} variables of the module")

    def load(self, function: Function, register: str, name: str) -> str:
        """The statement that puts the variable's address into a register; "" when the name is none of a variable."""
        if name not in self.global_names or name in function.body.variables:
            return ""
        return load_place(register, self.global_names.index(name))

    def uses(self, function: Function, instruction: Instruction) -> list[str]:
        """The variables in global memory that an instruction names."""
        names = self._names(function, instruction) if self.global_names else []
        return [name for name in names if name in self.global_names]

    def moved(self, function: Function, instruction: Instruction, statement: str) -> str:
        """The instruction in a scope in which registers with their addresses stand for variables."""
        loads: dict[str, str] = {}
        for name in self.uses(function, instruction):
            for use in sorted(set(re.findall(_USE.format(re.escape(name)), statement)), key=len, reverse=True):
                register = f"%tsr_v{len(loads)}"
                loads[register] = self.load(function, register, name) + _displaced(register, use)
                statement = re.sub(rf"(?<![\w$%.]){re.escape(use)}(?![\w$.])", register, statement)
        return f"{{.reg .b64 {','.join(loads)};{''.join(loads.values())}{statement}}}"

    def _names(self, function: Function, instruction: Instruction) -> list[str]:
        """Of the module's variables in global and constant memory."""
        if not self.module.variables:
            return []
        found = dict.fromkeys(name for text in instruction.operand_texts for name in _NAME.findall(text))
        mine = self.module.variables.keys() - function.body.variables.keys()
        return [name for name in found if name in mine and self.module.variables[name].space in ("global", "const")]

    def _add(self, name: str, instruction: Instruction) -> None:
        variable = self.module.variables[name]
        if variable.external:
            raise ValueError(f"{name} is defined in another module")
        if variable.space == "global" and not _is_replaceable(instruction, name):
            raise ValueError(f"{instruction.opcode} with the address of a variable")
        names = self.global_names if variable.space == "global" else self.constant_names
        if name not in names:
            names.append(name)


def _is_replaceable(instruction: Instruction, name: str) -> bool:
    """Whether a register may stand for the variable: in an address, or as what is moved."""
    uses = [text for text in instruction.operand_texts if name in _NAME.findall(text)]
    operands = [parse(text) for text in uses]
    if instruction.opcode in _MOVES:
        return all(isinstance(operand, Register | Symbol) for operand in operands)
    return all(isinstance(operand, Address) and operand.base == name and not operand.rest for operand in operands)


def _displaced(register: str, use: str) -> str:
    operand = parse(use)
    displacement = operand.displacement if isinstance(operand, Symbol) else 0
    return f"add.s64 {register},{register},{displacement};" if displacement else ""
