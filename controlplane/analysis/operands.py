"""What a trace has of launches' operands besides their parameters: library calls around them, and tensor maps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from controlplane.analysis.allocations import Allocations
from controlplane.observe.layout import Flag, Kind, RangeFlag, Records, constant
from controlplane.policy.library_calls import library_calls
from ptxtools.access.template import AccessKind
from ptxtools.ranges import Range, Result
from ptxtools.ranges.tensor import MAP_BYTES, Tensor

PIECE_BYTES = 32
MAP_PIECES = MAP_BYTES // PIECE_BYTES
OUTSIDE = "an operand outside of every allocation"
UNSAID = "its operands were not recorded"
_KINDS = tuple(AccessKind)


@dataclass(frozen=True, slots=True)
class Operand:
    """Bytes `first` to `last`, `width` of them at every multiple of `stride` from there (0: all).

    last 0: as much as the allocation that `first` lies in. `overwritten`, `scratch`, `intermediate`: as of a Range.
    """

    kind: AccessKind
    first: int
    last: int
    stride: int
    width: int
    overwritten: bool = False
    scratch: bool = False
    intermediate: bool = False


@dataclass(frozen=True, slots=True)
class LibraryCall:
    """A call into one of NVIDIA's libraries. `problem`: why its operands are not known; empty if they are."""

    name: str
    operands: tuple[Operand, ...]
    problem: str
    other_gpus: bool

    def ranges(self, allocations: Allocations) -> Result:
        """Those of a launch in the call, without the variables of its module."""
        if self.problem:
            return Result([], [(0, self.reason)])
        found = [_range(each, allocations) for each in self.operands]
        missing = [] if None not in found else [(0, f"{self.name}: {OUTSIDE}")]
        return Result([each for each in found if each is not None], missing)

    @property
    def reason(self) -> str:
        return f"{self.name}: {self.problem}"


def _range(operand: Operand, allocations: Allocations) -> Range | None:
    if operand.last:
        ends = (0, operand.last - operand.first, operand.stride, operand.width)
        marks = (operand.overwritten, operand.scratch, operand.intermediate)
        return Range(operand.kind, None, None, operand.first, *ends, False, *marks)
    found = allocations(operand.first)
    if found is None:
        return None
    begin, end = found
    ends = (begin - operand.first, end - operand.first - 1, 0, 0)
    marks = (False, operand.scratch, operand.intermediate)
    return Range(operand.kind, None, None, operand.first, *ends, True, *marks)


def library_call(records: Records, row: int) -> LibraryCall | None:
    """What the records from `row` on, where a launch's parameters end, say of the call around it."""
    if row >= len(records) or records["kind"][row] != Kind.LIBRARY:
        return None
    number, count = int(records["library.call"][row]), int(records["library.ranges"][row])
    names = library_calls()
    name = names[number - 1] if 0 < number <= len(names) else f"library call {number}"
    other_gpus = bool(records["flags"][row] & Flag.OTHER_GPUS)
    ranges = records[row + 1 : row + 1 + count]
    if len(ranges) < count or (ranges["kind"] != Kind.RANGE).any():
        return LibraryCall(name, (), UNSAID, other_gpus)
    problem = _bytes(records, row + 1 + count, int(records["detail"][row])).decode(errors="replace")
    return LibraryCall(name, tuple(_operand(each) for each in ranges), problem, other_gpus)


def _operand(record: np.void) -> Operand:
    first, last = int(record["range.first"]), int(record["range.last"])
    detail = int(record["detail"])
    kind = _KINDS[(detail & constant("TSR_RECORD_RANGE_KIND")) % len(_KINDS)]
    flags = (bool(detail & flag) for flag in (RangeFlag.OVERWRITTEN, RangeFlag.SCRATCH, RangeFlag.INTERMEDIATE))
    return Operand(kind, first, last, int(record["range.stride"]), int(record["range.width"]), *flags)


def _bytes(records: Records, row: int, size: int) -> bytes:
    pieces = records[row : row - (-size // PIECE_BYTES)]
    return b"" if (pieces["kind"] != Kind.BYTES).any() else pieces["bytes"].tobytes()[:size]


def tensors(records: Records) -> dict[bytes, Tensor]:
    """The tensors that were described while the process ran, by their maps. Equal maps are of equal tensors."""
    found: dict[bytes, Tensor] = {}
    for row in np.flatnonzero(records["kind"] == Kind.TENSOR).tolist():
        rank = int(records["tensor.axes"][row])
        tensor_map = _bytes(records, row + 1, MAP_BYTES)
        axes = np.frombuffer(_bytes(records, row + 1 + MAP_PIECES, 16 * rank), np.uint64).reshape(-1, 2)
        if len(tensor_map) == MAP_BYTES and len(axes) == rank:
            address, size = int(records["tensor.address"][row]), int(records["tensor.element_bytes"][row])
            found[tensor_map] = Tensor(address, tuple(axes[:, 0].tolist()), tuple(axes[:, 1].tolist()), size)
    return found
