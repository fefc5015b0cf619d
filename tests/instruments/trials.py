"""Launches on the emulated driver that decide whether ranges hold what a kernel touches."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import Any

from ptxtools.access.template import AccessKind
from ptxtools.ranges import Launch, Result
from tests.instruments.campaign import launched
from tests.instruments.oracle import Interval, Traced, inside, launches, spread, union
from tests.instruments.undefined import filled

_STALL_S = 5.0
_TRIED = 20
_ENOUGH = 3  # launches that came to their end, or took too long
_PATTERNS = ("00", "ff", "a7193cf05e")  # of what lies in memory
_BYTES = (0x00, 0x5A, 0xFF)  # of what registers hold


class End(Enum):
    """What a launch showed: that the ranges lack a byte, that they hold all, that they lack only bytes that it reads
    and does not use (`unused`), that what it does depends on registers without a value (`open`), or nothing, as it did
    not end.
    """

    LACKS = "lacks"
    HELD = "held"
    UNUSED = "unused"
    OPEN = "open"
    NONE = "none"


class Trials:
    """`directory`: for traces. `predicted`: the ranges of a launch. `lacking`: traced bytes that they lacked.

    `late`: how many launches took too long.
    """

    def __init__(self, directory: Path, predicted: Callable[[Launch], Result]) -> None:
        self.directory, self.predicted = directory, predicted
        self.lacking, self.late = "", 0

    def ends(self, jobs: Sequence[str]) -> Iterator[End]:
        """What each launch showed, one after the other."""
        while jobs:
            made = self.made(jobs)
            for job, (end, traced) in zip(jobs, made, strict=False):
                yield self.shown(job, end, traced)
            jobs = jobs[len(made) :]

    def made(self, jobs: Sequence[str]) -> list[tuple[str, Traced | None]]:
        """How launches ended and what was traced of them, up to the first that takes too long ("late")."""
        ended = launched(jobs, self.directory, {}, _STALL_S)
        trace = self.directory / "trace"
        traces = launches(trace) if trace.exists() else iter(())
        late = ["late"] if len(ended) < len(jobs) else []
        self.late += len(late)
        return [(end, None if end == "refused" else next(traces, None)) for end in [*ended, *late]]

    def shown(self, job: str, end: str, traced: Traced | None) -> End:
        lacking = traced is not None and missed(self.predicted(traced.launch), traced)
        if traced is None or not lacking:
            return End.HELD if end == "right" else End.NONE
        if end in ("right", "failed"):
            if self.is_unused(job, traced):
                return End.UNUSED
            if self.is_open(job, traced):
                return End.OPEN
        self.lacking = f"traced {said(lacking)} of a launch of {traced.launch.grid} x {traced.launch.block}"
        return End.LACKS

    def is_unused(self, job: str, traced: Traced) -> bool:
        """Whether a launch does the same, and leaves the same, whatever lies in the bytes that it reads and the ranges
        lack: where a value is used on one way only, machine code may load it there.
        """
        result = self.predicted(traced.launch)
        lacking = missed(result, traced)
        if lacking.keys() != {AccessKind.READ}:
            return False
        spoilt = lacking[AccessKind.READ]
        common = {**same_memory(job, traced), "digest": left_by(traced)}
        spoils = [{"spoil": spoilt, "pattern": pattern} for pattern in _PATTERNS]
        made = self.made([json.dumps({**common, **each}) for each in ({}, *spoils)])
        first, begun = made[0]
        return (
            begun is not None
            and "=" in first
            and all(inside(each, spoilt) for found in missed(result, begun).values() for each in found)
            and all(end == first and each and is_same(each, begun) for end, each in made)
        )

    def is_open(self, job: str, traced: Traced) -> bool:
        """Whether what a launch touches depends on what registers hold that nothing was written to."""
        common = same_memory(job, traced)
        source, name = Path(common["text"]).read_text(), common["function"]
        files = [self.directory / f"filled.{byte:02x}.ptx" for byte in _BYTES]
        for byte, file in zip(_BYTES, files, strict=True):
            file.write_text(filled(source, name, byte))
        made = [each for _, each in self.made([json.dumps({**common, "text": str(file)}) for file in files])]
        return any(one and other and not is_same(one, other) for one, other in pairwise(made))

    def decided(self, jobs: Iterable[str]) -> End:
        """What those of these show that come to their end."""
        held, most = 0, self.late + _ENOUGH
        for _, job in zip(range(_TRIED), jobs, strict=False):
            (end,) = self.ends([job])
            if end is End.LACKS:
                return end
            held += end in (End.HELD, End.UNUSED, End.OPEN)
            if held == _ENOUGH or self.late >= most:
                break
        return End.HELD if held else End.NONE


def left_by(traced: Traced) -> list[Interval]:
    return [*traced.accesses[AccessKind.WRITE], *traced.accesses[AccessKind.ATOMIC]]


def same_memory(job: str, traced: Traced) -> dict[str, Any]:
    """The job, with the same bytes in memory each time."""
    return {**json.loads(job), "clear": left_by(traced), "seed": 1}


def is_same(one: Traced, other: Traced) -> bool:
    """Whether two launches touched the same and stopped, if they did, at the same."""
    return one.accesses == other.accesses and one.fault == other.fault


def missed(result: Result, traced: Traced) -> dict[AccessKind, list[Interval]]:
    """Traced bytes outside of the ranges; none of a launch with an unknown access, which may touch any."""
    found: dict[AccessKind, list[Interval]] = {}
    for kind, intervals in traced.accesses.items():
        expected = union(piece for each in result.ranges if each.kind is kind for piece in spread(each))
        outside = [each for each in intervals if not inside(each, expected)]
        if outside and not result.unknown:
            found[kind] = outside
    return found


def said(lacking: dict[AccessKind, list[Interval]]) -> str:
    kind, intervals = next(iter(lacking.items()))
    return f"{kind.value} {', '.join(f'{begin:#x}..{end:#x}' for begin, end in intervals[:3])}"
