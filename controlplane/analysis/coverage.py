"""How many launches of a trace have known ranges, and why the others have not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from controlplane.analysis.analyst import Analyst
from controlplane.analysis.cache import Key
from controlplane.analysis.describe import UNKNOWN, Description, unknown_description
from controlplane.analysis.kernel import Analysis
from controlplane.analysis.traced import LOST_CODE, NO_CODE, Images, TracedLaunch, Used, launches, used
from controlplane.demangle import demangle
from controlplane.observe.trace import Trace
from ptxtools.machine.consent import Consent
from ptxtools.ranges import Launch, Result
from ptxtools.ranges.native import Evaluator

EVALUATED = 64  # different launches of a function whose ranges are looked at, by default
WAIT_SECONDS = 3600.0
NO_PARAMETERS = "its parameters were not recorded"


@dataclass
class FunctionCoverage:
    """A function over all processes of a trace. `launches`: of the trace; `evaluated`: of these, whose ranges were
    computed; `ranges`: how many there were; `whole`: of the evaluated, those with a range that is only known as its
    allocation; `unknown`: those that may touch anything, by reason. Launches like one that was evaluated count as it
    does.
    """

    description: Description
    launches: int = 0
    evaluated: int = 0
    ranges: int = 0
    whole: int = 0
    predicted_bytes: int = 0
    unknown: Counter[str] = field(default_factory=Counter)

    @property
    def name(self) -> str:
        return self.description["name"]

    @property
    def tier(self) -> str:
        return self.description["tier"]

    @property
    def static_reasons(self) -> list[str]:
        return sorted({each["reason"] for each in self.description["unknown"]})

    @property
    def known_launches(self) -> int:
        """Where no launch was evaluated, all launches of a function without unknown accesses."""
        if self.evaluated:
            return round(self.launches * (self.evaluated - self.unknown.total()) / self.evaluated)
        return 0 if self.static_reasons else self.launches

    def reasons(self) -> Counter[str]:
        """Launches by the first reason why they are unknown."""
        lost = self.launches - self.known_launches
        if not lost:
            return Counter()
        if self.unknown:
            return Counter({reason: round(lost * n / self.unknown.total()) for reason, n in self.unknown.items()})
        return Counter({(self.static_reasons or [UNKNOWN])[0]: lost})


@dataclass
class Coverage:
    """Of a trace, functions with the most launches first."""

    functions: list[FunctionCoverage]
    cached: int = 0
    analysed: int = 0

    @property
    def launches(self) -> int:
        return sum(each.launches for each in self.functions)

    @property
    def known_launches(self) -> int:
        return sum(each.known_launches for each in self.functions)

    @property
    def share(self) -> float:
        return self.known_launches / self.launches if self.launches else 1.0

    def by_tier(self) -> Counter[str]:
        tiers: Counter[str] = Counter()
        for each in self.functions:
            tiers[each.tier if each.known_launches else UNKNOWN] += each.known_launches
            tiers[UNKNOWN] += each.launches - each.known_launches
        return +tiers

    def by_reason(self) -> Counter[str]:
        return sum((each.reasons() for each in self.functions), Counter[str]())


def measure(
    trace: Trace,
    analyst: Analyst,
    pattern: str = "*",
    most: int = EVALUATED,
    consent: Consent = Consent.OPEN,
    say: Callable[[str], None] = lambda _: None,
) -> Coverage:
    """Analyses the functions that match, and evaluates up to `most` different launches of each."""
    processes = [used(traced, consent) for traced in trace.processes]
    with Images(trace) as images:
        analyses = _analyses(processes, images, analyst, pattern, say)
    found: dict[tuple[str, Key | None], FunctionCoverage] = {}
    for process in processes:
        _count(process, analyses, found, pattern)
        if most:
            _evaluate(process, analyses, found, most)
    functions = sorted(found.values(), key=lambda each: (-each.launches, each.name))
    return Coverage(functions, analyst.cached, analyst.made)


def _matches(name: str, pattern: str) -> bool:
    return pattern == "*" or fnmatchcase(name, pattern) or fnmatchcase(demangle(name), pattern)


def _analyses(
    processes: Iterable[Used], images: Images, analyst: Analyst, pattern: str, say: Callable[[str], None]
) -> dict[Key, Analysis]:
    found: dict[Key, Analysis] = {}
    missing: dict[Key, Used] = {}
    for process in processes:
        for function in process.functions.values():
            key = function.key
            if key is None or key in found or key in missing or not _matches(function.name, pattern):
                continue
            analysis = analyst.remembered(key)
            if analysis is None:
                missing[key] = process
            else:
                found[key] = analysis
    if missing:
        say(f"{len(missing)} functions are not in the cache and are analysed now")
    for key, process in missing.items():
        opened = images.of(process.traced, key)
        if opened is None:
            found[key] = Analysis(unknown_description(key.function, LOST_CODE))
        else:
            analyst.make(key, opened, _keep(found, key))
    analyst.pool.wait(WAIT_SECONDS)
    analyst.pool.finish()
    return found


def _keep(found: dict[Key, Analysis], key: Key) -> Callable[[Analysis], None]:
    def keep(analysis: Analysis) -> None:
        found[key] = analysis

    return keep


def _count(
    process: Used, analyses: dict[Key, Analysis], found: dict[tuple[str, Key | None], FunctionCoverage], pattern: str
) -> None:
    for function in process.functions.values():
        if not _matches(function.name, pattern):
            continue
        at = (function.name, function.key)
        if at not in found:
            analysis = analyses.get(function.key) if function.key is not None else None
            nothing = unknown_description(function.name, NO_CODE)
            found[at] = FunctionCoverage(analysis.description if analysis is not None else nothing)
        found[at].launches += function.launches


def _evaluate(
    process: Used,
    analyses: dict[Key, Analysis],
    found: dict[tuple[str, Key | None], FunctionCoverage],
    most: int,
) -> None:
    evaluators: dict[Key, Evaluator] = {}
    seen: dict[int, set[TracedLaunch]] = {}
    for launch, allocations in launches(process):
        function = process.functions[launch.function]
        coverage = found.get((function.name, function.key))
        analysis = analyses.get(function.key) if function.key is not None else None
        if coverage is None or analysis is None or not analysis.template or function.key is None:
            continue
        needs_parameters = bool(analysis.description["parameters"])
        before = seen.setdefault(launch.function, set())
        if len(before) >= most or launch in before or (needs_parameters and not launch.is_complete):
            continue
        before.add(launch)
        if function.key not in evaluators:
            evaluators[function.key] = Evaluator(analysis.template)
        asked = Launch(launch.parameters, launch.grid, launch.block, allocations)
        _add(coverage, evaluators[function.key].evaluate(asked))


def _add(coverage: FunctionCoverage, result: Result) -> None:
    coverage.evaluated += 1
    coverage.ranges += len(result.ranges)
    coverage.whole += any(each.whole for each in result.ranges)
    coverage.predicted_bytes += sum(_size(each.first, each.last, each.stride, each.width) for each in result.ranges)
    if result.unknown:
        coverage.unknown[result.unknown[0][1]] += 1


def _size(first: int, last: int, stride: int, width: int) -> int:
    length = max(last - first + 1, 0)
    return length if not stride else length // stride * width + min(length % stride, width)
