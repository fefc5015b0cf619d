"""A function's body: instructions, labels, registers, variables.

Names declared in a nested scope are distinguished from those outside by `#` and the scope's number. A declaration
counts from where it stands, a label in its whole scope.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ptxtools.reader import variable
from ptxtools.reader.instruction import Instruction
from ptxtools.reader.text import error
from ptxtools.reader.variable import Variable

_INSTRUCTION = re.compile(
    r"(?:@\s*+(!?)\s*+([%\w$]++)\s++)?+([a-z]\w*+(?:::?\w++|\.[\w:]++)*+)(?![\w$%.])\s*+(.*)\Z", re.DOTALL
)
# The usual statement, with the space and perhaps a label before it.
_PLAIN = re.compile(
    r"\s*+(?:([\w$%]++):(?!:)\s*+)?+(?:@(!?)([%\w$]++)\s++)?+([a-z]\w*+(?:(?:\.|::)\w++)*+)(?=[\s;])\s*+([^;]*+);"
)
_LABEL = re.compile(r"([\w$%]++)\s*+:(?!:)\s*+")
_REGISTERS = re.compile(r"\.reg\s*+(?:\.v[24]\s*+)?+\.(\w++)\s++(.*)\Z", re.DOTALL)
_RANGE = re.compile(r"([%\w$]++)\s*+(?:<\s*+(\d++)\s*+>)?+\Z")
_NAME = re.compile(r"[%A-Za-z_$][\w$]*")
_SKIP = re.compile(r"\s*")
_LINE = re.compile(r"\.loc\b[^\n]*(?:\n|\Z)")
_BRANCHES = ("bra", "brx")
_MOST = 4096  # registers of one declaration with a count, in an inner scope
_MOST_NAMES = 1 << 18  # declared in the inner scopes of a body
_LISTS = (".branchtargets", ".callprototype", ".calltargets")


@dataclass(slots=True)
class Body:
    """What a function's braces hold. `labels` maps to indices of `instructions`; one past the last means the end."""

    instructions: list[Instruction] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    registers: dict[str, str] = field(default_factory=dict)  # name, or prefix followed by `<`: type
    variables: dict[str, Variable] = field(default_factory=dict)
    lists: dict[str, list[str]] = field(default_factory=dict)  # by label: branch targets

    def register_type(self, name: str) -> str | None:
        """The declared type ("b32"), None when no register has this name."""
        found = self.registers.get(name)
        if found is None:
            plain, _, scope = name.partition("#")
            found = self.registers.get(plain.rstrip("0123456789") + "<" + scope)
        return found


class _Reader:
    def __init__(self, text: str, begin: int, end: int) -> None:
        self.text, self.begin, self.end = text, begin, end
        self.body = Body()
        self.scopes: list[dict[str, str]] = [{}]
        self.numbers = [0]  # of the open scopes
        self.parents: dict[int, int] = {}
        self.targets: list[tuple[Instruction, int]] = []
        self.label = ""
        self.declared = 0  # names in inner scopes

    def read(self) -> Body:
        text, position, end = self.text, self.begin, self.end
        while True:
            if not self.renames:
                position = self.plain(position)
            position = _SKIP.match(text, position, end).end()  # type: ignore[union-attr]
            if position >= end:
                break
            position = self.statement(position)
        if len(self.scopes) != 1:
            raise error(text, self.end, "a scope is never closed")
        self.resolve()
        return self.body

    def plain(self, position: int) -> int:
        """Reads instructions from an offset on, up to the first statement that is something else."""
        instructions, targets, scope = self.body.instructions, self.targets, self.numbers[-1]
        following = _PLAIN.scanner(self.text, position, self.end).match  # type: ignore[attr-defined]
        match = None
        for match in iter(following, None):
            label, negated, guard, opcode, operands = match.groups()
            if label:
                self.place_label(label, match.start(1))
            if guard:
                instruction = Instruction(opcode, operands, guard, negated == "!", match.start(2) - 1)
            else:
                instruction = Instruction(opcode, operands, "", False, match.start(4))
            if opcode[:3] in _BRANCHES and instruction.base in _BRANCHES:
                targets.append((instruction, scope))
            instructions.append(instruction)
        return position if match is None else match.end()

    def statement(self, position: int) -> int:
        text = self.text
        first = text[position]
        if first == "{":
            self.parents[len(self.parents) + 1] = self.numbers[-1]
            self.numbers.append(len(self.parents))
            self.scopes.append({})
            return position + 1
        if first == "}":
            if len(self.scopes) == 1:
                raise error(text, position, "this brace closes nothing")
            self.numbers.pop()
            self.scopes.pop()
            return position + 1
        if first == "." and (line := _LINE.match(text, position, self.end)):
            return line.end()
        if first not in ".@" and (label := _LABEL.match(text, position, self.end)):
            self.place_label(label[1], position)
            return label.end()
        end = text.find(";", position, self.end)
        if end < 0:
            raise error(text, position, "a statement without semicolon")
        statement = text[position:end]
        try:
            if first == ".":
                self.directive(statement)
            else:
                self.instruction(statement, position)
        except ValueError as problem:
            raise error(text, position, str(problem)) from problem
        return end + 1

    def place_label(self, name: str, position: int) -> None:
        """A label before the instruction that comes next."""
        self.label = self.scoped(name)
        if self.label in self.body.labels:
            raise error(self.text, position, f"label {name} is there twice")
        self.body.labels[self.label] = len(self.body.instructions)

    @property
    def renames(self) -> bool:
        """Whether names may mean something else here than outside."""
        return len(self.scopes) > 1 and any(self.scopes)

    def scoped(self, name: str) -> str:
        return f"{name}#{self.numbers[-1]}" if self.numbers[-1] else name

    def directive(self, text: str) -> None:
        if match := _REGISTERS.match(text):
            for part in match[2].split(","):
                self.registers(part.strip(), match[1])
        elif text.startswith(_LISTS):
            if text.startswith(".branchtargets"):
                names = text[len(".branchtargets") :].split(",")
                self.body.lists[self.label] = [name.strip() for name in names]
        elif not text.startswith((".pragma", ".maxnreg", ".noreturn")):
            for found in variable.parse(text):
                self.declare(found.name)
                name = self.scopes[-1].get(found.name, found.name)
                self.body.variables[name] = found

    def registers(self, text: str, kind: str) -> None:
        match = _RANGE.match(text)
        if match is None:
            raise ValueError(f"'{text[:60]}' is no register")
        name, count = match[1], match[2]
        if count is None or self.numbers[-1]:
            if count is not None and int(count) > _MOST:
                raise ValueError(f"'{text[:60]}' is more than {_MOST} registers")
            for each in [name] if count is None else [f"{name}{number}" for number in range(int(count))]:
                self.declare(each)
                self.body.registers[self.scopes[-1].get(each, each)] = kind
        else:
            self.body.registers[name + "<"] = kind

    def declare(self, name: str) -> None:
        if self.numbers[-1]:
            self.declared += 1
            if self.declared > _MOST_NAMES:
                raise ValueError(f"more than {_MOST_NAMES} names in inner scopes")
            self.scopes[-1][name] = f"{name}#{self.numbers[-1]}"

    def renamed(self, text: str) -> str:
        def replace(match: re.Match[str]) -> str:
            for scope in reversed(self.scopes):
                if match[0] in scope:
                    return scope[match[0]]
            return match[0]

        return _NAME.sub(replace, text)

    def instruction(self, text: str, position: int) -> None:
        match = _INSTRUCTION.match(text)
        if match is None:
            raise ValueError(f"'{text.strip()[:60]}' is no instruction")
        negated, guard, opcode, operands = match.groups()
        if self.renames:
            operands = self.renamed(operands)
            guard = guard and self.renamed(guard)
        self.add(Instruction(opcode, operands, guard or "", negated == "!", position))

    def add(self, instruction: Instruction) -> None:
        if instruction.opcode[:3] in _BRANCHES and instruction.base in _BRANCHES:
            self.targets.append((instruction, self.numbers[-1]))
        self.body.instructions.append(instruction)

    def resolve(self) -> None:
        """Branch targets by the label that their scope sees."""
        labels = self.body.labels
        for instruction, scope in self.targets:
            if not instruction.operand_texts:
                raise error(self.text, instruction.offset, "a branch to nowhere")
            name, through_list = instruction.operand_texts[-1], instruction.opcode[:3] == "brx"
            if scope == 0 and not through_list and name in labels:
                continue
            known = self.body.lists if through_list else labels
            found = self.visible(name, scope, known)
            if found is None:
                raise error(self.text, instruction.offset, f"there is no label {name}")
            instruction.retarget(found)
            for target in self.body.lists.get(found, ()) if through_list else ():
                if self.visible(target, scope, self.body.labels) is None:
                    raise error(self.text, instruction.offset, f"there is no label {target}")

    def visible(self, name: str, scope: int, known: dict[str, int] | dict[str, list[str]]) -> str | None:
        while True:
            candidate = f"{name}#{scope}" if scope else name
            if candidate in known:
                return candidate
            if scope == 0:
                return None
            scope = self.parents[scope]


def read(text: str, begin: int, end: int) -> Body:
    """Reads the body between two offsets of the text. Errors: PtxError."""
    return _Reader(text, begin, end).read()
