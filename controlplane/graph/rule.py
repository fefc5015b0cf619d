"""The rule that says where launches go (interpose/schedule/place.c): the same that runs in programs' processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import IntFlag
from functools import cache
from typing import Any, NamedTuple

from cffi import FFI

from ptxtools import native
from ptxtools.native import records

HEADER = "place.h"
LIBRARY = "schedule/libtessera_place.so.1"
_FUNCTIONS = """
void tsr_place_init(struct tsr_place *place, const struct tsr_place_options *options);
void tsr_place_choose(struct tsr_place *place, const struct tsr_place_launch *launch, struct tsr_place_choice *choice);
struct tsr_place_answer tsr_place_take(struct tsr_place *place, const struct tsr_place_launch *launch,
                                       struct tsr_place_choice *choice, uint32_t gpu, uint64_t ticket);
void tsr_place_fetched(struct tsr_place *place, const struct tsr_place_launch *launch, uint32_t gpu);
void tsr_place_ended(struct tsr_place *place, uint64_t ticket, double at_ns);
void tsr_place_waited(struct tsr_place *place, uint64_t ticket, double began_ns, double ended_ns);
double tsr_place_end(const struct tsr_place *place);
void tsr_guard_init(struct tsr_guard *guard, const struct tsr_guard_options *options);
struct tsr_guard_clocks tsr_place_clocks(const struct tsr_place *place);
bool tsr_guard_next(struct tsr_guard *guard, const struct tsr_guard_clocks *now);
"""


class Strategies(IntFlag):
    """How to choose: stay with the fresh data; go where it ends first."""

    STAY = 1
    EARLIEST = 2
    BOTH = 3


def _figure(name: str) -> float:
    return field(default_factory=lambda: float(records.constant(records.header(HEADER)[1], name, HEADER)))


@dataclass(frozen=True, slots=True)
class Rule:
    """The figures that programs' processes have, of H200s over NVLink. host_ns: between a thread's calls; fence_ns:
    until another GPU sees that work is done; copy_ns: before a copy's first byte; bytes_per_ns: of each link.

    lead_ns and slack_ns: as in tessera/place.h; careful: nothing leaves home that could not be back in time.
    """

    lead_ns: float = _figure("TSR_PLACE_LEAD_NS")
    slack_ns: float = _figure("TSR_PLACE_SLACK_NS")
    host_ns: float = 5e3
    fence_ns: float = _figure("TSR_PLACE_FENCE_NS")
    copy_ns: float = _figure("TSR_PLACE_COPY_NS")
    bytes_per_ns: float = _figure("TSR_PLACE_BYTES_PER_NS")
    strategies: Strategies = Strategies.BOTH
    careful: bool = True


@dataclass(frozen=True, slots=True)
class GuardRule:
    """Of the guard (tessera/place.h)."""

    window_ns: float = _figure("TSR_GUARD_WINDOW_NS")
    rest_ns: float = _figure("TSR_GUARD_REST_NS")
    longest_rest_ns: float = _figure("TSR_GUARD_LONGEST_REST_NS")
    least_permille: float = _figure("TSR_GUARD_LEAST_PERMILLE")
    budget_ns: float = _figure("TSR_GUARD_BUDGET_NS")


class Part(NamedTuple):
    """Fresh bytes of one writer. holders: bit n: GPU n has them."""

    writer: int
    bytes: int
    holders: int


class Answer(NamedTuple):
    """single_ns: when it would be done on a machine with one GPU; pulled: bytes."""

    gpu: int
    start_ns: float
    finish_ns: float
    single_ns: float
    pulled: int


class Clocks(NamedTuple):
    """When all would be done on one GPU, will be, and would be if the strategy followed had always been followed."""

    single_ns: float
    end_ns: float
    promised_ns: float


class Figures(NamedTuple):
    """Of a link from one GPU to another, as in Rule."""

    fence_ns: float
    copy_ns: float
    bytes_per_ns: float


class Place:
    """Where the launches of one program go. Tickets are numbers from 1 on that grow."""

    def __init__(
        self, gpus: int, rule: Rule, home: int = 0, links: Callable[[int, int], Figures] | None = None
    ) -> None:
        """links: of two GPUs; by default all are as the rule says."""
        self._library = library()
        ffi = self._library.ffi
        self.gpus = gpus
        self._everywhere = (1 << gpus) - 1
        options = _new(ffi, "struct tsr_place_options *")
        options.gpus, options.strategies, options.careful = gpus, int(rule.strategies), rule.careful
        options.lead_ns, options.slack_ns = rule.lead_ns, rule.slack_ns
        options.home = home
        usual = Figures(rule.fence_ns, rule.copy_ns, rule.bytes_per_ns)
        for source, row in enumerate(options.links):
            for target, link in enumerate(row):
                inside = links is not None and source != target and max(source, target) < gpus
                of = links(source, target) if links is not None and inside else usual
                link.fence_ns, link.copy_ns, link.ns_per_byte = of.fence_ns, of.copy_ns, 1 / of.bytes_per_ns
        self._place = _new(ffi, "struct tsr_place *")
        self._launch = _new(ffi, "struct tsr_place_launch *")
        self._choice = _new(ffi, "struct tsr_place_choice *")
        self._library.functions.tsr_place_init(self._place, options)

    def next(
        self,
        ticket: int,
        last: int,
        now_ns: float,
        ns: float | Sequence[float],
        parts: Sequence[Part],
        *,
        like: int = 0,
        written: int = 0,
        allowed: int | None = None,
        stays: bool = False,
        constants: Sequence[int] = (),
    ) -> Answer:
        """ns: its time, on each GPU if they differ. like: the same for launches that are alike, not 0. allowed: set of
        GPUs; all by default. constants: bytes that each GPU lacks.
        """
        launch = self._launch
        launch.like, launch.last, launch.now_ns, launch.written = like, last, now_ns, written
        launch.allowed = self._everywhere if allowed is None else allowed
        launch.stays = stays
        launch.ns = [ns] * self.gpus if isinstance(ns, float | int) else [*ns]
        launch.constants = [*constants] or [0] * self.gpus
        some = parts if len(parts) <= self._library.most_parts else _fewer(parts, self._library.most_parts)
        launch.part_count = len(some)
        for place, part in enumerate(some):
            to = launch.parts[place]
            to.writer, to.bytes, to.holders = part
        choice, functions = self._choice, self._library.functions
        functions.tsr_place_choose(self._place, launch, choice)
        found = functions.tsr_place_take(self._place, launch, choice, choice.gpu, ticket)
        return Answer(choice.gpu, found.start_ns, found.finish_ns, found.single_ns, found.pulled)

    def ended(self, ticket: int, at_ns: float) -> None:
        self._library.functions.tsr_place_ended(self._place, ticket, at_ns)

    def waited(self, ticket: int, began_ns: float, ended_ns: float) -> None:
        """The host waited for a launch."""
        self._library.functions.tsr_place_waited(self._place, ticket, began_ns, ended_ns)

    @property
    def end_ns(self) -> float:
        end: float = self._library.functions.tsr_place_end(self._place)
        return end

    @property
    def clocks(self) -> Clocks:
        found = self._library.functions.tsr_place_clocks(self._place)
        return Clocks(found.single_ns, found.end_ns, found.promised_ns)

    @property
    def follows(self) -> Strategies:
        return Strategies(1 << self._place.strategy)


class Guard:
    """Whether anything is gained; see tessera/place.h."""

    def __init__(self, rule: GuardRule) -> None:
        self._library = library()
        self._guard = _new(self._library.ffi, "struct tsr_guard *")
        self._clocks = _new(self._library.ffi, "struct tsr_guard_clocks *")
        options = _new(self._library.ffi, "struct tsr_guard_options *")
        options.window_ns, options.rest_ns, options.longest_rest_ns = rule.window_ns, rule.rest_ns, rule.longest_rest_ns
        options.least, options.budget_ns = rule.least_permille / 1000, rule.budget_ns
        self._library.functions.tsr_guard_init(self._guard, options)

    def stays(self, now: Clocks) -> bool:
        """Whether the next launch is issued at home."""
        self._clocks.single_ns, self._clocks.end_ns, self._clocks.promised_ns = now
        return bool(self._library.functions.tsr_guard_next(self._guard, self._clocks))

    @property
    def windows(self) -> tuple[int, int]:
        """That were won; of how many."""
        return self._guard.won, self._guard.windows

    @property
    def rested(self) -> int:
        """Launches."""
        rested: int = self._guard.rested
        return rested


def _fewer(parts: Sequence[Part], most: int) -> list[Part]:
    """The largest, and one for all others: of the last of them, held where all are."""
    largest = sorted(parts, key=lambda part: -part.bytes)
    rest, holders = largest[most - 1 :], -1
    for part in rest:
        holders &= part.holders
    joined = Part(max(part.writer for part in rest), sum(part.bytes for part in rest), holders)
    return [*largest[: most - 1], joined]


class _Library:
    def __init__(self) -> None:
        self.ffi = FFI()
        _, text = records.header(HEADER)
        self.ffi.include(records.parsed(HEADER))
        self.ffi.cdef(_FUNCTIONS)
        self.functions: Any = self.ffi.dlopen(str(native.file(LIBRARY)))
        self.most_parts = records.constant(text, "TSR_PLACE_PARTS", HEADER)


@cache
def library() -> _Library:
    """The library of this installation. Errors: InternalError when it is missing."""
    return _Library()


def _new(ffi: FFI, declaration: str) -> Any:
    """Memory for a C type; a type checker knows nothing of its members."""
    return ffi.new(declaration)
