"""One instruction of a function's body."""

from __future__ import annotations

from collections.abc import Sequence

from ptxtools.reader import operand
from ptxtools.reader.operand import Operand


class Instruction:
    """`[@guard] opcode operands;` at an offset of the module's text. Operands are parsed when asked for."""

    __slots__ = ("guard", "guard_negated", "offset", "opcode", "operand_texts")

    def __init__(self, opcode: str, operand_texts: Sequence[str], guard: str, guard_negated: bool, offset: int) -> None:
        self.opcode = opcode
        self.operand_texts = operand_texts
        self.guard = guard
        self.guard_negated = guard_negated
        self.offset = offset

    @property
    def parts(self) -> list[str]:
        """The opcode at its dots: ["ld", "global", "v4", "f32"]."""
        return self.opcode.split(".")

    @property
    def base(self) -> str:
        """The opcode up to its first dot."""
        return self.opcode.split(".", 1)[0]

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
