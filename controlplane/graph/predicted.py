"""The ranges of each launch of a recorded process, as its code and the library call around it say them.

Pointers that launches leave in memory are followed as `tessera analyze --trace` does. Launches that are alike while the
same memory is allocated have the same ranges.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from controlplane.analysis.allocations import Allocations
from controlplane.analysis.cache import Key
from controlplane.analysis.describe import UNKNOWN
from controlplane.analysis.functions import Functions
from controlplane.analysis.in_calls import refined
from controlplane.analysis.operands import LibraryCall, tensors
from controlplane.analysis.pointers import FOLLOWED, Kernel, Pointers
from controlplane.analysis.result import Analysis
from controlplane.analysis.traced import NO_CODE, TracedLaunch, Used, UsedFunction
from ptxtools.access.template import AccessKind
from ptxtools.ranges import Launch, Range, Result

NO_PARAMETERS = "its parameters were not recorded"


@dataclass(frozen=True, slots=True)
class Predicted:
    """ranges: hold all that it touches, if `unknown` is empty. scratch: ranges of the library call around it."""

    ranges: tuple[Range, ...]
    unknown: str
    scratch: tuple[Range, ...] = ()


class Predictor:
    """To be told of everything in the order of time."""

    def __init__(self, process: Used, analyses: Mapping[Key, Analysis], *, is_whole: bool) -> None:
        """is_whole: all launches of the process were recorded."""
        self.process, self.analyses = process, analyses
        self.tensor = tensors(process.records).get
        self.pointers = Pointers()
        self.functions = Functions(process, analyses)
        self.follows = is_whole and self.functions.have_pointers
        self.known: dict[TracedLaunch, Predicted] = {}

    def allocated(self) -> None:
        """What is allocated has changed."""
        self.known.clear()

    def changed(self, begin: int = 0, end: int = 0) -> None:
        """Something else than a launch wrote there; without an end, anywhere."""
        self.pointers.forget(begin, end or 1 << 64)

    def launch(self, launch: TracedLaunch, allocations: Allocations) -> Predicted:
        kernel = self.functions.kernel(self.process.functions[launch.function])
        by_memory = self.follows and (kernel is None or kernel.pointers or not self.pointers.is_empty)
        if not by_memory and launch in self.known:
            return self.known[launch]
        asked = Launch(launch.parameters, launch.grid, launch.block, allocations, tensor=self.tensor)
        by_code = self.by_code(kernel, launch, asked, allocations)
        by_call = launch.library.ranges(allocations) if launch.library is not None else None
        predicted = _chosen(by_code, by_call)
        if self.follows:
            self.pointers.after(kernel, asked, Result(list(predicted.ranges), [(0, UNKNOWN)] * bool(predicted.unknown)))
        if not by_memory:
            self.known[launch] = predicted
        return predicted

    def by_code(self, kernel: Kernel | None, launch: TracedLaunch, asked: Launch, allocations: Allocations) -> Result:
        if kernel is None:
            return Result([], [(0, self.reason(self.process.functions[launch.function]))])
        if kernel.needs_parameters and not launch.is_complete:
            return Result([], [(0, NO_PARAMETERS)])
        result = kernel.quick.evaluate(asked)
        if result.unknown:
            result = kernel.every.evaluate(asked)
        if self.follows and any(reason in FOLLOWED for _, reason in result.unknown):
            result = self.pointers.followed(kernel, asked, allocations)
        return result

    def reason(self, function: UsedFunction) -> str:
        analysis = self.analyses.get(function.key) if function.key is not None else None
        if analysis is None:
            return NO_CODE
        return min((each["reason"] for each in analysis.description["unknown"]), default=UNKNOWN)


def _chosen(by_code: Result, by_call: Result | None) -> Predicted:
    """What its code and the call around it say together, or the one that is known."""
    reasons = [*(by_call.unknown if by_call is not None else []), *by_code.unknown]
    if by_call is not None and by_call.unknown:
        by_call = None
    if by_call is not None and not by_code.unknown:
        scratch = tuple(each for each in by_call.ranges if each.scratch)
        return Predicted(tuple(refined(by_code, by_call).ranges), "", scratch)
    if not by_code.unknown:
        return Predicted(tuple(by_code.ranges), "")
    if by_call is not None:
        return Predicted(tuple(by_call.ranges), "")
    return Predicted((), reasons[0][1])


def same_call(one: LibraryCall | None, other: LibraryCall | None) -> bool:
    """Whether two launches of a thread, one after the other, may be of one call. Only its first work has marks."""
    return one is not None and other is not None and (one.name, _written(one)) == (other.name, _written(other))


def _written(call: LibraryCall) -> frozenset[tuple[int, int, int, int]]:
    written = (each for each in call.operands if each.kind is AccessKind.WRITE)
    return frozenset((each.first, each.last, each.stride, each.width) for each in written)
