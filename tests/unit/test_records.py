"""The layout of records: numpy's view and the enums against the C declaration."""

from enum import IntEnum, IntFlag
from typing import Any

import numpy as np
import pytest

from controlplane.observe.layout import (
    HEADER,
    EntryKind,
    Flag,
    Kind,
    Message,
    RangeFlag,
    constant,
    dtype,
    reason_name,
)
from ptxtools.errors import InternalError
from ptxtools.native import records


@pytest.fixture(autouse=True)
def _native(fake_native: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESSERA_NATIVE", str(fake_native))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (Kind, "tsr_record_kind"),
        (Flag, "tsr_record_flags"),
        (RangeFlag, "tsr_record_range"),
        (EntryKind, "tsr_entry_kind"),
        (Message, "tsr_records_message_kind"),
    ],
)
def test_enums_are_those_of_the_header(ours: type[IntEnum | IntFlag], theirs: str) -> None:
    ffi, _ = records.header(HEADER)
    declared = ffi.typeof(f"enum {theirs}").relements
    assert sorted(declared.values()) == sorted(int(member) for member in ours)
    for member in ours:
        assert [name for name, value in declared.items() if value == member and name.endswith(f"_{member.name}")]


@pytest.mark.parametrize("struct", ["tsr_record", "tsr_ring", "tsr_journal", "tsr_entry", "tsr_records_message"])
def test_numpy_reads_what_c_wrote(struct: str) -> None:
    """Every byte a value of its own; every column must show what cffi shows."""
    ffi, _ = records.header(HEADER)
    size = ffi.sizeof(f"struct {struct}")
    data = bytes(place * 7 % 251 + 1 for place in range(size))
    theirs: Any = ffi.from_buffer(f"struct {struct} *", data)[0]
    layout = dtype(struct)
    ours = np.frombuffer(data, layout)[0]
    assert layout.itemsize == size
    assert layout.names
    for name in layout.names:
        value: Any = theirs
        if struct == "tsr_record" and (name in ("attribute", "parameters", "bytes") or "." in name):
            value = theirs.u
        for part in name.split("."):
            value = getattr(value, part)
        if isinstance(ours[name], np.ndarray):
            assert ours[name].tolist() == list(value), name
        elif isinstance(ours[name], np.void):
            assert ours[name].tolist() == tuple(getattr(value, part) for part in ours[name].dtype.names or ()), name
        elif isinstance(ours[name], bytes):
            assert ours[name] == ffi.buffer(value)[:].rstrip(b"\0"), name
        else:
            assert int(ours[name]) == int(value), name


def test_constants() -> None:
    assert constant("TSR_JOURNAL_BYTES") == 64 << 20
    assert records.constant("#define A 0x10ull /* text */\n", "A", "x.h") == 16
    assert records.constant("#define AB 1\n#define A (3u << 2) /* text */\n", "A", "x.h") == 12
    with pytest.raises(InternalError, match=r"x\.h does not define A"):
        records.constant("#define A B\n", "A", "x.h")


def test_reasons_have_words() -> None:
    assert reason_name(16) == "memory_managed"
    assert reason_name(9999) == "reason 9999"
