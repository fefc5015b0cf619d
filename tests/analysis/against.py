"""Compares what machine code says with what PTX says of the same kernel, for random launches."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ptxtools.access.build import build
from ptxtools.access.template import AccessKind, Template
from ptxtools.machine import build as machine
from ptxtools.machine.cubin import Cubin
from ptxtools.machine.cubin import read as read_cubin
from ptxtools.machine.listing import Listing
from ptxtools.ranges import Launch, Result, evaluate
from ptxtools.reader import Function, Module, read
from tests.analysis.campaign import launched
from tests.analysis.oracle import Interval, Traced, inside, spread, union
from tests.analysis.oracle import launches as traced_launches
from tests.analysis.plan import Kernel
from tests.e2e.build import find_toolkit

_BUFFERS = 0x7F00_0000_0000  # where the first lies; they are as far apart as twice their size
_BUFFER_BYTES = 1 << 28
_SEED = 7
_STALL_S = 10.0

Wanted = Callable[[str], bool]  # whether a kernel of this name is wanted


class Code:
    """The machine code of a cubin, of kernels that are wanted; a template is made when it is asked for."""

    def __init__(self, data: bytes, is_wanted: Wanted = lambda _: True) -> None:
        self.cubin: Cubin = read_cubin(data)
        self.listing = Listing(data, self.cubin)
        self.listing.want(name for name in self.cubin.kernels if is_wanted(name))

    def template(self, name: str) -> Template | None:
        kernel, lines = self.cubin.kernels.get(name), self.listing.lines(name)
        return machine.build(self.cubin, kernel, lines) if kernel and lines is not None else None


@dataclass(slots=True)
class Verdict:
    """Of one kernel. `missing`: launches whose machine ranges lack bytes of the PTX's; `unequal`: those that differ.

    `doubtful`: jobs of the missing ones. `narrower`: those of them whose traced bytes machine code holds all the same:
    there it is PTX that says too much.
    """

    name: str
    launches: int = 0
    missing: int = 0
    unequal: int = 0
    narrower: int = 0
    doubtful: list[str] = field(default_factory=list)
    ptx_unknown: set[str] = field(default_factory=set)
    machine_unknown: set[str] = field(default_factory=set)
    example: str = ""
    excess: float = 0.0

    @property
    def is_superset(self) -> bool:
        return self.missing == 0

    @property
    def is_equal(self) -> bool:
        """Whether every launch has the same ranges."""
        return self.missing == self.unequal == self.narrower == 0


def assemble(text: Path, architecture: int, directory: Path, *options: str) -> bytes:
    """The cubin that ptxas makes of a PTX text. Errors: ValueError with what it said."""
    tool = find_toolkit().nvcc.resolve().with_name("ptxas")
    output = directory / f"{text.stem}.{architecture}.cubin"
    done = subprocess.run(
        [tool, f"-arch=sm_{architecture}", *options, "-o", output, text], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ValueError(done.stderr.strip().splitlines()[-1] if done.stderr else "ptxas failed")
    return output.read_bytes()


def verdicts(
    source: str, path: Path, code: Code, launches: int, is_wanted: Wanted = lambda _: True
) -> Iterator[Verdict]:
    """A verdict on each wanted kernel that is in both. `source`: the PTX; it lies in `path`, and traces beside it."""
    module = read(source)
    for function in module.kernels:
        if is_wanted(function.name) and code.listing.lines(function.name) is not None:
            found = verdict(module, function, source, path, code, launches)
            if found.doubtful:
                settle(found, code, path.parent)
            yield found


def verdict(module: Module, function: Function, source: str, path: Path, code: Code, launches: int) -> Verdict:
    found = Verdict(function.name)
    theirs, ours = build(module, function), code.template(function.name)
    if ours is None:
        found.machine_unknown.add("no description of its parameters")
        return found
    chance = random.Random(_SEED)
    kernel = Kernel(path, function, theirs, source)
    is_aligned = "wmma." in source[function.begin : function.end]
    for _ in range(launches):
        job = kernel.job(chance)
        if is_aligned:
            job = aligned(job, function)
        launch = launch_of(json.loads(job))
        before = found.missing
        compare(found, evaluate(theirs, launch), evaluate(ours, launch))
        if found.missing > before:
            found.doubtful.append(job)
    return found


def aligned(job: str, function: Function) -> str:
    """The job with sizes that are multiples of 16: wmma may not load rows that lie elsewhere."""
    entry = json.loads(job)
    values = bytearray(bytes.fromhex(entry["values"]))
    for each in function.parameters:
        if each.size == 4:
            values[each.offset] &= 0xF0
    return json.dumps({**entry, "values": values.hex()})


def settle(found: Verdict, code: Code, directory: Path) -> None:
    """Runs the doubtful jobs on the emulated driver: what they touch decides."""
    ours = code.template(found.name)
    ends = launched(found.doubtful, directory, {}, _STALL_S)
    made = [end for end in ends if end != "refused"]
    if ours is None or not made:
        return
    for end, traced in zip(made, traced_launches(directory / "trace"), strict=False):
        if end == "right" and holds(evaluate(ours, traced.launch), traced):
            found.narrower += 1
            found.missing -= 1


def holds(result: Result, traced: Traced) -> bool:
    """Whether every traced byte is in the ranges."""
    for kind, intervals in traced.accesses.items():
        expected = union(piece for each in result.ranges if each.kind is kind for piece in spread(each))
        if not all(inside(each, expected) for each in intervals):
            return False
    return True


def launch_of(job: dict[str, object]) -> Launch:
    """The launch that a job describes, in buffers that lie nowhere."""
    values = bytearray(bytes.fromhex(str(job["values"])))
    pointers = job["pointers"]
    assert isinstance(pointers, dict)
    for offset, number in pointers.items():
        address = _BUFFERS + 2 * number * _BUFFER_BYTES + _BUFFER_BYTES // 2
        values[int(offset) : int(offset) + 8] = address.to_bytes(8, "little")
    return Launch(bytes(values), _shape(job["grid"]), _shape(job["block"]), _allocation)


def _shape(sizes: object) -> tuple[int, int, int]:
    assert isinstance(sizes, list)
    x, y, z = sizes
    return x, y, z


def _allocation(address: int) -> Interval | None:
    number, place = divmod(address - _BUFFERS, 2 * _BUFFER_BYTES)
    if not 0 <= number < 6 or place >= _BUFFER_BYTES:
        return None
    begin = _BUFFERS + 2 * number * _BUFFER_BYTES
    return begin, begin + _BUFFER_BYTES


def compare(found: Verdict, theirs: Result, ours: Result) -> None:
    """Adds one launch's ranges to a verdict."""
    found.launches += 1
    found.ptx_unknown |= {reason for _, reason in theirs.unknown}
    found.machine_unknown |= {reason for _, reason in ours.unknown}
    if theirs.unknown or ours.unknown:
        found.unequal += bool(ours.unknown) != bool(theirs.unknown)
        if ours.unknown and not found.example:
            found.example = str(ours.unknown[:2])
        return
    unequal = False
    for kind in AccessKind:
        expected, seen = bytes_of(theirs, kind), bytes_of(ours, kind)
        missed = [each for each in expected if not covered(each, seen)]
        if missed:
            found.missing += 1
            found.example = f"missing {kind.value} {missed[:2]} of {expected[:3]}, found {seen[:3]}"
            return
        if expected != seen:
            unequal = True
            found.example = found.example or f"{kind.value}: expected {expected[:3]}, found {seen[:3]}"
    found.unequal += unequal


def bytes_of(result: Result, kind: AccessKind) -> list[tuple[str, int, int]]:
    """Ascending intervals, by variable; pointers have addresses."""
    found: list[tuple[str, int, int]] = []
    names = {each.variable or "" for each in result.ranges}
    for name in sorted(names):
        ranges = [each for each in result.ranges if each.kind is kind and (each.variable or "") == name]
        found += [(name, begin, end) for begin, end in union(i for each in ranges for i in spread(each))]
    return found


def covered(interval: tuple[str, int, int], seen: Sequence[tuple[str, int, int]]) -> bool:
    name, begin, end = interval
    return inside((begin, end), [(first, last) for other, first, last in seen if other == name])
