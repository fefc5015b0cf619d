"""A plan as a run follows it (tessera/plan.h): in the form that the shim reads, and the shim's counters in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from controlplane.base.content import content_hash
from controlplane.graph.nodes import What
from controlplane.plan.adapt import Row, Shape
from controlplane.plan.planfile import ClassHint, Plan
from ptxtools.errors import ConfigError
from ptxtools.native import records

HEADER = "plan.h"
FIRST_GENERATION = 1
GIVES, SET, COPY, LAUNCH = "TSR_PLAN_GIVE", "TSR_PLAN_SET", "TSR_PLAN_COPY", "TSR_PLAN_LAUNCH"


@dataclass(frozen=True, slots=True)
class Followed:
    """What became of launches, copies and memsets that were placed one by one while there was a plan.

    followed: the plan said where. stayed: it named another GPU, to which they could not go. The others the rule placed:
    unknown: they are not in the plan; other_code: the plan has the function, with other code; unexpected: the program
    did something else than in the plan; unplaced: not enough was seen yet to tell which of several places it is.
    requests: iterations begun; in_flight: how many were then, the sum. swaps: plans that replaced others.
    """

    followed: int
    stayed: int
    unknown: int
    other_code: int
    unexpected: int
    unplaced: int
    requests: int
    in_flight: int
    swaps: int

    @property
    def placed(self) -> int:
        return self.followed + self.stayed + self.unknown + self.other_code + self.unexpected + self.unplaced

    @property
    def is_of_other_code(self) -> bool:
        """Nothing that was launched is in the plan."""
        return self.placed > 0 and self.placed == self.unknown + self.other_code


@dataclass(frozen=True, slots=True)
class Observed:
    """What a run's processes tell. start_ns: of the first launch; followed_ns: when the plan in use was first followed.
    is_current: of the plan in use, and not of one before. ns: by its classes, by GPU, 0 where it is not known; lost:
    GPUs; shapes: by class, the one that its function has most often instead.
    """

    start_ns: float
    followed_ns: float
    now_ns: float
    is_current: bool
    counts: Followed
    ns: tuple[Row, ...]
    lost: frozenset[int]
    shapes: dict[int, tuple[Shape, Row]]


def size() -> int:
    ffi, _ = records.header(HEADER)
    return int(ffi.sizeof("struct tsr_plan"))


def compiled(plan: Plan, file: Path, *, adapts: bool = False) -> bytes:
    """The whole record in its first generation. adapts: others may follow. Errors: ConfigError, of a plan that is too
    large to be followed.
    """
    ffi, text = records.header(HEADER)
    record: Any = ffi.new("struct tsr_plan *")
    record.magic = records.constant(text, "TSR_PLAN_MAGIC", HEADER)
    record.version = records.constant(text, "TSR_PLAN_VERSION", HEADER)
    record.bytes = ffi.sizeof(record[0])
    record.generation, record.adapts = FIRST_GENERATION, adapts
    _write(record.tables[FIRST_GENERATION % 2], plan, file)
    return bytes(ffi.buffer(record))


def replace(buffer: Any, plan: Plan, file: Path) -> int:
    """Puts another plan into a live record, as its next generation, whose number is the result."""
    ffi, _ = records.header(HEADER)
    record: Any = ffi.from_buffer("struct tsr_plan *", buffer, require_writable=True)
    generation = int(record.generation) + 1
    table = record.tables[generation % 2]
    ffi.memmove(ffi.addressof(table), bytes(ffi.sizeof(table)), ffi.sizeof(table))
    _write(table, plan, file)
    record.generation = generation
    return generation


def observed(buffer: Any, gpus: int) -> Observed:
    ffi, _ = records.header(HEADER)
    record: Any = ffi.from_buffer("struct tsr_plan *", buffer)
    generation = int(record.generation)
    rows = tuple(_row(record.observed_ns[place], gpus) for place in range(record.tables[generation % 2].class_count))
    shapes, most = dict[int, tuple[Shape, Row]](), dict[int, int]()
    for shape in record.shapes[0 : min(int(record.shape_count), len(record.shapes))]:
        if int(shape.launches) > most.get(int(shape.of), 0):
            most[int(shape.of)] = int(shape.launches)
            of = (tuple(map(int, shape.grid)), tuple(map(int, shape.block)), int(shape.shared_bytes))
            shapes[int(shape.of)] = of, _row(shape.ns, gpus)  # type: ignore[assignment]
    return Observed(
        float(record.start_ns),
        float(record.followed_ns),
        float(record.now_ns),
        int(record.observed_generation) == generation,
        Followed(*(int(getattr(record.counts, each.name)) for each in fields(Followed))),
        rows,
        frozenset(gpu for gpu in range(gpus) if record.lost >> gpu & 1),
        shapes,
    )


def _row(ns: Any, gpus: int) -> Row:
    return tuple(float(ns[gpu]) for gpu in range(gpus))


def _write(table: Any, plan: Plan, file: Path) -> None:
    ffi, _ = records.header(HEADER)
    for what, count, most in (
        ("classes", len(plan.classes), len(table.classes)),
        ("operations", len(plan.operations), len(table.class_of)),
        ("placements", len(plan.placements), len(table.placements)),
        ("groups", len(plan.groups), len(table.groups)),
    ):
        if count > most:
            expected = f"at most {most} of a plan that is followed"
            raise ConfigError(f"it has {count} {what}", expected=expected, file=file)
    table.class_count, table.operation_count = len(plan.classes), len(plan.operations)
    table.group_count, table.placement_count = len(plan.groups), len(plan.placements)
    table.compares_reads, table.carries = not _tells_places(plan), plan.carries
    kinds: dict[str, int] = ffi.typeof("enum tsr_plan_what").relements
    for record, of in zip(table.classes, plan.classes, strict=False):
        _write_class(record, of, kinds)
    table.class_of[0 : len(plan.operations)] = plan.operations
    for number in plan.continues:
        table.continues[number] = 1
    for record, group in zip(table.groups, plan.groups, strict=False):
        record.count = len(group.gpus)
        record.gpus[0 : len(group.gpus)] = group.gpus
    for record, placement in zip(table.placements, plan.placements, strict=False):
        record.weight = placement.weight
        for run in placement.runs:
            record.group[run.first : run.end] = [run.kind] * (run.end - run.first)


def _write_class(record: Any, of: ClassHint, kinds: dict[str, int]) -> None:
    if of.what is What.LAUNCH:
        record.what, record.name = kinds[LAUNCH], content_hash(of.function.encode())
        record.code = int(of.module or "0", 16)
        for place in range(3):
            record.grid[place], record.block[place] = of.grid[place], of.block[place]
        record.shared_bytes = of.shared_bytes
    else:
        record.what = kinds[SET if of.what is What.MEMSET else GIVES if of.from_host else COPY]
        record.size = of.bytes.bit_length()


def _tells_places(plan: Plan) -> bool:
    """Whether the classes of launches tell where in the iteration one is: no turn of their sequence is the same."""
    launches = [of for of in plan.operations if plan.classes[of].what is What.LAUNCH]
    return _period(launches) == len(launches)


def _period(sequence: Sequence[int]) -> int:
    """Of a sequence that goes round: the shortest turn that leaves it as it is (Knuth, Morris and Pratt)."""
    border, length = [0] * len(sequence), 0
    for place in range(1, len(sequence)):
        while length and sequence[place] != sequence[length]:
            length = border[length - 1]
        length += sequence[place] == sequence[length]
        border[place] = length
    period = len(sequence) - (border[-1] if border else 0)
    return period if period and len(sequence) % period == 0 else len(sequence)
