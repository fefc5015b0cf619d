"""One row of the semantics table: a spelled PTX instruction, its operands, its value in C and its abstract transfer.

The value is a C expression over the operands `A`, `B`, `C`, `D` of one lane:

- integers, f32 and f64 have their own C type;
- half-precision numbers appear as `float` (exact) and the result is rounded to the nearest half;
- packed halves are evaluated once per number;
- rows with `raw` see every operand as unsigned bits and yield bits;
- a predicate source is 0 or 1;
- `Form` says how the expression becomes the result.

Helper functions that expressions call are declared in the emulator's exec/lane headers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum

from ptxtools.isa.types import Type


class OpClass(Enum):
    """What an instruction's issue slot costs; names are those of `enum tsr_op_class`."""

    INT = "INT"
    INT_MUL = "INT_MUL"
    F32 = "F32"
    F64 = "F64"
    F16 = "F16"
    SPECIAL = "SPECIAL"
    CONVERT = "CONVERT"
    MOVE = "MOVE"


class Kind(Enum):
    """How the result depends on the operands, for analyses over integers and addresses.

    Operand roles are positional: a, b, c, d as in the row. `OPAQUE` results may be any value.
    """

    COPY = "copy"  # a
    ADD = "add"  # a + b
    SUB = "sub"  # a - b
    MUL = "mul"  # a * b
    MAD = "mad"  # a * b + c
    SHL = "shl"  # a << b, zero from the width on
    SHR = "shr"  # a >> b, by sign
    FUNNEL_LEFT = "funnel_left"  # high word of (b:a) << c
    FUNNEL_RIGHT = "funnel_right"  # low word of (b:a) >> c
    AND = "and"
    OR = "or"
    XOR = "xor"
    NOT = "not"
    LOP3 = "lop3"  # table d over a, b, c
    NEG = "neg"
    ABS = "abs"
    MIN = "min"
    MAX = "max"
    DIV = "div"
    REM = "rem"
    SELECT = "select"  # c ? a : b
    CONVERT = "convert"  # a, from the source's width and sign to the destination's
    COMPARE = "compare"  # a `detail` b, then perhaps combined with predicate c
    EXTRACT = "extract"  # c bits of a from bit b
    INSERT = "insert"  # d bits of a into b at bit c
    PERMUTE = "permute"  # bytes of a and b chosen by c
    PACK = "pack"  # operands side by side, a lowest
    UNPACK = "unpack"  # part `detail` of a, counted from the lowest
    OPAQUE = "opaque"


class Part(Enum):
    """Which bits of a product or sum are the result."""

    LOW = "low"
    HIGH = "high"
    WIDE = "wide"


@dataclass(frozen=True, slots=True)
class Transfer:
    """Abstract meaning: `kind` on operands of `width` bits, read as signed or not."""

    kind: Kind
    width: int = 0
    signed: bool = False
    part: Part = Part.LOW
    saturate: bool = False
    detail: str = ""


OPAQUE = Transfer(Kind.OPAQUE)


class Form(Enum):
    """How a row's value becomes its result."""

    MAP = "map"  # the value, for each lane
    TEST = "test"  # the value is a condition: the destination is a predicate, the second destination gets the opposite
    SET = "set"  # the value is a condition: all ones or 1.0 where true, 0 elsewhere
    MASKS = "masks"  # the operands are whole predicates, one bit per lane


class Rounding(Enum):
    """Rounding direction other than to nearest, of the whole expression."""

    NEAREST = ""
    ZERO = "rz"
    DOWN = "rm"
    UP = "rp"


@dataclass(frozen=True, slots=True)
class Row:
    """A spelled instruction. `group` names the C file its body is generated into."""

    key: str
    dst: Type
    sources: tuple[Type, ...]
    value: str
    op_class: OpClass
    group: str
    transfer: Transfer = OPAQUE
    raw: bool = False
    form: Form = Form.MAP
    combine: str = ""  # TEST, SET: and, or, xor with the last source, a predicate
    rounding: Rounding = Rounding.NEAREST
    flush: bool = False  # subnormal f32 operands, and results that are tiny after rounding, become zeros of their sign
    second: str = ""  # MAP: condition that goes into a second destination, a predicate
    temporaries: tuple[str, ...] = field(default=())  # C statements before the value, once per lane

    @property
    def opcode(self) -> tuple[str, ...]:
        return tuple(self.key.split("."))

    def spelled(self, key: str) -> Row:
        """The same instruction under another spelling."""
        return replace(self, key=key)


Rows = Iterator[Row]


def dotted(*parts: str) -> str:
    """Joins the parts of an opcode that are present: dotted('add', '', 'ftz', 'f32') is 'add.ftz.f32'."""
    return ".".join(part for part in parts if part)
