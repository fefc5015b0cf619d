"""Launches on the emulated driver that decide whether ranges hold what a kernel touches."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from pathlib import Path

from ptxtools.ranges import Launch, Result
from tests.analysis.campaign import launched
from tests.analysis.oracle import Traced, inside, launches, spread, union

_STALL_S = 5.0
_TRIED = 20
_ENOUGH = 3  # launches that came to their end


class End(Enum):
    """What a launch showed: that the ranges lack a byte, that they hold all, or nothing, as it did not end."""

    LACKS = "lacks"
    HELD = "held"
    NONE = "none"


class Trials:
    """`directory`: for traces. `predicted`: the ranges of a launch."""

    def __init__(self, directory: Path, predicted: Callable[[Launch], Result]) -> None:
        self.directory, self.predicted = directory, predicted

    def run(self, job: str) -> End:
        ends = launched([job], self.directory, {}, _STALL_S)
        trace = self.directory / "trace"
        if not all(holds(self.predicted(each.launch), each) for each in (launches(trace) if trace.exists() else ())):
            return End.LACKS
        return End.HELD if ends == ["right"] else End.NONE

    def decided(self, jobs: Iterable[str]) -> End:
        """What those of these show that come to their end."""
        held = 0
        for _, job in zip(range(_TRIED), jobs, strict=False):
            end = self.run(job)
            if end is End.LACKS:
                return end
            held += end is End.HELD
            if held == _ENOUGH:
                break
        return End.HELD if held else End.NONE


def holds(result: Result, traced: Traced) -> bool:
    """Whether every traced byte is in the ranges."""
    for kind, intervals in traced.accesses.items():
        expected = union(piece for each in result.ranges if each.kind is kind for piece in spread(each))
        if not all(inside(each, expected) for each in intervals):
            return False
    return True
