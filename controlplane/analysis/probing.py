"""Probes of the launches of a trace whose ranges are unknown."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from controlplane.analysis.allocations import Allocations
from controlplane.analysis.analyst import Analyst
from controlplane.analysis.cache import Key
from controlplane.analysis.coverage import Evaluation, FunctionCoverage, analyse_all, count
from controlplane.analysis.observed import Observations
from controlplane.analysis.poison import Experiment
from controlplane.analysis.probe import Probe, made, probe_of, reason_against
from controlplane.analysis.traced import LOST_CODE, NO_CODE, Images, TracedLaunch, Used, UsedFunction, used
from controlplane.observe.trace import Trace
from ptxtools.machine.consent import Consent

MOST = 1024  # different launches of a function that are looked at


@dataclass(frozen=True, slots=True)
class Limits:
    """Different launches of a function that are probed; bytes of memory and seconds of one."""

    launches: int
    memory_bytes: int
    seconds: float


@dataclass(slots=True)
class FunctionProbes:
    """Of a function with unknown launches. `launches`: different ones; not all of them may be `probed`."""

    name: str
    launches: int = 0
    probed: list[tuple[Probe, Experiment]] = field(default_factory=list)
    not_probed: Counter[str] = field(default_factory=Counter)
    cached: int = 0


def probe_trace(
    trace: Trace,
    analyst: Analyst,
    observations: Observations,
    environment: Mapping[str, str],
    limits: Limits,
    pattern: str = "*",
    consent: Consent = Consent.OPEN,
    say: Callable[[str], None] = lambda _: None,
) -> list[FunctionProbes]:
    """Makes the probes that were not made before, in processes with this environment, and keeps them."""
    found: dict[tuple[str, Key | None], FunctionProbes] = {}
    processes = [used(traced, consent) for traced in trace.processes]
    with Images(trace) as images:
        analyses = analyse_all(processes, images, analyst, pattern, say)
        for process in processes:
            prober = _Prober(process, images, observations, environment, limits, found)
            counted: dict[tuple[str, Key | None], FunctionCoverage] = {}
            count(process, analyses, counted, pattern)
            Evaluation(process, analyses, counted, MOST, prober.left).run()
    return sorted(found.values(), key=lambda each: (-each.launches, each.name))


@dataclass(frozen=True, slots=True)
class _Prober:
    """Makes the probes of one process' launches."""

    process: Used
    images: Images
    observations: Observations
    environment: Mapping[str, str]
    limits: Limits
    found: dict[tuple[str, Key | None], FunctionProbes]

    def left(self, used_function: UsedFunction, launch: TracedLaunch, allocations: Allocations) -> None:
        name, key = used_function.name, used_function.key
        function = self.found.setdefault((name, key), FunctionProbes(name))
        function.launches += 1
        if key is None:
            function.not_probed[NO_CODE] += 1
        elif len(function.probed) + function.not_probed.total() < self.limits.launches:
            probe = probe_of(name, launch, allocations)
            why = reason_against(launch, probe, self.limits.memory_bytes)
            result = why or self.observed(function, key, probe)
            if isinstance(result, str):
                function.not_probed[result] += 1
            else:
                function.probed.append((probe, result))

    def observed(self, function: FunctionProbes, key: Key, probe: Probe) -> Experiment | str:
        before = self.observations.get(key, probe)
        if before is not None:
            function.cached += 1
            return before
        opened = self.images.of(self.process.traced, key)
        if opened is None:
            return LOST_CODE
        image = os.pread(opened[0].descriptor, opened[0].place.size, opened[0].place.offset)
        result = made(probe, image, self.environment, self.limits.seconds)
        if isinstance(result, Experiment):
            self.observations.put(key, probe, result)
        return result
