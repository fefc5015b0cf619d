"""Records (tessera/records.h) as numpy sees them: structured types derived from the one declaration, and its enums.

The members of a record's union become columns named `member.field`, all at their offsets in the same 64 bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import IntEnum, IntFlag
from functools import cache
from typing import TypeAlias

import numpy as np
from cffi import FFI
from numpy.typing import NDArray

from ptxtools import native
from ptxtools.native import records

HEADER = "records.h"
GPUS = 16
HOST_CLOCK, OWN_CLOCK = 0, 1  # enum tsr_gpu_clock
CUT_OFF_TICKS = 2**32 - 1
Records: TypeAlias = NDArray[np.void]


class Kind(IntEnum):
    """enum tsr_record_kind."""

    CALL = 1
    THREAD = 2
    LAUNCH = 3
    ATTRIBUTE = 4
    GRAPH = 5
    COPY = 6
    MEMSET = 7
    ALLOCATE = 8
    FREE = 9
    MODULE = 10
    STREAM = 11
    EVENT_RECORD = 12
    EVENT_WAIT = 13
    HOST = 14
    SYNCHRONIZE = 15
    CAPTURE = 16
    TIME = 17
    PARAMETERS = 18
    LIBRARY = 19
    RANGE = 20
    TENSOR = 21
    BYTES = 22
    PULL = 23


class Flag(IntFlag):
    """enum tsr_record_flags."""

    CAPTURED = 1
    REDIRECTED = 2
    KEPT_HOME = 4
    BLOCKING = 8
    COOPERATIVE = 16
    UNDERSTOOD = 32
    OTHER_GPUS = 64


class RangeFlag(IntFlag):
    """enum tsr_record_range."""

    OVERWRITTEN = 256
    SCRATCH = 512
    INTERMEDIATE = 1024


class EntryKind(IntEnum):
    """enum tsr_entry_kind."""

    FUNCTION = 1
    MODULE = 2
    CONTEXT = 3
    DEVICE = 4


class Message(IntEnum):
    """enum tsr_records_message_kind."""

    HELLO = 1
    RING = 2
    CODE = 3


def _columns(ctype: FFI.CType, name: str, offset: int) -> Iterator[tuple[str, object, int]]:
    if ctype.kind == "union":
        for member, field in ctype.fields:
            if field.type.kind == "struct":
                for part, inner in field.type.fields:
                    yield from _columns(inner.type, f"{member}.{part}", offset + inner.offset)
            else:
                yield from _columns(field.type, member, offset + field.offset)
    else:
        yield name, _format(ctype), offset


def _format(ctype: FFI.CType) -> object:
    if ctype.kind == "array":
        return (_format(ctype.item), (ctype.length,))
    if ctype.kind == "struct":
        return _struct(ctype)
    name = ctype.cname
    match = re.fullmatch(r"(u?)int(\d+)_t", name)
    if match:
        return f"{'u' if match[1] else 'i'}{int(match[2]) // 8}"
    return "S1"


def _struct(ctype: FFI.CType) -> np.dtype[np.void]:
    columns = [column for name, field in ctype.fields for column in _columns(field.type, name, field.offset)]
    size = records.header(HEADER)[0].sizeof(ctype.cname)
    names, formats, offsets = zip(*columns, strict=True)
    return np.dtype({"names": list(names), "formats": list(formats), "offsets": list(offsets), "itemsize": size})


@cache
def dtype(struct: str) -> np.dtype[np.void]:
    """The numpy type of `struct NAME` of records.h."""
    ffi, _ = records.header(HEADER)
    return _struct(ffi.typeof(f"struct {struct}"))


@cache
def constant(name: str) -> int:
    """The value of `#define NAME` of records.h."""
    _, text = records.header(HEADER)
    return records.constant(text, name, HEADER)


def joined(pieces: Sequence[Records]) -> Records:
    """One array of the records of all. (Concatenating the structured type would unfold its unions.)"""
    layout = dtype("tsr_record")
    opaque = np.dtype((np.void, layout.itemsize))
    return np.concatenate([np.empty(0, opaque), *(piece.view(opaque) for piece in pieces)]).view(layout)


def reason_name(reason: int) -> str:
    """Why a launch stayed home, in the words of enum tsr_reason."""
    ffi, _ = records.header(HEADER)
    names = ffi.typeof("enum tsr_reason").elements
    return names[reason].removeprefix("TSR_REASON_").lower() if reason in names else f"reason {reason}"


@cache
def _pull_causes() -> dict[int, str]:
    ffi, _ = records.header("policy.h")
    names: dict[int, str] = ffi.typeof("enum tsr_pull_cause").elements
    return {number: name.removeprefix("TSR_PULL_").lower() for number, name in names.items()}


def pull_cause(cause: int) -> str:
    """Why bytes were pulled from another GPU's copy, in the words of enum tsr_pull_cause."""
    return _pull_causes().get(cause, f"cause {cause}")


@cache
def driver_functions() -> tuple[str, ...]:
    """Names of the driver's functions by their row in the driver table, as `call` in records counts them."""
    text = native.file("driver.def").read_text()
    return tuple(re.findall(r"^TSR_DRIVER\w*\((cu\w+)", text, re.MULTILINE))


def call_name(call: int) -> str:
    """A driver function by its row; one of no row is called by its number."""
    names = driver_functions()
    return names[call] if call < len(names) else f"call {call}"
