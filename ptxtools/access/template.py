"""The template of a kernel: everything that decides which bytes a launch touches, and nothing else.

It is the slice of the function that computes addresses and the conditions under which they are used, in single-
assignment form. Nothing in it is bound to a launch; `ptxtools.ranges` evaluates it with parameters, grid and block.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple


class Op(Enum):
    """What a node's value is. Operands are `Node.args`; integers unless said otherwise."""

    NUMBER = "number"  # `number`
    PARAMETER = "parameter"  # `width` bits of the parameter block at offset `number`
    SPECIAL = "special"  # the special register `name`
    SYMBOL = "symbol"  # the address of variable `name`
    LOADED = "loaded"  # any value of `width` bits, loaded in line `number`
    OPAQUE = "opaque"  # any value of `width` bits
    ADD = "add"
    SUB = "sub"
    MUL = "mul"  # modulo 2^width
    MUL_WIDE = "mul_wide"  # of operands read as `width` bits
    MUL_HIGH = "mul_high"
    SHL = "shl"
    SHR = "shr"
    AND = "and"
    OR = "or"
    XOR = "xor"
    NOT = "not"
    NEG = "neg"
    ABS = "abs"
    MIN = "min"
    MAX = "max"
    DIV = "div"
    REM = "rem"
    CONVERT = "convert"  # the operand read as `width` bits
    EXTRACT = "extract"  # args: value, first bit, count
    PACK = "pack"  # parts of `width` bits, lowest first
    SELECT = "select"  # args: predicate, value if true, value if false
    PHI = "phi"  # one of the args; `conditions` says under which conditions each
    ELEMENT = "element"  # args: index, values, the last one from there on; each has `number` indices of `width` bits
    LOOP = "loop"  # at the header of loop `number`: args[0] before the first iteration, args[1] more after each
    HAVOC = "havoc"  # at the header of loop `number`: any of the args, from whatever iteration
    INDUCTION = "induction"  # iterations of loop `number` that have ended
    COMPARE = "compare"  # predicate: args[0] `name` args[1], read as `width` bits
    BOTH = "both"  # predicates from here on
    EITHER = "either"
    OPPOSITE = "opposite"
    UNKNOWN = "unknown"

    __hash__ = object.__hash__  # members are single; by name takes much longer


PREDICATES = frozenset({Op.COMPARE, Op.BOTH, Op.EITHER, Op.OPPOSITE, Op.UNKNOWN})

BEYOND = "beyond"  # the name of a loaded value that only launches of unusual size have


class AccessKind(Enum):
    READ = "read"
    WRITE = "write"
    ATOMIC = "atomic"


class Node(NamedTuple):
    """`block`: where the value is made, which says what loops it varies in. `condition`: the conditions that hold
    there.
    """

    op: Op
    args: tuple[int, ...] = ()
    width: int = 0
    signed: bool = False
    number: int = 0
    name: str = ""
    block: int = 0
    condition: int = 0
    conditions: tuple[int, ...] = ()


def chosen(element: Node, index: int) -> int:
    """Which of the args of an ELEMENT an index stands for."""
    return element.args[1 + min(index // element.number, len(element.args) - 2)]


class PathCondition(NamedTuple):
    """Conditions that hold at a place: those of `parent`, and the predicate node's value. PathCondition 0 has none.

    `certain`: where it does not hold, the launch fails.
    """

    parent: int
    predicate: int = -1
    truth: bool = True
    certain: bool = False


@dataclass(frozen=True, slots=True)
class LoopPlace:
    """A loop: path conditions of the edges into its header, from outside and back, and that of the header itself.

    `within`: the loops (indices) that contain it, itself included. `must`: the condition in which it runs for certain;
    `again`: that in which it goes on after an iteration, a child of `must` or `must` itself. -1: not known.
    """

    header: int
    condition: int
    entries: tuple[int, ...]
    backs: tuple[int, ...]
    within: frozenset[int]
    must: int = -1
    again: int = -1


@dataclass(frozen=True, slots=True)
class Access:
    """An instruction's access to memory that others see: `size` bytes at node `address` plus `displacement`.

    `rows`, `pitch`: that many times, a node's value in bytes apart. `length`: a node with the size in bytes instead.
    `generic`: the address may lie in private memory. `pointers`: of a write, offsets in the parameter block of the
    pointers that the values may be, each or with something added, and it happens wherever its condition holds; None
    when that is not known. `must`: of a write of values, the condition in which it is made for certain, in any
    iteration of the loops around it; -1 when that is not known. `looks_back`: of a load, it lies between where its
    pointer points and what the launch writes last through the same one (`lookback`).
    """

    kind: AccessKind
    address: int
    displacement: int
    size: int
    condition: int
    line: int
    generic: bool = False
    rows: int = 1
    pitch: int = -1
    length: int = -1
    block: int = 0
    pointers: tuple[int, ...] | None = None
    must: int = -1
    looks_back: bool = False


IN_MEMORY = -1  # the offset of a tensor map that lies in memory


@dataclass(frozen=True, slots=True)
class TensorAccess:
    """An instruction's access to a tensor through its tensor map (TMA descriptor).

    It stays inside the tensor; which part of it is not kept. `offset`: of the map's 128 bytes in the parameter block;
    IN_MEMORY: there is an access of the same line that reads them. The tensor is then at one of the pointers that lie
    in the parameter block at the offsets `parameters`, or that accesses in the lines `loads` read.
    """

    kind: AccessKind
    offset: int
    condition: int
    line: int
    parameters: tuple[int, ...] = ()
    loads: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Unknown:
    """An instruction whose accesses are not understood."""

    line: int
    reason: str


@dataclass(slots=True)
class Slot:
    """A kernel parameter: index, offset and size in bytes."""

    index: int
    offset: int
    size: int


@dataclass(slots=True)
class Template:
    """`tier`: what it was made from. `private`: names of symbols in shared, local or parameter memory.

    `sizes`: bytes of the module's variables.

    `block_loops`: for each block the loops (indices) that contain it.
    """

    name: str
    slots: list[Slot] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    conditions: list[PathCondition] = field(default_factory=lambda: [PathCondition(0)])
    loops: list[LoopPlace] = field(default_factory=list)
    block_loops: list[frozenset[int]] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list)
    unknown: list[Unknown] = field(default_factory=list)
    private: set[str] = field(default_factory=set)
    sizes: dict[str, int] = field(default_factory=dict)
    tensors: list[TensorAccess] = field(default_factory=list)
    tier: str = "ptx"
