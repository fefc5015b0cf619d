"""Launches on the emulated driver that decide whether ranges hold what a kernel touches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
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
    """`directory`: for traces. `predicted`: the ranges of a launch. `lacking`: traced bytes that they lacked."""

    def __init__(self, directory: Path, predicted: Callable[[Launch], Result]) -> None:
        self.directory, self.predicted = directory, predicted
        self.lacking = ""

    def ends(self, jobs: Sequence[str]) -> Iterator[End]:
        """What each launch showed, one after the other."""
        while jobs:
            ended = launched(jobs, self.directory, {}, _STALL_S)
            trace = self.directory / "trace"
            traces = launches(trace) if trace.exists() else iter(())
            for end in ended:
                yield End.NONE if end == "refused" else self.shown(next(traces, None), end == "right")
            if len(ended) < len(jobs):
                yield self.shown(next(traces, None), False)
            jobs = jobs[len(ended) + 1 :]

    def shown(self, traced: Traced | None, is_right: bool) -> End:
        lacking = traced is not None and missed(self.predicted(traced.launch), traced)
        if traced is not None and lacking:
            self.lacking = f"traced {lacking} of a launch of {traced.launch.grid} x {traced.launch.block}"
            return End.LACKS
        return End.HELD if is_right else End.NONE

    def decided(self, jobs: Iterable[str]) -> End:
        """What those of these show that come to their end."""
        held = 0
        for _, job in zip(range(_TRIED), jobs, strict=False):
            (end,) = self.ends([job])
            if end is End.LACKS:
                return end
            held += end is End.HELD
            if held == _ENOUGH:
                break
        return End.HELD if held else End.NONE


def missed(result: Result, traced: Traced) -> str:
    """Traced bytes outside of the ranges, "" for none; a launch with an unknown access may touch any."""
    for kind, intervals in traced.accesses.items():
        expected = union(piece for each in result.ranges if each.kind is kind for piece in spread(each))
        outside = [f"{begin:#x}..{end:#x}" for begin, end in intervals if not inside((begin, end), expected)]
        if outside and not result.unknown:
            return f"{kind.value} {', '.join(outside[:3])}"
    return ""
