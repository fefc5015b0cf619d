"""Compares predicted ranges with the exact bytes that the emulated driver recorded (TESSERA_ACCESS_TRACE).

A launch that stopped at an address without memory has *strayed* when that is what the prediction says of a launch whose
allocations have no ends: its parameters led it out of the allocation that its pointer points into. A stray is no
violation; any other access outside of the prediction is one, whether there is memory or not. Nor is it one when a
launch leaves a variable of the module, and comes into the next.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from time import perf_counter_ns

from ptxtools.access.build import build
from ptxtools.access.template import AccessKind, Template
from ptxtools.ranges import Evaluator, Launch, Range, Result, evaluate
from ptxtools.reader import read

Interval = tuple[int, int]
_KINDS = {AccessKind.READ: "reads", AccessKind.WRITE: "writes", AccessKind.ATOMIC: "atomics"}
_TEMPLATES = 64
_MOST_STEPS = 1 << 20  # of a range that is overwritten: those that are looked at
_LARGEST_COUNT = 1 << 16  # steps of a strided range that are looked at one by one
_ADDRESSES = 1 << 64
_ENDLESS = (0, 1 << 63)


@dataclass(frozen=True, slots=True)
class Fault:
    """What stopped a launch: an access that was not made, or something else (`kind`), which may have no address."""

    kind: str
    line: int
    address: int
    bytes: int
    write: bool

    @property
    def is_outside(self) -> bool:
        """Whether there is no memory at the address."""
        return self.kind == "illegal address"


@dataclass(frozen=True, slots=True)
class Traced:
    """One launch as the emulated driver recorded it. `text`: the module's PTX."""

    function: str
    launch: Launch
    memory: tuple[Interval, ...]
    accesses: dict[AccessKind, list[Interval]]
    text: Path
    fault: Fault | None = None


@dataclass(slots=True)
class Verdict:
    """Of one launch. `missed`: traced bytes outside of the prediction. `complete`: the launch came to its end.

    `stray`: where it left its allocation. `fault`: what else it stopped at, "" when nothing did. `job`: the launcher's
    line, when it comes from one. `kept`: bytes that were to be overwritten and were not, of a complete launch.
    `overwritten_bytes`, `written_bytes`: predicted and traced, without atomics.
    """

    function: str
    result: Result
    missed: list[tuple[AccessKind, Interval]]
    predicted_bytes: int
    traced_bytes: int
    evaluate_ns: int
    clamped: bool = False
    complete: bool = True
    stray: Fault | None = None
    fault: str = ""
    job: str = ""
    kept: list[Interval] = field(default_factory=list)
    overwritten_bytes: int = 0
    written_bytes: int = 0


@dataclass(slots=True)
class Oracle:
    """Keeps the latest templates, ready to be evaluated, by module text and function."""

    templates: dict[tuple[str, str], Callable[[Launch], Result]] = field(default_factory=dict)
    # Without the sizes of their variables, and without an end of looking back: memory holds no states of tiles.
    endless: dict[tuple[str, str], Template] = field(default_factory=dict)

    def keep(self, source: str, function: str, template: Template) -> None:
        """Makes a template known for launches of this module's function."""
        if len(self.templates) >= _TEMPLATES:
            oldest = next(iter(self.templates))
            del self.templates[oldest]
            self.endless.pop(oldest, None)
        self.templates[source, function] = Evaluator(template).evaluate
        accesses = [replace(each, looks_back=False) for each in template.accesses]
        if template.sizes or accesses != template.accesses:
            self.endless[source, function] = replace(template, sizes={}, accesses=accesses)

    def judge(self, traced: Traced) -> Verdict:
        key = (traced.text.read_text(), traced.function)
        if key not in self.templates:
            module = read(key[0])
            self.keep(*key, build(module, module.functions[traced.function]))
        begin = perf_counter_ns()
        result = self.templates[key](traced.launch)
        duration = perf_counter_ns() - begin
        missed = lacking(result, traced)
        predicted = actual = 0
        for kind, intervals in traced.accesses.items():
            predicted += size(expected(result, kind))
            actual += size(intervals)
        clamped = any(each.whole for each in result.ranges)
        verdict = Verdict(traced.function, result, missed, predicted, actual, duration, clamped)
        overwritten = promised(result)
        verdict.overwritten_bytes = size(overwritten)
        verdict.written_bytes = size(traced.accesses[AccessKind.WRITE])
        if traced.fault is None and not result.unknown:
            verdict.kept = [each for each in overwritten if not inside(each, traced.accesses[AccessKind.WRITE])]
        unbounded = partial(evaluate, self.endless[key]) if key in self.endless else self.templates[key]
        if missed and not lacking(unbounded(traced.launch), traced):
            verdict.stray, verdict.missed = Fault("variable", 0, missed[0][1][0], 0, False), []
        if traced.fault is not None:
            self.explain(verdict, traced, traced.fault, unbounded)
        return verdict

    def explain(self, verdict: Verdict, traced: Traced, fault: Fault, evaluate: Callable[[Launch], Result]) -> None:
        """Adds to a verdict why the launch stopped."""
        verdict.complete = False
        if not fault.is_outside:
            verdict.fault = fault.kind
        elif verdict.result.unknown or reaches(evaluate(without_ends(traced.launch)), fault):
            verdict.stray = fault
        else:
            kind = AccessKind.WRITE if fault.write else AccessKind.READ
            verdict.missed.append((kind, (fault.address, fault.address + fault.bytes)))


def expected(result: Result, kind: AccessKind) -> list[Interval]:
    return union(interval for each in result.ranges if each.kind is kind for interval in spread(each))


def lacking(result: Result, traced: Traced) -> list[tuple[AccessKind, Interval]]:
    """What was touched and is not predicted."""
    found: list[tuple[AccessKind, Interval]] = []
    for kind, intervals in traced.accesses.items():
        known = expected(result, kind)
        found += [(kind, each) for each in intervals if not inside(each, known)]
    return found


def without_ends(launch: Launch) -> Launch:
    """The launch, were its allocations endless."""
    return replace(launch, allocation=lambda address: launch.allocation(address) and _ENDLESS)


def reaches(result: Result, fault: Fault) -> bool:
    """Whether an access like the one that was not made is predicted."""
    kinds = (AccessKind.WRITE if fault.write else AccessKind.READ, AccessKind.ATOMIC)
    ranges = [each for each in result.ranges if each.kind in kinds]
    pieces = union(piece for each in ranges for piece in spread(each))
    places = (fault.address, fault.address - _ADDRESSES)  # below zero, too
    return any(each.whole for each in ranges) or any(inside((place, place + fault.bytes), pieces) for place in places)


def launches(trace: Path) -> Iterator[Traced]:
    """The launches of a trace file, up to where it is cut off."""
    with trace.open() as lines:
        for line in lines:
            if not line.endswith("\n"):
                return  # the program was ended while it wrote
            entry = json.loads(line)
            memory = _joined(entry["memory"])
            launch = Launch(
                bytes.fromhex(entry["params"]),
                tuple(entry["grid"]),
                tuple(entry["block"]),
                _Allocations(memory),
                entry["variables"],
            )
            accesses = {kind: [(b, e) for b, e in entry[name]] for kind, name in _KINDS.items()}
            text = trace.with_name(f"{trace.name}.{entry['text']}.ptx")
            fault = Fault(**entry["fault"]) if "fault" in entry else None
            yield Traced(entry["function"], launch, memory, accesses, text, fault)


def _joined(ranges: list[tuple[int, int, str]]) -> tuple[Interval, ...]:
    """Allocations, with neighbouring mappings of the program's own virtual memory as one."""
    joined: list[tuple[int, int, str]] = []
    for begin, end, kind in ranges:
        if kind == "vmm" and joined and joined[-1][1:] == (begin, "vmm"):
            begin = joined.pop()[0]
        joined.append((begin, end, kind))
    return tuple((begin, end) for begin, end, _ in joined)


class _Allocations:
    def __init__(self, memory: Sequence[Interval]) -> None:
        self._memory = memory
        self._begins = [begin for begin, _ in memory]

    def __call__(self, address: int) -> Interval | None:
        position = bisect_right(self._begins, address) - 1
        if position < 0 or self._memory[position][1] <= address:
            return None
        return self._memory[position]


def spread(each: Range) -> Iterable[Interval]:
    """The intervals of a range. One with very many steps is taken without its holes."""
    if each.last < each.first:
        return
    if not each.stride or (each.last - each.first) // each.stride > _LARGEST_COUNT:
        yield each.begin, each.end
        return
    for begin in range(each.begin, each.end, each.stride):
        yield begin, min(begin + each.width, each.end)


def promised(result: Result) -> list[Interval]:
    """The bytes that are overwritten for certain; of a range of very many steps those at both ends."""
    found: list[Interval] = []
    for each in result.ranges:
        if not each.overwritten:
            continue
        assert each.kind is AccessKind.WRITE
        assert not each.whole
        step = each.stride or max(each.last - each.first + 1, 1)
        width = each.width if each.stride else step
        begins: Iterable[int] = (steps := range(each.begin, each.end, step))
        if len(steps) > _MOST_STEPS:
            begins = chain(steps[: _MOST_STEPS // 2], steps[-_MOST_STEPS // 2 :])
        found += [(begin, begin + width) for begin in begins]
    return union(each for each in found if each[0] < each[1])


def union(intervals: Iterable[Interval]) -> list[Interval]:
    """Ascending and as large as possible."""
    merged: list[Interval] = []
    for begin, end in sorted(intervals):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((begin, end))
    return merged


def inside(interval: Interval, merged: Sequence[Interval]) -> bool:
    position = bisect_right(merged, (interval[0], 1 << 64)) - 1
    return position >= 0 and merged[position][1] >= interval[1]


def size(intervals: Iterable[Interval]) -> int:
    return sum(end - begin for begin, end in intervals)
