"""A profile as values: the machine, the classes of launches with their times, and the recurring iteration.

Numbers of types, GPUs, classes, allocations and operations are places in the profile's tuples, from 0 on. Times are
nanoseconds. What is not known is None, 0 of a rate, or an empty text. controlplane/profile/file.py has all as a file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from controlplane.graph.nodes import What


class Source(Enum):
    """Where a time comes from, the best first."""

    MEASURED = "measured"  # of launches of this class on this type of GPU
    ALIKE = "alike"  # of launches of the same function in another shape, on this type of GPU
    SCALED = "scaled"  # from another type of GPU, by what the two can do (scale.py)
    GUESSED = "guessed"  # from the bytes alone


class Role(Enum):
    """What bytes are to the iterations of a program."""

    CONSTANT = "constant"  # read, and not written by any iteration: weights. All GPUs may have them
    CARRIED = "carried"  # an iteration reads what an earlier one wrote
    OWN = "own"  # each iteration writes them before it reads them, or is given them: other iterations may have others


class Kind(Enum):
    """What an operation does with a range. What is not known is an over-approximation: it may read or write it."""

    READ = "r"
    WHOLE = "a"  # may read something in this allocation; no more is known
    OLD = "o"  # may write it without overwriting it, so that it needs what was there
    SCRATCH_READ = "t"  # reads what an earlier launch of the same library call left there
    WRITE = "w"  # may write it. Where it is not in an OLD range, too, it is overwritten
    SCRATCH = "s"  # writes it, and its value matters to nobody afterwards


HOST = -1  # as the source or target of a link
READS = frozenset({Kind.READ, Kind.WHOLE, Kind.OLD, Kind.SCRATCH_READ})


class Access(NamedTuple):
    """A range: of allocation number `allocation`, `size` bytes from `offset` on; with a stride, of these only `width`
    bytes at every multiple of it from `offset` on.
    """

    kind: Kind
    allocation: int
    offset: int
    size: int
    stride: int = 0
    width: int = 0


@dataclass(frozen=True, slots=True)
class GpuType:
    """What a GPU of one type can do. key: its name in `tessera devices`, or "". Rates are what is achieved.

    fixed_ns: what even an empty kernel takes. sm_limit: SMs that launches may use, if fewer than it has; else 0.
    """

    name: str
    key: str
    sm_count: int
    memory_bytes: int
    memory_bytes_per_s: int
    l2_bytes: int
    l2_bytes_per_s: int
    fp32_ops_per_s: int
    tensor_ops_per_s: int
    fixed_ns: float
    copy_engines: int
    compute: tuple[int, int] = (0, 0)
    threads_per_sm: int = 0
    blocks_per_sm: int = 0
    shared_per_sm_bytes: int = 0
    sm_limit: int = 0


@dataclass(frozen=True, slots=True)
class Link:
    """From one GPU to another, by their places in Machine.gpus, or to or from the host (HOST).

    A copy takes latency_ns + bytes / bytes_per_s. fence_ns: until the other GPU sees that work is done. measured: the
    figures are of this machine; otherwise they are typical for the kind. peer: one GPU can use the other's memory.
    """

    source: int
    target: int
    kind: str  # nvlink, pcie, host, none
    bytes_per_s: int
    latency_ns: float
    fence_ns: float
    measured: bool
    peer: bool = True


@dataclass(frozen=True, slots=True)
class Machine:
    """gpus: the type of each. home: the number of the program's own GPU. emulated: times are of a virtual clock.

    call_ns: what a call of the driver costs its thread; post_ns: what a launch on another GPU costs it instead.
    """

    types: tuple[GpuType, ...]
    gpus: tuple[int, ...]
    links: tuple[Link, ...]
    home: int = 0
    emulated: bool = False
    driver: str = ""
    call_ns: float = 0.0
    post_ns: float = 0.0

    @property
    def home_type(self) -> int:
        return self.gpus[self.home]

    def link(self, source: int, target: int) -> Link | None:
        return next((link for link in self.links if (link.source, link.target) == (source, target)), None)


@dataclass(frozen=True, slots=True)
class Time:
    """ns: the middle one of `count` launches. spread_ns: half the distance of the first and the third quarter's ends.

    error: by what share of ns it may be wrong, as its source states it; 0 for what was measured.
    """

    ns: float
    count: int = 0
    spread_ns: float = 0.0
    source: Source = Source.MEASURED
    error: float = 0.0


@dataclass(frozen=True, slots=True)
class LaunchClass:
    """Operations that are alike. times: by type of GPU, None where nothing is known.

    Of launches: function: the name as the module has it; name: as people read it; module: hash of the module's code.
    bytes: of a copy or memset; of a launch, what its ranges hold on average, 0 if they are not known.
    """

    what: What
    name: str
    function: str = ""
    module: str = ""
    grid: tuple[int, int, int] = (0, 0, 0)
    block: tuple[int, int, int] = (0, 0, 0)
    shared_bytes: int = 0
    bytes: int = 0
    from_host: bool = False
    to_host: bool = False
    times: tuple[Time | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Operation:
    """One launch, copy or memset of the iteration; `of` is its class.

    after: operations that come before it by the order of streams and events; waits: those up to which the thread has
    waited for their streams when it calls this one; returned: a copy that the thread waited for. Negative numbers are
    those of the iteration before: -1 is its last operation. host_ns: what its thread spends on it and since its
    operation before, without waiting. call: the same for launches of one library call, 0 for none. unknown: why it may
    touch anything, or "".
    """

    of: int
    stream: int = 0
    thread: int = 0
    host_ns: float = 0.0
    accesses: tuple[Access, ...] = ()
    after: tuple[int, ...] = ()
    waits: tuple[int, ...] = ()
    returned: tuple[int, ...] = ()
    call: int = 0
    unknown: str = ""


class Carried(NamedTuple):
    """Bytes that operation `reader` needs of operation `writer`, `back` iterations before (1: the one before)."""

    writer: int
    reader: int
    bytes: int
    back: int = 1


@dataclass(frozen=True, slots=True)
class Iteration:
    """What the program does again and again; all of it, if nothing repeats (count 1).

    operations: in the order of the calls. count: how often it was seen. period_ns: from one to the next, the middle
    one; spread_ns: as in Time. threads: how many threads do such iterations, each its own.
    """

    operations: tuple[Operation, ...]
    count: int = 1
    period_ns: float = 0.0
    spread_ns: float = 0.0
    carried: tuple[Carried, ...] = ()
    threads: int = 1


@dataclass(frozen=True, slots=True)
class Extent:
    """Bytes of an allocation that have a role; what is in none is not used by the iteration."""

    offset: int
    size: int
    role: Role


@dataclass(frozen=True, slots=True)
class Allocation:
    size: int
    extents: tuple[Extent, ...] = ()

    def bytes_of(self, role: Role) -> int:
        return sum(extent.size for extent in self.extents if extent.role is role)


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the profile does not know. Of the whole run: launches, those that were not recorded, launches with a range
    that is only known as its allocation; of the iteration: operations that may touch anything by their reason,
    operations without a measured time, and the share of the iteration's time that is not measured.
    """

    launches: int = 0
    lost: int = 0
    whole: int = 0
    unknown: tuple[tuple[str, int], ...] = ()
    untimed: int = 0
    untimed_share: float = 0.0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Profile:
    """peak_bytes: of memory that the program had allocated at once."""

    program: str
    machine: Machine
    classes: tuple[LaunchClass, ...]
    iteration: Iteration
    allocations: tuple[Allocation, ...] = ()
    peak_bytes: int = 0
    coverage: Coverage = field(default_factory=Coverage)

    def ns(self, operation: int, gpu_type: int | None = None) -> float | None:
        """How long an operation of the iteration takes on a type of GPU, by default home's; None: not known."""
        times = self.classes[self.iteration.operations[operation].of].times
        time = times[self.machine.home_type if gpu_type is None else gpu_type]
        return None if time is None else time.ns

    def constant_bytes(self) -> int:
        return sum(allocation.bytes_of(Role.CONSTANT) for allocation in self.allocations)
