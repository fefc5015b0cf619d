"""When a run should follow another plan, and whether that one was better: decides only, and has no clock of its own.

What a plan was made for is a *situation*: requests in flight, how long launches take on each GPU compared with the
profile, which GPUs are lost, shapes that launches have instead of the profile's. What a run's processes tell is
compared with it, over a window. If it is another one for a whole window, a plan is made for the new situation. After
the swap, the period is compared with that just before it; if it is longer, the plan before returns, and the
situation is left alone for a time that doubles. Swaps that follow each other closely become rarer in the same way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import log
from types import MappingProxyType

from controlplane.plan.planfile import Plan

Row = tuple[float, ...]  # of a class: ns by GPU, 0 where it is not known
Shape = tuple[tuple[int, int, int], tuple[int, int, int], int]  # grid, block, shared bytes


@dataclass(frozen=True, slots=True)
class Limits:
    """load: times as many requests in flight, or as few; drift: times as long on a GPU, or as short. apart_ns: between
    swaps, doubled up to most_apart_ns when they follow within `soon` times that. worse: a period that is so much longer
    sends the plan before back.
    """

    window_ns: float = 300e6
    load: float = 1.5
    drift: float = 1.25
    strange: float = 0.25
    apart_ns: float = 500e6
    most_apart_ns: float = 60e9
    soon: float = 20.0
    worse: float = 0.03
    settle_ns: float = 200e6
    most_backoff_ns: float = 300e9


@dataclass(frozen=True, slots=True)
class Seen:
    """At now_ns. requests, in_flight, placed, strange: counted since the run began (controlplane/plan/live.py; strange:
    what was not where the plan has it). shapes: by class, the one that its function has instead, with its times.
    """

    now_ns: float
    requests: int
    in_flight: int
    placed: int = 0
    strange: int = 0
    ns: tuple[Row, ...] = ()
    lost: frozenset[int] = frozenset()
    shapes: Mapping[int, tuple[Shape, Row]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Situation:
    """speeds: by GPU, how long launches take there, compared with the profile. shapes: instead of the profile's."""

    requests: int
    speeds: tuple[float, ...]
    lost: frozenset[int] = frozenset()
    shapes: Mapping[int, tuple[Shape, Row]] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Swap:
    """predicted_ns: the new plan's period; before_ns: what was measured just before, 0: nothing. is_back: the plan
    before returns, because the period had become before_ns.
    """

    at_ns: float
    reason: str
    plan: Plan
    before_ns: float
    is_back: bool = False

    @property
    def predicted_ns(self) -> float:
        return self.plan.predicted.period_ns


@dataclass(frozen=True, slots=True)
class Effect:
    """Of the last swap: periods before and after it."""

    before_ns: float
    after_ns: float


@dataclass(slots=True)
class _Trial:
    """A swap whose effect is not known yet."""

    before: tuple[Plan, Situation]
    swap: Swap


Key = tuple[int, Row, frozenset[int], tuple[tuple[int, Shape], ...]]
Replan = Callable[[Situation], Plan | None]  # None: nothing fits


class Controller:
    """profile_ns: by class and GPU, what the plan's times were, 0 where unknown; counts: launches of each class in an
    iteration.
    """

    def __init__(
        self,
        plan: Plan,
        profile_ns: tuple[Row, ...],
        counts: tuple[int, ...],
        replan: Replan,
        limits: Limits | None = None,
    ) -> None:
        self.plan, self.profile_ns, self.counts, self.replan = plan, profile_ns, counts, replan
        self.limits = limits or Limits()
        self.situation = Situation(plan.requests, (1.0,) * len(plan.gpus))
        self.window: deque[Seen] = deque()
        self.apart_ns = self.limits.apart_ns
        self.swapped_ns = float("-inf")
        self.other_since_ns: float | None = None  # the situation is not the plan's
        self.trial: _Trial | None = None
        self.refused: dict[Key, tuple[float, float]] = {}  # until when, and for how long
        self.effects: list[Effect] = []

    def step(self, seen: Seen) -> Swap | None:
        """What to do now; called again and again."""
        self.window.append(seen)
        while len(self.window) > 2 and self.window[1].now_ns <= seen.now_ns - self.limits.window_ns:
            self.window.popleft()
        if seen.lost - self.situation.lost:
            gpus = ", ".join(f"GPU {gpu}" for gpu in sorted(seen.lost - self.situation.lost))
            return self._swap(seen, replace(self.situation, lost=seen.lost), f"the executor of {gpus} is lost")
        if seen.now_ns - self.window[0].now_ns < self.limits.window_ns:
            return None
        if self.trial is not None:
            return self._judged(seen, self.trial)
        if seen.now_ns - self.swapped_ns < self.apart_ns:
            return None
        return self._changed(seen)

    # what has changed

    def _changed(self, seen: Seen) -> Swap | None:
        now, reasons = self.situation, list[str]()
        load = self._load()
        if load and not now.requests / self.limits.load < load < now.requests * self.limits.load:
            now = replace(now, requests=max(round(load), 1))
            reasons.append(f"{load:.1f} requests in flight instead of {self.situation.requests}")
        speeds = self._speeds(seen)
        for gpu, (was, is_now) in enumerate(zip(now.speeds, speeds, strict=True)):
            if is_now and not was / self.limits.drift < is_now < was * self.limits.drift:
                reasons.append(f"GPU {gpu} takes {is_now / was:.2f} times as long as it did")
                now = replace(now, speeds=(*now.speeds[:gpu], is_now, *now.speeds[gpu + 1 :]))
        if self._strange() > self.limits.strange and seen.shapes:
            now = replace(now, shapes=MappingProxyType({**now.shapes, **seen.shapes}))
            reasons.append(f"{len(seen.shapes)} classes of launches have other shapes")
        if not reasons or self.other_since_ns is None:
            self.other_since_ns = seen.now_ns if reasons else None
        if self.other_since_ns is None or seen.now_ns - self.other_since_ns < self.limits.window_ns:
            return None
        return self._swap(seen, now, "; ".join(reasons))

    def _load(self) -> float:
        first, last = self.window[0], self.window[-1]
        requests = last.requests - first.requests
        return (last.in_flight - first.in_flight) / requests if requests else 0.0

    def _strange(self) -> float:
        first, last = self.window[0], self.window[-1]
        placed = last.placed - first.placed
        return (last.strange - first.strange) / placed if placed > 0 else 0.0

    def _speeds(self, seen: Seen) -> Row:
        """By GPU, of all classes that are known there; 0: of none."""
        found = []
        for gpu in range(len(self.plan.gpus)):
            was = now = 0.0
            for number, (profile, row) in enumerate(zip(self.profile_ns, seen.ns, strict=False)):
                if number not in self.situation.shapes and row[gpu] > 0 and profile[gpu] > 0:
                    was += self.counts[number] * profile[gpu]
                    now += self.counts[number] * row[gpu]
            found.append(now / was if was else 0.0)
        return tuple(found)

    def _period(self) -> float:
        """In the window; 0: no request ended in it."""
        first, last = self.window[0], self.window[-1]
        requests = last.requests - first.requests
        return (last.now_ns - first.now_ns) / requests if requests else 0.0

    # what to do

    def _swap(self, seen: Seen, situation: Situation, reason: str) -> Swap | None:
        key = _key(situation)
        until, _ = self.refused.get(key, (float("-inf"), 0.0))
        if seen.now_ns < until:
            return None
        made = self.replan(situation)
        before = (self.plan, self.situation)
        self.situation, self.other_since_ns = situation, None
        if made is None or _is_same(made, self.plan):
            return None
        swap = Swap(seen.now_ns, reason, made, self._period())
        self.plan, self.trial = made, _Trial(before, swap)
        self._swapped(seen)
        return swap

    def _swapped(self, seen: Seen) -> None:
        limits, since = self.limits, seen.now_ns - self.swapped_ns
        is_soon = since < limits.soon * self.apart_ns
        self.apart_ns = min(self.apart_ns * 2, limits.most_apart_ns) if is_soon else limits.apart_ns
        self.swapped_ns, self.other_since_ns = seen.now_ns, None
        self.window.clear()

    def _judged(self, seen: Seen, trial: _Trial) -> Swap | None:
        """A window of its own after the swap, and after what was under way then."""
        if self.window[0].now_ns - trial.swap.at_ns < self.limits.settle_ns:
            return None
        after = self._period()
        if not after:
            return None
        self.trial = None
        self.effects.append(Effect(trial.swap.before_ns, after))
        is_worse = trial.swap.before_ns and after > trial.swap.before_ns * (1 + self.limits.worse)
        if not is_worse or self.situation.lost - trial.before[1].lost:
            return None
        key = _key(self.situation)
        _, waited = self.refused.get(key, (0.0, self.limits.apart_ns * 5))
        longer = min(waited * 2, self.limits.most_backoff_ns)
        self.refused[key] = (seen.now_ns + longer, longer)
        self.plan = trial.before[0]
        self._swapped(seen)
        before_ms, after_ms = trial.swap.before_ns / 1e6, after / 1e6
        reason = f"a request every {after_ms:.3f} ms after the last swap, every {before_ms:.3f} before"
        return Swap(seen.now_ns, reason, self.plan, after, is_back=True)


def _key(situation: Situation) -> Key:
    """Situations that are nearly the same are one."""
    speeds = tuple(round(speed, 1) for speed in situation.speeds)
    shapes = tuple((number, shape) for number, (shape, _) in sorted(situation.shapes.items()))
    return round(log(situation.requests, 1.5)), speeds, situation.lost, shapes


def _is_same(one: Plan, other: Plan) -> bool:
    return (one.groups, one.placements, one.classes) == (other.groups, other.placements, other.classes)
