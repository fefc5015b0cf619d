"""A profile's iteration, ready to be simulated again and again: times and shares by GPU, what is needed of whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from controlplane.graph.nodes import UNWRITTEN, What, Why
from controlplane.graph.versions import dependencies
from controlplane.profile.model import Carried, GpuType, LaunchClass, Profile
from controlplane.profile.program import unrolled

MEMSET = 0.1  # of a GPU; its memory is what limits
READ_BACK = 64 << 10  # bytes that the host copies from where they are (interpose/memory/readback.h)


class Way(IntEnum):
    """Where an operation's bytes go, and who moves them."""

    COMPUTE = 0  # launches, memsets, copies within a GPU: on its SMs
    FROM_HOST = 1
    TO_HOST = 2


class Need(NamedTuple):
    """Fresh bytes: of which writer, `back` iterations before (0: this one). piece: the same for the same bytes."""

    piece: int
    writer: int
    bytes: int
    back: int = 0


@dataclass(frozen=True, slots=True)
class Task:
    """An operation. ns, share: by GPU; share: of the GPU that it takes. joins: it comes after all of its stream,
    wherever that is, and the stream's later work after it. after: operations of other streams that it comes after.
    """

    of: int
    what: What
    way: Way
    stream: int
    host_ns: float
    ns: tuple[float, ...]
    share: tuple[float, ...]
    needs: tuple[Need, ...]
    after: tuple[int, ...]
    waits: tuple[int, ...]
    returned: tuple[int, ...]
    written: int
    bytes: int
    joins: bool
    unknown: bool

    @property
    def reads_back(self) -> bool:
        return self.way is Way.TO_HOST and self.bytes <= READ_BACK


@dataclass(frozen=True, slots=True)
class Work:
    """back: how many iterations before are still needed, at most."""

    tasks: tuple[Task, ...]
    back: int
    missing: tuple[str, ...]  # types of GPUs for which times are missing


def work_of(profile: Profile) -> Work:
    """Errors: none; where a GPU's times are not known, home's are taken, and `missing` says so."""
    machine, iteration = profile.machine, profile.iteration
    found = dependencies(unrolled(profile, 1))
    carried: dict[int, list[Carried]] = {}
    for each in iteration.carried:
        carried.setdefault(each.reader, []).append(each)
    missing: dict[str, None] = {}
    types = [_of_type(profile, number, missing) for number in range(len(machine.types))]
    pieces = len(found.writers)
    tasks = []
    for number, operation in enumerate(iteration.operations):
        of = profile.classes[operation.of]
        needs: dict[tuple[int, int, int], int] = {}
        for piece, size, why, writer in found.fresh[number]:
            if writer != UNWRITTEN and why is not Why.ANYTHING:
                key = (_root(found.parents, piece), writer, 0)
                needs[key] = needs.get(key, 0) + size
        for place, each in enumerate(iteration.carried):
            if each.reader == number:
                needs[pieces + place, each.writer, each.back] = each.bytes
        way = Way.FROM_HOST if of.from_host else Way.TO_HOST if of.to_host else Way.COMPUTE
        others = tuple(each for each in operation.after if iteration.operations[each].stream != operation.stream)
        tasks.append(
            Task(
                operation.of,
                of.what,
                way,
                operation.stream,
                operation.host_ns,
                tuple(types[gpu][operation.of][0] for gpu in machine.gpus),
                tuple(types[gpu][operation.of][1] for gpu in machine.gpus),
                tuple(Need(piece, writer, size, back) for (piece, writer, back), size in needs.items()),
                others,
                operation.waits,
                operation.returned,
                sum(access.size for access in operation.accesses if access.kind.value in "ws"),
                of.bytes,
                bool(operation.unknown) or way is Way.FROM_HOST or (way is Way.TO_HOST and of.bytes > READ_BACK),
                bool(operation.unknown),
            )
        )
    return Work(tuple(tasks), max((each.back for each in iteration.carried), default=0), tuple(missing))


def _root(parents: Sequence[int], piece: int) -> int:
    while parents[piece] != piece:
        piece = parents[piece]
    return piece


def _of_type(profile: Profile, gpu_type: int, missing: dict[str, None]) -> list[tuple[float, float]]:
    """By class: nanoseconds, and share of the GPU."""
    kind, home, emulated = profile.machine.types[gpu_type], profile.machine.home_type, profile.machine.emulated
    found = []
    for of in profile.classes:
        time = of.times[gpu_type]
        if time is None:
            missing[kind.name] = None
            time = of.times[home]
        ns = time.ns if time is not None else 0.0
        # What keeps the memory busy leaves none for others; emulated GPUs do not look at that.
        rate = (
            0.0 if emulated or not ns or not kind.memory_bytes_per_s else of.bytes / ns * 1e9 / kind.memory_bytes_per_s
        )
        found.append((ns, min(max(share_of(of, kind), rate), 1.0)))
    return found


def share_of(of: LaunchClass, kind: GpuType) -> float:
    """Of the GPU's SMs that a launch takes, as far as its shape says: registers may keep more blocks from fitting."""
    if of.what is What.MEMSET:
        return MEMSET
    threads = of.block[0] * of.block[1] * of.block[2]
    sms = kind.sm_limit or kind.sm_count
    if of.what is not What.LAUNCH or not threads or not sms or not kind.threads_per_sm:
        return 1.0
    resident = min(kind.threads_per_sm // -(-threads // 32 * 32 or 32), kind.blocks_per_sm or 32)
    if of.shared_bytes and kind.shared_per_sm_bytes:
        resident = min(resident, kind.shared_per_sm_bytes // of.shared_bytes)
    blocks = of.grid[0] * of.grid[1] * of.grid[2]
    whole = sms / kind.sm_count
    return max(min(blocks / (max(resident, 1) * sms), 1.0) * whole, 0.001)
