"""The functions that a trace's launches run, with the code that they are of, and those launches' parameters."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from controlplane.analysis.allocations import Allocations
from controlplane.analysis.analyst import Opened
from controlplane.analysis.cache import Key
from controlplane.analysis.operands import LibraryCall, library_call
from controlplane.analysis.task import Place
from controlplane.observe.layout import Kind, Records, driver_functions, joined
from controlplane.observe.trace import Trace, TracedProcess
from ptxtools.machine.consent import Consent, may_disassemble

NO_CODE = "its code was not recorded"
LOST_CODE = "its code's file has gone or changed"
MAPPINGS = ("cuMemMap", "cuMemMapArrayAsync")
_CHANGES = (Kind.COPY, Kind.MEMSET, Kind.GRAPH, Kind.HOST, Kind.CAPTURE)  # besides launches
_PIECE = re.compile(r"cuMem(?:cpy(?:HtoD|DtoD|DtoH|Peer)?|setD(?:8|16|32))(?:Async)?(?:_v\d+)?(?:_pt[ds][sz])?\Z")


@dataclass(frozen=True, slots=True)
class TracedLaunch:
    """`parameters`: empty if they were not recorded, or there are none. `library`: the library call around it."""

    function: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    parameters: bytes
    is_complete: bool
    device: int
    library: LibraryCall | None = None
    has_attributes: bool = False


@dataclass
class UsedFunction:
    """A function of one process. `key`: its code; None: it is not known."""

    name: str
    key: Key | None
    launches: int = 0


@dataclass
class Used:
    """What one process used, by the functions' numbers, and its launches in the order of time."""

    traced: TracedProcess
    records: Records = field(default_factory=lambda: joined([]))
    functions: dict[int, UsedFunction] = field(default_factory=dict)


def used(traced: TracedProcess, consent: Consent) -> Used:
    pieces = sorted(traced.pieces, key=lambda piece: (piece.ring, piece.first))
    result = Used(traced, joined([piece.records for piece in pieces]))
    launches = result.records[(result.records["kind"] == Kind.LAUNCH) & (result.records["result"] == 0)]
    numbers, counts = np.unique(launches["launch.function"], return_counts=True)
    own = set(traced.contexts.values()) or set(traced.architectures)  # GPUs that the program itself uses
    architectures = {of for gpu, of in traced.architectures.items() if gpu in own}
    architecture = architectures.pop() if len(architectures) == 1 else 0
    for number, count in zip(numbers.tolist(), counts.tolist(), strict=True):
        key = _key(traced, number, architecture, consent) if architecture else None
        result.functions[number] = UsedFunction(traced.function(number), key, count)
    return result


def _key(traced: TracedProcess, number: int, architecture: int, consent: Consent) -> Key | None:
    module = traced.modules.get(number, 0)
    code = traced.hashes.get(module, 0)
    place = traced.code.get(code)
    if place is None or number not in traced.functions:
        return None
    sources = tuple(traced.linked.get(code, []))
    emulated, name = traced.process.emulated, traced.functions[number]
    return Key(code, place.size, architecture, emulated, name, sources, may_disassemble(consent, traced.files[module]))


@dataclass(frozen=True, slots=True)
class Overwritten:
    """Memory that something else than a launch may have changed. `end` 0: any."""

    begin: int = 0
    end: int = 0


def events(of: Used) -> Iterator[tuple[TracedLaunch | Overwritten, Allocations]]:
    """In the order of time, each with what is allocated when it is called; the allocations are valid until the next."""
    records = of.records
    kinds = (Kind.LAUNCH, Kind.ALLOCATE, Kind.FREE, *_CHANGES)
    events = np.flatnonzero(np.isin(records["kind"], kinds) & (records["result"] == 0))
    events = events[np.argsort(records["start"][events], kind="stable")]
    names = driver_functions()
    mappings = {row for row, name in enumerate(names) if name in MAPPINGS}
    blocks = np.asarray(records["kind"] == Kind.PARAMETERS)
    allocations = Allocations()
    for row in events.tolist():
        record = records[row]
        kind = int(record["kind"])
        if kind == Kind.ALLOCATE:
            mapped = int(record["call"]) in mappings
            allocations.add(int(record["memory.address"]), int(record["memory.bytes"]), mapped=mapped)
        elif kind == Kind.FREE:
            begin, size = int(record["memory.address"]), int(record["memory.bytes"])
            _, end = allocations(begin) or (0, 0)
            allocations.remove(begin, size)
            yield Overwritten(begin, max(end, begin + size)), allocations
        elif kind == Kind.LAUNCH:
            yield launch_at(records, row, blocks), allocations
        else:
            yield _overwritten(record, names[int(record["call"])]), allocations


def launches(of: Used) -> Iterator[tuple[TracedLaunch, Allocations]]:
    """The launches among the events."""
    for event, allocations in events(of):
        if isinstance(event, TracedLaunch):
            yield event, allocations


def _overwritten(record: np.void, call: str) -> Overwritten:
    """What a copy or setting of memory changes, if it is a single piece; else, and of other operations, any memory."""
    if not _PIECE.match(call):
        return Overwritten()
    is_copy = int(record["kind"]) == Kind.COPY
    begin = int(record["copy.destination" if is_copy else "memset.address"])
    return Overwritten(begin, begin + int(record["copy.bytes" if is_copy else "memset.bytes"]))


def launch_at(records: Records, row: int, is_parameters: NDArray[np.bool_]) -> TracedLaunch:
    record = records[row]
    size = int(record["detail"])
    first = row + 1 + int(record["launch.attributes"])
    last = first + -(-size // 32)
    whole = last <= len(records) and bool(is_parameters[first:last].all())
    parameters = records["parameters"][first:last].tobytes()[:size] if whole else b""
    x, y, z = record["launch.grid"].tolist()
    width, height, depth = record["launch.block"].tolist()
    return TracedLaunch(
        int(record["launch.function"]),
        (x, y, z),
        (width, height, depth),
        int(record["launch.shared_bytes"]),
        parameters,
        whole and size > 0,
        int(record["launch.device"]),
        library_call(records, last if whole else row + 1),
        int(record["launch.attributes"]) > 0,
    )


class Images:
    """The code of a trace, opened where it lies when it is asked for; a context manager."""

    def __init__(self, trace: Trace) -> None:
        self._trace, self._stack = trace, ExitStack()
        self._opened: dict[int, Opened | None] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def of(self, process: TracedProcess, key: Key) -> list[Opened] | None:
        """The image and its sources; None when one of them is not there any more."""
        found = [self._open(process, each) for each in (key.code, *key.sources)]
        return [each for each in found if each is not None] if None not in found else None

    def _open(self, process: TracedProcess, code: int) -> Opened | None:
        if code not in self._opened:
            self._opened[code] = self._found(process, code)
        return self._opened[code]

    def _found(self, process: TracedProcess, code: int) -> Opened | None:
        place = process.code[code]
        try:
            if place.path:
                descriptor, offset = os.open(place.path, os.O_RDONLY | os.O_CLOEXEC), place.offset
            elif code in self._trace.code:
                descriptor, offset = os.memfd_create("tessera-code", os.MFD_CLOEXEC), 0
            else:
                return None
        except OSError:
            return None
        self._stack.callback(os.close, descriptor)
        if not place.path:
            with os.fdopen(os.dup(descriptor), "wb") as stream:
                stream.write(self._trace.code[code])
        return Opened(descriptor, Place(offset, place.size))
