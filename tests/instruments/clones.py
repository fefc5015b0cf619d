"""Jobs for clone_launcher.py: launches of kernels with their clones and the ranges that are predicted of each."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from controlplane.analysis.kernel import Image
from ptxtools.access.template import AccessKind
from ptxtools.clone import Clone
from ptxtools.clone.check import HEADER, VARIABLE, place_offset
from ptxtools.native import records
from ptxtools.ranges.launch import Launch, Range
from ptxtools.ranges.native import Evaluator
from tests.instruments.launcher import BUFFER_BYTES, BUFFERS, DISTANCE, FIRST

KINDS = tuple(AccessKind)
ARCHITECTURE = 90


@dataclass(frozen=True, slots=True)
class Seen:
    """What a clone's variable said: accesses of threads, and those outside; `line` and `kind` of one of these."""

    tested: int
    outside: int
    line: int
    kind: str

    @staticmethod
    def read(head: str) -> Seen:
        ffi, _ = records.header(HEADER)
        block: Any = ffi.from_buffer("struct tsr_clone_block *", bytes.fromhex(head))
        return Seen(int(block.tested), int(block.outside), block.what >> 2, KINDS[block.what & 3].value)


def read(data: bytes) -> Clone | None:
    """Of Clone.to_bytes; None without a text."""
    lines = iter(data.decode().split("\0"))
    head = list(iter(lambda: next(lines, ""), ""))
    text = next(lines, "")
    told = {mark: tuple(line[1:] for line in head if line[0] == mark) for mark in "!@="}
    return Clone(text, "".join(told["!"]), told["@"], told["="]) if text else None


class Clones:
    """Writes clones into a directory, each once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._known: dict[tuple[str, str], tuple[Path, Evaluator, tuple[str, ...]] | None] = {}

    def job(self, line: str, *, repeats: int = 0, blind: bool = False) -> str | None:
        """A job with its clone; None without one, or if the launch may touch anything. blind: nothing is predicted."""
        job = json.loads(line)
        found = self._clone(job["text"], job["function"])
        if found is None:
            return None
        clone, evaluator, names = found
        result = evaluator.evaluate(_launch(job))
        if result.unknown:
            return None
        table = [] if blind else [each for each in result.ranges if not each.whole or each.last >= each.first]
        if not blind and len(table) < len(result.ranges):
            return None
        more = {"clone": str(clone), "variable": VARIABLE, "table": _table(table).hex(), "repeats": repeats}
        based = [[row, each.variable] for row, each in enumerate(table) if each.variable in names]
        return json.dumps({**job, **more, "globals": names, "places": place_offset(0), "based": based})

    def _clone(self, text: str, function: str) -> tuple[Path, Evaluator, tuple[str, ...]] | None:
        if (text, function) not in self._known:
            found = Image(Path(text).read_bytes(), ARCHITECTURE, ptx_only=True, clones=True).analyse(function)
            known = None
            clone = read(found.clone)
            if clone is not None:
                file = self._directory / f"clone.{len(self._known)}.ptx"
                file.write_text(clone.text)
                known = file, Evaluator(found.template), clone.global_names
            self._known[text, function] = known
        return self._known[text, function]


def _launch(job: dict[str, Any]) -> Launch:
    block = bytearray(bytes.fromhex(job["values"]))
    for offset, number in job["pointers"].items():
        struct.pack_into("<Q", block, int(offset), FIRST + number * DISTANCE + BUFFER_BYTES // 2)
    return Launch(bytes(block), tuple(job["grid"]), tuple(job["block"]), _allocation)


def _allocation(address: int) -> tuple[int, int] | None:
    begin = address - (address - FIRST) % DISTANCE
    is_inside = FIRST <= address < FIRST + BUFFERS * DISTANCE and address < begin + BUFFER_BYTES
    return (begin, begin + BUFFER_BYTES) if is_inside else None


@cache
def _room() -> int:
    return records.constant(records.header(HEADER)[1], "TSR_CLONE_RANGES", HEADER)


def _table(ranges: list[Range]) -> bytes:
    """The variable's content. Errors: ValueError when there are too many ranges."""
    ffi, _ = records.header(HEADER)
    if len(ranges) > _room():
        raise ValueError(f"{len(ranges)} ranges are too many for a clone")
    block: Any = ffi.new("struct tsr_clone_block *")
    block.count = len(ranges)
    rows: Any = ffi.new("struct tsr_clone_range[]", max(len(ranges), 1))
    for to, each in zip(rows, ranges, strict=False):
        stride = each.stride if each.stride > each.width > 0 else 0
        to.low, to.high, to.stride, to.width = each.begin, each.end, stride, each.width if stride else 0
        to.kind = KINDS.index(each.kind)
    return bytes(ffi.buffer(block)) + bytes(ffi.buffer(rows))
