"""How many launches of a trace have known ranges, and why the others have not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from controlplane.analysis.allocations import Allocations
from controlplane.analysis.analyst import Analyst
from controlplane.analysis.cache import Key
from controlplane.analysis.describe import UNKNOWN, Description, unknown_description
from controlplane.analysis.functions import Functions
from controlplane.analysis.in_calls import refined
from controlplane.analysis.observed import TIER as OBSERVED
from controlplane.analysis.observed import Observations
from controlplane.analysis.operands import tensors
from controlplane.analysis.pointers import FOLLOWED, Kernel, Pointers
from controlplane.analysis.result import Analysis
from controlplane.analysis.traced import LOST_CODE, NO_CODE, Images, TracedLaunch, Used, UsedFunction, events, used
from controlplane.base.demangle import is_named
from controlplane.base.progress import Progress
from controlplane.observe.trace import Trace
from ptxtools.access import flat
from ptxtools.access.template import AccessKind
from ptxtools.machine.consent import Consent
from ptxtools.ranges import Launch, Range, Result

Left: TypeAlias = "Callable[[UsedFunction, TracedLaunch, Allocations], None]"

EVALUATED = 64  # different launches of a function whose ranges are looked at, by default
WAIT_SECONDS = 3600.0
LIBRARY, TENSOR_MAP, MEMORY = "library", "tensor map", "pointers in memory"  # tiers besides those of descriptions


@dataclass
class Evaluated:
    """Launches whose ranges were computed. `ranges`: how many there were; `whole`: of the launches, those with a range
    that is only known as its allocation; `unplaced`: those of them whose pointer is not 0 and lies in no allocation of
    the trace, so that they are taken to touch nothing through it; `unknown`: those that may touch anything, by reason;
    `followed`: those that are known because earlier launches stored the pointers that they load. `written_bytes`: of
    those that are known, what they may write, atomics included, but for scratch and what the library call around them
    has overwritten before; `overwritten_bytes`: what of it they write in any case.
    """

    launches: int = 0
    ranges: int = 0
    whole: int = 0
    unplaced: int = 0
    predicted_bytes: int = 0
    written_bytes: int = 0
    overwritten_bytes: int = 0
    unknown: Counter[str] = field(default_factory=Counter)
    followed: int = 0

    @property
    def known(self) -> int:
        return self.launches - self.unknown.total()

    def add(self, result: Result) -> None:
        self.launches += 1
        self.ranges += len(result.ranges)
        self.whole += any(each.whole for each in result.ranges)
        self.unplaced += any(each.whole and each.base and each.first > each.last for each in result.ranges)
        self.predicted_bytes += sum(map(_size, result.touched))
        if result.unknown:
            self.unknown[result.unknown[0][1]] += 1
            return
        written = (each for each in result.touched if each.kind is not AccessKind.READ)
        self.written_bytes += sum(_size(each) for each in written if not each.scratch and not each.intermediate)
        self.overwritten_bytes += sum(_size(each) for each in result.ranges if each.overwritten)


@dataclass
class FunctionCoverage:
    """A function over all processes of a trace. `launches`: of the trace; `by_code`: those that were evaluated from the
    function's code, and others like these count as they do; `by_call`: all those in calls of NVIDIA's libraries, from
    the calls' operands, which say what code leaves unknown; `by_probe`: of those that code leaves unknown, from what
    was observed of launches like them. `code`: the tier of what its code says.
    """

    description: Description
    launches: int = 0
    code: str = UNKNOWN
    by_code: Evaluated = field(default_factory=Evaluated)
    by_call: Evaluated = field(default_factory=Evaluated)
    by_probe: Evaluated = field(default_factory=Evaluated)

    @property
    def name(self) -> str:
        return self.description["name"]

    @property
    def static_reasons(self) -> list[str]:
        return sorted({each["reason"] for each in self.description["unknown"]})

    @property
    def known_by_code(self) -> int:
        """Where no launch was evaluated, all launches of a function without unknown accesses."""
        if self.by_code.launches:
            return round(self.launches * self.by_code.known / self.by_code.launches)
        return 0 if self.static_reasons else self.launches

    @property
    def known_by_call(self) -> int:
        """Those that code does not say."""
        return round(self.by_call.known * (1 - self.known_by_code / self.launches)) if self.launches else 0

    @property
    def known_by_probe(self) -> int:
        """Those that neither code nor calls say."""
        lost = self.launches - self.known_by_code - self.known_by_call
        return round(lost * self.by_probe.known / self.by_probe.launches) if self.by_probe.launches else 0

    @property
    def known_launches(self) -> int:
        return self.known_by_code + self.known_by_call + self.known_by_probe

    @property
    def evaluated(self) -> Evaluated:
        """In the way that says most of its launches."""
        ways = (
            (self.known_by_code, self.by_code),
            (self.known_by_call, self.by_call),
            (self.known_by_probe, self.by_probe),
        )
        return max(ways, key=lambda way: way[0])[1]

    @property
    def tier(self) -> str:
        tiers = self.by_tier()
        return max(tiers, key=lambda tier: (tiers[tier], tier)) if tiers else self.description["tier"]

    def by_tier(self) -> Counter[str]:
        through = round(self.known_by_code * self.by_code.followed / max(self.by_code.known, 1))
        known = Counter({self.code: self.known_by_code - through})
        known[MEMORY] += through
        known[LIBRARY] += self.known_by_call
        known[OBSERVED] += self.known_by_probe
        known[UNKNOWN] += self.launches - self.known_launches
        return +known

    def reasons(self) -> Counter[str]:
        """Launches by the first reason why they are unknown: that of the library call around them comes first."""
        lost = self.launches - self.known_launches
        in_calls = min(lost, self.by_call.unknown.total())
        others = self.by_code.unknown or Counter([*self.static_reasons, UNKNOWN][:1])
        return _spread(in_calls, self.by_call.unknown) + _spread(lost - in_calls, others)


def _spread(total: int, shares: Counter[str]) -> Counter[str]:
    return +Counter({reason: round(total * count / shares.total()) for reason, count in shares.items()})


@dataclass
class Coverage:
    """Of a trace, functions with the most launches first. `lost`: launches that were counted and not recorded."""

    functions: list[FunctionCoverage]
    cached: int = 0
    analysed: int = 0
    lost: int = 0

    @property
    def launches(self) -> int:
        return sum(each.launches for each in self.functions)

    @property
    def known_launches(self) -> int:
        return sum(each.known_launches for each in self.functions)

    @property
    def share(self) -> float:
        return self.known_launches / self.launches if self.launches else 1.0

    @property
    def overwritten_share(self) -> float | None:
        """Of the bytes that known launches may write; None when they write nothing."""
        ways = [(each.evaluated, each.launches) for each in self.functions if each.evaluated.launches]
        written = sum(way.written_bytes * launches / way.launches for way, launches in ways)
        overwritten = sum(way.overwritten_bytes * launches / way.launches for way, launches in ways)
        return min(overwritten / written, 1.0) if written else None

    def by_tier(self) -> Counter[str]:
        return sum((each.by_tier() for each in self.functions), Counter[str]())

    def by_reason(self) -> Counter[str]:
        return sum((each.reasons() for each in self.functions), Counter[str]())


def measure(
    trace: Trace,
    analyst: Analyst,
    pattern: str = "*",
    most: int = EVALUATED,
    consent: Consent = Consent.OPEN,
    say: Callable[[str], None] = lambda _: None,
    observations: Observations | None = None,
) -> Coverage:
    """Analyses the functions that match, and evaluates up to `most` different launches of each.

    observations: of what the analysis leaves unknown; None: they are not to be used.
    """
    processes = [used(traced, consent) for traced in trace.processes]
    with Images(trace) as images:
        analyses = analyse_all(processes, images, analyst, pattern, say)
    found: dict[tuple[str, Key | None], FunctionCoverage] = {}
    for process in processes:
        count(process, analyses, found, pattern)
        if most:
            Evaluation(process, analyses, found, most, _observed(found, observations)).run()
    functions = sorted(found.values(), key=lambda each: (-each.launches, each.name))
    return Coverage(functions, analyst.cached, analyst.made, sum(_lost(process) for process in processes))


def _lost(process: Used) -> int:
    counters = process.traced.counters
    recorded = sum(function.launches for function in process.functions.values())
    return max(sum(counters.launches) + counters.captured - recorded, 0)


def analyse_all(
    processes: Iterable[Used], images: Images, analyst: Analyst, pattern: str, say: Callable[[str], None]
) -> dict[Key, Analysis]:
    found: dict[Key, Analysis] = {}
    missing: dict[Key, Used] = {}
    for process in processes:
        for function in process.functions.values():
            key = function.key
            if key is None or key in found or key in missing or not is_named(function.name, pattern):
                continue
            analysis = analyst.remembered(key)
            if analysis is None:
                missing[key] = process
            else:
                found[key] = analysis
    if missing:
        say(f"{len(missing)} functions are not in the cache and are analysed now")
    with Progress("functions analysed", len(missing)) as progress:

        def keep(key: Key, analysis: Analysis) -> None:
            found[key] = analysis
            progress.step()

        for key, process in missing.items():
            opened = images.of(process.traced, key)
            if opened is None:
                keep(key, Analysis(unknown_description(key.function, LOST_CODE)))
            else:
                analyst.make(key, opened, partial(keep, key))
        analyst.pool.wait(WAIT_SECONDS)
        analyst.pool.finish()
    return found


def count(
    process: Used, analyses: dict[Key, Analysis], found: dict[tuple[str, Key | None], FunctionCoverage], pattern: str
) -> None:
    for function in process.functions.values():
        if not is_named(function.name, pattern):
            continue
        at = (function.name, function.key)
        if at not in found:
            analysis = analyses.get(function.key) if function.key is not None else None
            if analysis is None:
                analysis = Analysis(unknown_description(function.name, NO_CODE))
            found[at] = FunctionCoverage(analysis.description, code=_tier(analysis.template))
        found[at].launches += function.launches


def _tier(template: bytes) -> str:
    if not template:
        return UNKNOWN
    return TENSOR_MAP if flat.tensors(template) else flat.tier(template).word


def _observed(found: dict[tuple[str, Key | None], FunctionCoverage], observations: Observations | None) -> Left | None:
    def look(function: UsedFunction, launch: TracedLaunch, allocations: Allocations) -> None:
        if observations is not None and function.key is not None:
            result = observations.result(function.key, launch, allocations)
            found[function.name, function.key].by_probe.add(result)

    return None if observations is None else look


class Evaluation:
    """The launches of a process in the order of time, up to `most` of each function's. What launches leave in memory
    is followed if all of them were recorded.

    left: told of the different launches among them that neither their code nor a library call says.
    """

    def __init__(
        self,
        process: Used,
        analyses: dict[Key, Analysis],
        found: dict[tuple[str, Key | None], FunctionCoverage],
        most: int,
        left: Left | None = None,
    ) -> None:
        self.process, self.found, self.most = process, found, most
        self.left, self.told = left, dict[int, set[TracedLaunch]]()
        self.seen: dict[int, set[TracedLaunch]] = {}
        self.tensor = tensors(process.records).get
        self.pointers = Pointers()
        self.functions = Functions(process, analyses)
        self.follows = not _lost(process) and self.functions.have_pointers

    def run(self) -> None:
        for event, allocations in events(self.process):
            if isinstance(event, TracedLaunch):
                self.launch(event, allocations)
            elif event.end:
                self.pointers.forget(event.begin, event.end)
            else:
                self.pointers.forget()

    def launch(self, launch: TracedLaunch, allocations: Allocations) -> None:
        function = self.process.functions[launch.function]
        coverage = self.found.get((function.name, function.key))
        kernel = self.functions.kernel(function)
        if kernel is not None and kernel.needs_parameters and not launch.is_complete:
            kernel = None
        by_call = launch.library.ranges(allocations) if launch.library is not None else None
        if coverage is not None and by_call is not None:
            coverage.by_call.add(by_call)
        asked = Launch(launch.parameters, launch.grid, launch.block, allocations, tensor=self.tensor)
        result = Result([], [(0, UNKNOWN)])
        is_wanted = coverage is not None and kernel is not None and self.is_wanted(launch, kernel)
        if coverage is not None and kernel is not None and is_wanted:
            result = self.evaluated(kernel, asked, allocations, coverage.by_code, by_call)
        elif kernel is not None and self.follows and (kernel.pointers or not self.pointers.is_empty):
            result = kernel.quick.evaluate(asked)
        if self.follows:
            self.pointers.after(kernel, asked, by_call if result.unknown and by_call is not None else result)
        is_left = result.unknown and (by_call is None or by_call.unknown) and (is_wanted or kernel is None)
        if self.left is not None and coverage is not None and is_left and self.is_new(launch):
            self.left(function, launch, allocations)

    def is_new(self, launch: TracedLaunch) -> bool:
        """Among those that are left."""
        before = self.told.setdefault(launch.function, set())
        if len(before) >= self.most or launch in before:
            return False
        before.add(launch)
        return True

    def is_wanted(self, launch: TracedLaunch, kernel: Kernel) -> bool:
        """Launches that are alike count once, unless it matters what was in memory."""
        before = self.seen.setdefault(launch.function, set())
        if len(before) >= self.most or (launch in before and not (self.follows and kernel.follows_pointers)):
            return False
        before.add(launch)
        return True

    def evaluated(
        self, kernel: Kernel, asked: Launch, allocations: Allocations, into: Evaluated, by_call: Result | None
    ) -> Result:
        result = kernel.every.evaluate(asked)
        if self.follows and any(reason in FOLLOWED for _, reason in result.unknown):
            result = self.pointers.followed(kernel, asked, allocations)
            into.followed += not result.unknown
        if by_call is not None:
            result = refined(result, by_call)
        into.add(result)
        return result


def _size(of: Range) -> int:
    length = max(of.last - of.first + 1, 0)
    return length if not of.stride else length // of.stride * of.width + min(length % of.stride, of.width)
