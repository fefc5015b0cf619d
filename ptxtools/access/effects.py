"""Which instructions access memory that others can see, how, and how many bytes.

An instruction that is not listed here is unknown: only this file can say that one has no effect.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from ptxtools.access.template import AccessKind
from ptxtools.isa.semantics import ROWS

# fmt: off
_OTHERS = {
    "bra", "brx", "ret", "exit", "trap", "bar", "barrier", "membar", "fence", "shfl", "vote", "match",
    "activemask", "redux", "elect", "isspacep", "cvta", "mapa", "getctarank", "nanosleep", "mma", "ldmatrix",
    "stmatrix", "movmatrix", "mbarrier", "prefetch", "prefetchu", "applypriority", "createpolicy",
    "griddepcontrol", "setmaxnreg", "pmevent", "brkpt", "alloca", "stacksave", "stackrestore", "wgmma",
}
# fmt: on
_HARMLESS = _OTHERS | {row.key.split(".", 1)[0] for row in ROWS}
_PRIVATE = {"shared", "shared::cta", "shared::cluster", "local", "param", "param::entry", "param::func"}
_WIDTH = re.compile(r"(?:[busf]|bf)([0-9]{1,4})(x2)?\Z")
_SHAPE = re.compile(r"m([0-9]{1,4})n([0-9]{1,4})k([0-9]{1,4})")
_VECTOR = {"v2": 2, "v4": 4, "v8": 8}
_WMMA_TYPES = {"f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "s32": 32, "f64": 64, "s8": 8, "u8": 8}
_DISCARDED_BYTES = 128


@dataclass(frozen=True, slots=True)
class Effect:
    """An access of `size` bytes at operand number `address`. `rows`, `pitch`: see Access.

    Here `pitch` is an operand number, in units of `pitch_bytes`; `length` is the operand number of the size, `partial`
    that of a smaller one, if it is there.
    """

    kind: AccessKind
    address: int
    size: int
    generic: bool = False
    rows: int = 1
    pitch: int = -1
    pitch_bytes: int = 1
    length: int = -1
    partial: int = -1


@dataclass(frozen=True, slots=True)
class TensorEffect:
    """An access to a tensor whose map is at operand number `map`."""

    kind: AccessKind
    map: int


@cache
def effects(opcode: str, operands: int) -> list[Effect] | TensorEffect | str:
    """Accesses of an instruction with this opcode and number of operands; or why they are unknown."""
    parts = opcode.split(".")
    base = parts[0]
    if base in ("ld", "ldu", "st", "atom", "red"):
        return _plain(parts)
    if base == "cp":
        return _copy(parts, operands)
    if base == "wmma":
        return _matrix(parts)
    if base == "discard":
        return [Effect(AccessKind.WRITE, 0, _DISCARDED_BYTES, "global" not in parts)]
    if base == "multimem":
        return "multimem reaches other devices' memory"
    if base in ("tex", "tld4", "suld", "sust", "sured", "txq", "suq"):
        return "texture or surface"
    if base == "mbarrier" and "global" in parts:
        return "mbarrier in global memory"
    if base in _HARMLESS:
        return []
    return f"{'.'.join(parts[:2])} is not analysed"


@cache
def is_harmless(opcode: str) -> bool:
    """Whether an instruction with this opcode accesses nothing, whatever its operands are, and calls nothing."""
    return opcode.partition(".")[0] not in ("call", "cp") and effects(opcode, 0) == []


def width(parts: list[str]) -> int:
    """Bits of the last type in an opcode; 0 without one."""
    for part in reversed(parts):
        match = _WIDTH.match(part)
        if match:
            return int(match[1]) * (2 if match[2] else 1)
    return 0


def elements(parts: list[str]) -> int:
    """How many elements a vector access has."""
    return next((_VECTOR[part] for part in parts if part in _VECTOR), 1)


def _plain(parts: list[str]) -> list[Effect] | str:
    base = parts[0]
    if "async" in parts and _PRIVATE.isdisjoint(parts):
        return f"{base}.async"
    if not _PRIVATE.isdisjoint(parts):
        return []
    bits = width(parts)
    if bits == 0:
        return f"{'.'.join(parts)} has no type"
    generic = "global" not in parts and "const" not in parts
    kind = {"ld": AccessKind.READ, "ldu": AccessKind.READ, "st": AccessKind.WRITE}.get(base, AccessKind.ATOMIC)
    address = 0 if base in ("st", "red") else 1
    return [Effect(kind, address, bits // 8 * elements(parts), generic)]


def _copy(parts: list[str], operands: int) -> list[Effect] | TensorEffect | str:
    """cp.async, cp.async.bulk and cp.reduce.async.bulk. Tensor copies go through tensor maps (TMA)."""
    if {"commit_group", "wait_group", "wait_all", "mbarrier"} & set(parts):
        return []
    if "tensor" in parts and "prefetch" not in parts:
        return _tensor_copy(parts)
    if "reduce" in parts:
        return [Effect(AccessKind.ATOMIC, 0, 0, length=2)] if "global" in parts[:6] else "cp.reduce"
    if "bulk" not in parts:
        return [Effect(AccessKind.READ, 1, 0, length=2, partial=3)]
    if "prefetch" in parts:
        return []
    spaces = [part for part in parts if part == "global" or part.startswith("shared")]
    if len(spaces) != 2 or operands < 3:
        return "bulk copy"
    if spaces[0] == "global":
        return [Effect(AccessKind.WRITE, 0, 0, length=2)]
    return [Effect(AccessKind.READ, 1, 0, length=2)] if spaces[1] == "global" else []


def _tensor_copy(parts: list[str]) -> TensorEffect | str:
    """From a tensor to shared memory the map is the second operand, the other way the first."""
    spaces = [part.partition("::")[0] for part in parts if part.partition("::")[0] in ("global", "shared")][:2]
    if spaces == ["shared", "global"] and "reduce" not in parts:
        return TensorEffect(AccessKind.READ, 1)
    if spaces == ["global", "shared"]:
        return TensorEffect(AccessKind.ATOMIC if "reduce" in parts else AccessKind.WRITE, 0)
    return "TMA tensor copy between these spaces"


def _matrix(parts: list[str]) -> list[Effect] | str:
    """wmma.load and wmma.store: rows or columns of a matrix, `stride` elements apart."""
    if len(parts) < 3:
        return f"{'.'.join(parts)} is cut off"
    if parts[1] not in ("load", "store"):
        return []
    if not _PRIVATE.isdisjoint(parts):
        return []
    shape = next((_SHAPE.fullmatch(part) for part in parts if part.startswith("m")), None)
    bits = _WMMA_TYPES.get(parts[-1])
    if shape is None or bits is None:
        return "wmma of a type below a byte"
    m, n, k = (int(size) for size in shape.groups())
    high, wide = {"a": (m, k), "b": (k, n)}.get(parts[2], (m, n))
    rows, columns = (high, wide) if "row" in parts else (wide, high)
    is_load = parts[1] == "load"
    kind = AccessKind.READ if is_load else AccessKind.WRITE
    element = bits // 8
    return [
        Effect(
            kind,
            1 if is_load else 0,
            columns * element,
            "global" not in parts,
            rows=rows,
            pitch=2,
            pitch_bytes=element,
        )
    ]
