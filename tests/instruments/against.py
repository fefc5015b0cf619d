"""Compares what machine code says with what PTX says of the same kernel, for random launches."""

from __future__ import annotations

import json
import random
import subprocess
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from tests.e2e.build import find_toolkit
from tests.instruments.live import live
from tests.instruments.oracle import Interval, inside, spread, union
from tests.instruments.pieces import emulated
from tests.instruments.plan import Kernel
from tests.instruments.trials import End, Trials
from tests.instruments.undefined import divides_by_zero

Named = tuple[str, int, int]  # a variable, or "", and an interval

_BUFFERS = 0x7F00_0000_0000  # where the first lies; they are as far apart as twice their size
_BUFFER_BYTES = 1 << 28
_SEED = 7
_KIN = 200
_ALIKE = (End.UNUSED, End.OPEN)  # machine code is no different

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
    """Of one kernel: how many of its launches are what.

    `missing`: machine ranges lack bytes that were traced, or whether they do could not be told (`undecided`).
    `narrower`: they lack bytes of the PTX's ranges, but hold all that was traced: PTX says too much.
    `open`: the same, but where PTX leaves it open what the launch does: it divides by zero, or uses a register that has
    no value.
    `unequal`: they have bytes that the PTX's have not.
    `dead`: they lack only bytes of loads whose values nobody uses, at least in that launch: ptxas leaves them out, or
    moves them to where they are used.
    `ended`: trials that came to their end, and touched nothing else.
    """

    name: str
    launches: int = 0
    missing: int = 0
    undecided: int = 0
    unequal: int = 0
    narrower: int = 0
    open: int = 0
    dead: int = 0
    ended: int = 0
    ptx_unknown: set[str] = field(default_factory=set)
    machine_unknown: set[str] = field(default_factory=set)
    example: str = ""

    @property
    def is_superset(self) -> bool:
        return self.missing == 0

    @property
    def is_equal(self) -> bool:
        """Whether every launch has the same ranges, up to dead loads and what PTX leaves open."""
        return self.missing == self.unequal == self.narrower == 0


@dataclass(slots=True)
class Sides:
    """The templates of one kernel: of its machine code, of its PTX, and of that without dead loads (`live`)."""

    ours: Template
    theirs: Template
    live: Template


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
    source: str, path: Path, code: Code, launches: int, is_wanted: Wanted = lambda _: True, trials: int = 0
) -> Iterator[Verdict]:
    """A verdict on each wanted kernel that is in both. `source`: the PTX; it lies in `path`, and traces beside it.

    `trials`: launches of each that are made on the emulated driver, whether PTX says more than machine code or not.
    """
    module, lived = read(source), live(source, is_wanted)
    lively = module if lived == source else read(lived)
    for function in module.kernels:
        if is_wanted(function.name) and code.listing.lines(function.name) is not None:
            yield verdict(module, lively, function, lived, path, code, launches, trials)


def verdict(
    module: Module, lively: Module, function: Function, lived: str, path: Path, code: Code, launches: int, trials: int
) -> Verdict:
    """`lively`: the module without dead loads, `lived` its text."""
    found = Verdict(function.name)
    ours, theirs = code.template(function.name), build(module, function)
    if ours is None:
        found.machine_unknown.add("no description of its parameters")
        return found
    needed = lively.functions[function.name]
    sides = Sides(ours, theirs, theirs if lively is module else build(lively, needed))
    text, chance = path.with_suffix(".live.ptx"), random.Random(_SEED)
    kernel = Kernel(text, needed, sides.live, lived)
    draw = kernel.aligned_job if "wmma." in lived[needed.begin : needed.end] else kernel.job
    jobs = [draw(chance) for _ in range(launches)]
    doubtful = {job: lack for job in jobs if (lack := compare(found, sides, launch_of(json.loads(job))))}
    if doubtful or trials:
        text.write_text(emulated(lived))
        made = Trials(path.parent, lambda launch: evaluate(ours, launch))
        settle(found, sides, kernel, doubtful, made)
        ends = Counter(made.ends([kernel.tamed(draw(chance), chance) for _ in range(trials)]))
        found.missing += ends[End.LACKS]
        found.ended += ends[End.HELD] + ends[End.UNUSED]
        found.example = made.lacking or found.example
    return found


def settle(found: Verdict, sides: Sides, kernel: Kernel, doubtful: Mapping[str, str], trials: Trials) -> None:
    """Runs the doubtful jobs on the emulated driver: what they touch decides. `doubtful`: what each lacks.

    Those that do not come to their end show too little: others like them are made, up to a few that do.
    """
    jobs = list(doubtful)
    ends = list(trials.ends(jobs))
    if End.NONE in ends:
        chance = random.Random(_SEED)
        kin = dict.fromkeys(kernel.tamed(chance.choice(jobs), chance) for _ in range(_KIN))
        decided = trials.decided(job for job in kin if compare(Verdict(""), sides, launch_of(json.loads(job))))
        ends = [decided if end is End.NONE else end for end in ends]
    held = [job for job, end in zip(jobs, ends, strict=True) if end is End.HELD]
    is_open = {job: divides_by_zero(sides.theirs, launch_of(json.loads(job))) for job in held}
    found.narrower += len(held) - sum(is_open.values())
    found.open += sum(is_open.values()) + ends.count(End.OPEN)
    found.dead += ends.count(End.UNUSED)
    found.undecided += ends.count(End.NONE)
    found.missing += ends.count(End.NONE) + ends.count(End.LACKS)
    differ = (job for job, end in zip(jobs, ends, strict=True) if end not in _ALIKE and not is_open.get(job))
    found.example = next((doubtful[job] for job in differ), found.example)


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


def compare(found: Verdict, sides: Sides, launch: Launch) -> str:
    """Adds one launch's ranges to a verdict. The result says which bytes the machine's lack that are needed, "" when
    they lack none.
    """
    theirs, ours = evaluate(sides.theirs, launch), evaluate(sides.ours, launch)
    needed = theirs if sides.live is sides.theirs else evaluate(sides.live, launch)
    found.launches += 1
    found.ptx_unknown |= {reason for _, reason in theirs.unknown}
    found.machine_unknown |= {reason for _, reason in ours.unknown}
    if theirs.unknown or ours.unknown:
        found.unequal += bool(ours.unknown) != bool(theirs.unknown)
        if ours.unknown and not found.example:
            found.example = str(ours.unknown[:2])
        return ""
    is_more = is_dead = False
    for kind in AccessKind:
        expected, seen, least = (bytes_of(each, {kind}) for each in (theirs, ours, needed))
        if missed := outside(least, seen):
            return f"missing {kind.value} {missed[:2]} of {least[:3]}, found {seen[:3]}"
        is_dead |= bool(outside(expected, seen))
        # An atomic operation reads and writes; ptxas makes loads and stores of some.
        if outside(seen, bytes_of(theirs, {kind, AccessKind.ATOMIC})):
            is_more = True
            found.example = found.example or f"{kind.value}: expected {expected[:3]}, found {seen[:3]}"
    found.unequal += is_more
    found.dead += is_dead
    return ""


def bytes_of(result: Result, kinds: set[AccessKind]) -> list[Named]:
    """Ascending intervals of accesses of these kinds, by variable; pointers have addresses."""
    found: list[Named] = []
    names = {each.variable or "" for each in result.ranges}
    for name in sorted(names):
        ranges = [each for each in result.ranges if each.kind in kinds and (each.variable or "") == name]
        found += [(name, begin, end) for begin, end in union(i for each in ranges for i in spread(each))]
    return found


def outside(intervals: Iterable[Named], of: Sequence[Named]) -> list[Named]:
    """Those that do not lie in the others."""
    known: dict[str, list[Interval]] = defaultdict(list)
    for name, begin, end in of:
        known[name].append((begin, end))
    return [each for each in intervals if not inside(each[1:], known[each[0]])]
