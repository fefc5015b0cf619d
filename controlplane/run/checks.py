"""Checks of what launches touch as a layer of a run: what is asked of shims, and what they found (tessera/checks.h)."""

from __future__ import annotations

import os
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from controlplane.ipc.memory_file import memory_file, name_of
from controlplane.policy.language import Policy
from controlplane.run.launch import Change
from ptxtools import native
from ptxtools.native import records

HEADER = "checks.h"
SOURCES, SKIPS, LACKS = "enum tsr_check_source", "enum tsr_check_skip", "enum tsr_check_lack"
CLAIMS, OUTCOMES = "enum tsr_check_claim", "enum tsr_check_claims"
PREFIX = "TSR_CHECK_"
WRITES, ACCESSES = 1, 2  # enum tsr_check_what
KINDS = ("read", "write", "atomic")  # enum tsr_access_kind


@dataclass(frozen=True, slots=True)
class Asked:
    """One of `every` launches that are known, and the first of each function; `most` and memory_bytes: 0: no limit.

    writes, accesses: what is checked of them.
    """

    every: int = 1
    writes: bool = True
    accesses: bool = False
    seed: int = 0
    most: int = 0
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Argument:
    """A parameter of a kernel: its value as a number, or as hexadecimal bytes; None: not kept."""

    offset: int
    size: int
    value: int | str | None


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes that a launch was predicted to touch: from low to below high; of these `width` at each stride, 0: all.

    parameter: index of the one that holds the base, None: none does; whole: little is known but the allocation.
    """

    low: int
    high: int
    stride: int
    width: int
    parameter: int | None
    whole: bool


@dataclass(frozen=True, slots=True)
class Access:
    """That a thread made: `kind` is read, write or atomic; `line`: of the PTX that the program loaded, or its text in a
    fat binary. `accesses`: how many were outside of the prediction.
    """

    kind: str
    line: int
    accesses: int


@dataclass(frozen=True, slots=True)
class Violation:
    """A launch that touched what it was not predicted to: bytes that it changed, or an access if there is one.

    bytes: how many changed, or how many that access touches; address: of the first of them outside of the prediction;
    offset: in its allocation, None where there is none; before, after: its values, None of an access.
    parameter: index of the one that points into that allocation closest below, None: none does. code: hash of the image
    that the function is in, 16 hexadecimal digits. predicted_ranges: how many there are; predicted: the first of them.
    claim: `overwritten` or `scratch`: it needs what was in bytes that it was said not to, of which `claimed` are some;
    then these bytes came out otherwise, as `after` and not as `before`, when that had other values.
    """

    function: str
    library_call: str | None
    source: str
    process: int
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared_bytes: int
    parameters: tuple[Argument, ...]
    address: int
    bytes: int
    allocation: int | None
    allocation_bytes: int | None
    offset: int | None
    parameter: int | None
    before: int | None
    after: int | None
    access: Access | None
    code: str
    predicted_ranges: int
    predicted: tuple[Range, ...]
    claim: str | None = None
    claimed: Range | None = None


@dataclass(frozen=True, slots=True)
class Untested:
    """A function of which launches whose turn it was were not tested, or not in all they do: a reason as in `untested`,
    and `why` in words.
    """

    function: str
    process: int
    reason: str
    why: str
    launches: int


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What came out; the names of all fields are keys of the JSON output and stay.

    known, unknown: launches on the home GPU of which something, or nothing, is known. checked: of the known ones;
    by_source: the same by where the prediction is from; first: of these, only because they were the first of their
    function; whole: with a write that is only known as its allocation; outside: with a predicted write to memory that
    is not looked at; idle: that changed no byte. skipped: launches that were not checked although it was their turn, by
    reason. changed_bytes: as predicted; predicted_bytes: that may be written; looked_at_bytes: of the program's memory,
    sums over the checked ones, as is check_ns, the time they took. tested_launches: of the checked ones, whose accesses
    were tested; tested: accesses of threads in those; untested: launches whose accesses could not be, by reason, or not
    all (`partly`); claims: launches with bytes that they are said to overwrite or to use as scratch, by what became of
    them: `tested`, `untested`, `unsteady`; filled_bytes: with other values to test them. untested_functions: how many
    functions they are of, once per process and reason, and told_untested: the first of them.
    """

    every: int
    seed: int
    writes: bool
    accesses: bool
    known: int
    unknown: int
    checked: int
    by_source: dict[str, int]
    first: int
    whole: int
    outside: int
    idle: int
    skipped: dict[str, int]
    changed_bytes: int
    predicted_bytes: int
    looked_at_bytes: int
    check_ns: int
    claims: dict[str, int]
    filled_bytes: int
    tested_launches: int
    tested: int
    untested: dict[str, int]
    untested_functions: int
    told_untested: tuple[Untested, ...]
    violations: int
    told: tuple[Violation, ...]


class Checks:
    """The file that shims count in, from entering the context to leaving it."""

    def __init__(self, asked: Asked) -> None:
        ffi, text = records.header(HEADER)
        table: Any = ffi.new("struct tsr_checks *")
        table.magic = records.constant(text, "TSR_CHECKS_MAGIC", HEADER)
        table.version = records.constant(text, "TSR_CHECKS_VERSION", HEADER)
        table.bytes = ffi.sizeof(table[0])
        table.every, table.seed, table.most, table.memory_bytes = (
            asked.every,
            asked.seed,
            asked.most,
            asked.memory_bytes,
        )
        table.what = WRITES * asked.writes | ACCESSES * asked.accesses
        self._file = memory_file("tessera-checks", ffi.sizeof(table[0]))
        os.pwrite(self._file, bytes(ffi.buffer(table)), 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)

    def change(self, policy: Policy) -> Change:
        """What the program needs besides the shim under this policy."""
        marks = () if policy.marks_library_calls else (native.file("shim/libtessera_calls.so"),)
        return Change(variables={"TESSERA_CHECKS": name_of(self._file)}, preload=marks)

    def report(self) -> CheckReport:
        """So far; may be asked while the program runs and afterwards."""
        return read(os.pread(self._file, os.fstat(self._file).st_size, 0))


def read(data: bytes) -> CheckReport:
    """A table of checks."""
    ffi, _ = records.header(HEADER)
    table: Any = ffi.from_buffer("struct tsr_checks *", data)
    told = [table.told[i] for i in range(min(int(table.violations), len(table.told)))]
    untested = [table.told_untested[i] for i in range(min(int(table.untested_functions), len(table.told_untested)))]
    plain = ("every", "seed", "known", "unknown", "checked", "first", "whole", "outside", "idle", "violations")
    lengths = ("changed_bytes", "predicted_bytes", "looked_at_bytes", "filled_bytes")
    sums = (*lengths, "check_ns", "tested_launches", "tested")
    return CheckReport(
        **{name: int(getattr(table, name)) for name in (*plain, *sums)},
        by_source=_by_name(table.checked_by_source, SOURCES),
        writes=bool(table.what & WRITES),
        accesses=bool(table.what & ACCESSES),
        skipped=_without_zeros(table.skipped, SKIPS),
        claims=_without_zeros(table.claims, OUTCOMES, "claims_"),
        untested=_without_zeros(table.untested, LACKS),
        untested_functions=int(table.untested_functions),
        told_untested=tuple(_untested(each) for each in untested if each.ready),
        told=tuple(_violation(each) for each in told if each.ready),
    )


def _by_name(counters: Any, enumeration: str) -> dict[str, int]:
    return {_name(enumeration, number): int(counters[number]) for number in range(len(counters))}


def _without_zeros(counters: Any, enumeration: str, prefix: str = "") -> dict[str, int]:
    return {name.removeprefix(prefix): count for name, count in _by_name(counters, enumeration).items() if count}


def _name(enumeration: str, number: int) -> str:
    ffi, _ = records.header(HEADER)
    names: dict[int, str] = ffi.typeof(enumeration).elements
    return names[number].removeprefix(PREFIX).lower()


def _untested(told: Any) -> Untested:
    why = _text(told.why)
    return Untested(_text(told.function), told.process, _name(LACKS, told.lack), why, int(told.launches))


def _violation(told: Any) -> Violation:
    parameters = tuple(_argument(told, i) for i in range(min(told.parameter_count, len(told.parameters))))
    allocation = int(told.allocation) or None
    return Violation(
        _text(told.function),
        _text(told.library_call) or None,
        _name(SOURCES, told.source),
        told.process,
        tuple(told.grid),
        tuple(told.block),
        told.shared_bytes,
        parameters,
        told.address,
        told.bytes,
        allocation,
        None if allocation is None else told.allocation_bytes,
        None if allocation is None else told.address - allocation,
        None if allocation is None else _nearest(parameters, allocation, told.address),
        None if told.access else told.before,
        None if told.access else told.after,
        Access(KINDS[told.access - 1], told.line, int(told.accesses)) if told.access else None,
        f"{int(told.code):016x}",
        told.predicted_count,
        tuple(_range(told.predicted[i]) for i in range(min(told.predicted_count, len(told.predicted)))),
        _name(CLAIMS, told.claim).removeprefix("claim_") if told.claim else None,
        _range(told.claimed) if told.claim else None,
    )


def _range(told: Any) -> Range:
    parameter = None if told.parameter < 0 else int(told.parameter)
    return Range(told.low, told.high, told.stride, told.width, parameter, bool(told.whole))


def _text(field: Any) -> str:
    ffi, _ = records.header(HEADER)
    data: Any = ffi.string(field)
    return bytes(data).decode(errors="replace")


def _argument(told: Any, index: int) -> Argument:
    offset, size = told.parameters[index].offset, told.parameters[index].bytes
    if offset + size > min(told.parameter_bytes, len(told.values)):
        return Argument(offset, size, None)
    data = bytes(told.values[offset : offset + size])
    return Argument(offset, size, int.from_bytes(data, "little") if size <= 8 else data.hex())


def _nearest(parameters: tuple[Argument, ...], allocation: int, address: int) -> int | None:
    pointers = {i: each.value for i, each in enumerate(parameters) if isinstance(each.value, int)}
    inside = {i: value for i, value in pointers.items() if allocation <= value <= address}
    return max(inside, key=lambda i: inside[i], default=None)
