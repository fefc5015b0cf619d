"""One instruction of a function's body."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from ptxtools.reader import operand
from ptxtools.reader.operand import Operand

_NAME = re.compile(r"[%A-Za-z_$][\w$.#]*")
_FIRST = re.compile(r"\{[^}]*\}|\([^)]*\)|\[[^\]]*\]|[^,]*")

_WRITES_NOTHING = {
    "st",
    "red",
    "bra",
    "brx",
    "bar",
    "barrier",
    "nanosleep",
    "stackrestore",
    "ret",
    "exit",
    "trap",
    "membar",
    "fence",
}


@cache
def _base(opcode: str) -> str:
    return opcode.partition(".")[0]


@cache
def _may_write(opcode: str) -> bool:
    return _base(opcode) not in _WRITES_NOTHING or ".red" in opcode


class Instruction:
    """`[@guard] opcode operands;` at an offset of the module's text. Operands are split and parsed when asked for."""

    __slots__ = ("_texts", "guard", "guard_negated", "offset", "opcode")

    def __init__(self, opcode: str, operands: str, guard: str, guard_negated: bool, offset: int) -> None:
        self.opcode = opcode
        self._texts: str | Sequence[str] = operands
        self.guard = guard
        self.guard_negated = guard_negated
        self.offset = offset

    @property
    def operand_texts(self) -> Sequence[str]:
        """The operands as written."""
        if isinstance(self._texts, str):
            text = self._texts.rstrip()
            self._texts = operand.split(text) if text else ()
        return self._texts

    @property
    def operand_count(self) -> int:
        """How many operands there are."""
        return len(self.operand_texts)

    @property
    def first_text(self) -> str:
        """The first operand as written, "" without any."""
        if not isinstance(self._texts, str):
            return self._texts[0] if self._texts else ""
        if self._texts[:1] == "%":
            return self._texts.partition(",")[0].rstrip()
        match = _FIRST.match(self._texts)
        return match[0].rstrip() if match else ""

    def retarget(self, label: str) -> None:
        """Replaces the last operand, a label, by its unambiguous name."""
        self._texts = [*self.operand_texts[:-1], label]

    @property
    def parts(self) -> list[str]:
        """The opcode at its dots: ["ld", "global", "v4", "f32"]."""
        return self.opcode.split(".")

    @property
    def base(self) -> str:
        """The opcode up to its first dot."""
        return _base(self.opcode)

    @property
    def written(self) -> list[str]:
        """Names of the registers that it writes."""
        if not _may_write(self.opcode):
            return []
        first = self.first_text
        if not first or first[0] == "[" or (first[0] != "(" and self.base == "call"):
            return []
        return [first] if first[0] == "%" and "|" not in first else _NAME.findall(first)

    def operand(self, index: int) -> Operand:
        """Errors: ValueError when there is none or it cannot be read."""
        if index >= len(self.operand_texts):
            raise ValueError(f"{self.opcode} has no operand {index + 1}")
        return operand.parse(self.operand_texts[index])

    @property
    def operands(self) -> list[Operand]:
        """Errors: ValueError."""
        return [operand.parse(text) for text in self.operand_texts]

    def __repr__(self) -> str:
        guard = f"@{'!' if self.guard_negated else ''}{self.guard} " if self.guard else ""
        return f"{guard}{self.opcode} {', '.join(self.operand_texts)};"
