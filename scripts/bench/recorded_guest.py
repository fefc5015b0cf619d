"""A program that launches what another one did: `recorded_guest.py FILE SCALE [TIMES [LAUNCHES]]`.

FILE has launches with their ranges and times, as scripts/bench/schedule reads them, in the same sense. Each becomes the
launch of a kernel that reads and writes the same ranges and takes as long (a sleep; the median of its shape), in one
stream. Memory is smaller by SCALE: each stretch between two ends of ranges is, and no stretch is less than 16 bytes, so
that what overlapped does, and what did not does not. What lay less than 1 MiB apart is one allocation. Launches of a
kernel whose ranges have other sizes get another amount of shared memory: by their grids, which are not recorded, they
could be told apart. TIMES: how often all of it is launched, one after the other (1). LAUNCHES: only the first so many.
Prints a digest of all memory at the end.
"""

import ctypes
import gzip
import hashlib
import itertools
import json
import sys
from bisect import bisect_left
from pathlib import Path
from statistics import median
from typing import Any

import numpy
from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, functions, use_gpu

APART, LEAST, THREADS = 1 << 20, 16, 256
SHAPE_BYTES, SHARED = 16, 48 << 10
READ = "ld.global.u32 %v, [%p]; mad.lo.u32 %sum, %sum, 3, %v;"
Range = tuple[str, int, int]
Launch = tuple[int, float, list[Range]]  # function, microseconds, what it touches


class Memory:
    """Addresses of the recorded program to ours."""

    def __init__(self, ranges: list[Range], scale: int) -> None:
        self.ends = sorted({at for _, first, end in ranges for at in (first, end)})
        self.at = [0] * len(self.ends)
        covered = sorted((first, end) for _, first, end in ranges)
        segments = [[covered[0][0], covered[0][1]]]
        for first, end in covered[1:]:
            if first > segments[-1][1] + APART:
                segments.append([first, end])
            segments[-1][1] = max(segments[-1][1], end)
        self.buffers: list[tuple[int, int]] = []
        for first, end in segments:
            low, high = bisect_left(self.ends, first), bisect_left(self.ends, end)
            sizes = [
                max(LEAST, (b - a) // scale // LEAST * LEAST) for a, b in itertools.pairwise(self.ends[low : high + 1])
            ]
            buffer = int(call(driver.cuMemAlloc(sum(sizes))))
            call(driver.cuMemsetD8(buffer, 1, sum(sizes)))
            self.buffers.append((buffer, sum(sizes)))
            for number, size in enumerate([*itertools.accumulate(sizes, initial=buffer)]):
                self.at[low + number] = size

    def __call__(self, address: int) -> int:
        return self.at[bisect_left(self.ends, address)]

    def digest(self) -> str:
        found = hashlib.sha256()
        for buffer, size in self.buffers:
            taken = numpy.zeros(size, numpy.uint8)
            call(driver.cuMemcpyDtoH(taken, buffer, size))
            found.update(taken.tobytes())
        return found.hexdigest()[:16]


def known(tier: str, ranges: list[list[Any]]) -> list[Range]:
    """What a library call reads and writes as one range is its workspace, or its result; wholes: see there."""
    some = {
        (str(kind)[0], int(first), int(end)) for kind, first, end, whole in ranges if not (whole and kind == "read")
    }
    written = {each[1:] for each in some if each[0] == "w"}
    return sorted(each for each in some if not (tier == "call" and each[0] == "r" and each[1:] in written))


def split(ranges: list[Range]) -> list[Range]:
    """Those that overlap, if one is written, have the same ends then: each thread uses the same place of both."""
    ends = sorted({at for _, first, end in ranges for at in (first, end)})
    parts: list[Range] = []
    for kind, first, end in ranges:
        others = [each for each in ranges if each != (kind, first, end) and each[0] + kind != "rr"]
        inner = [at for at in ends if first < at < end and any(f < end and first < e for _, f, e in others)]
        parts += [(kind, a, b) for a, b in itertools.pairwise([first, *inner, end])]
    return list(dict.fromkeys(parts))


def shape_of(function: int, ranges: list[Range]) -> tuple[int, ...]:
    return (function, *(end - first for _, first, end in ranges))


def with_times_of_shapes(launches: list[Launch]) -> list[Launch]:
    """Launches that were not timed when they were recorded have the median of their function, whatever their shape."""
    times: dict[tuple[int, ...], list[float]] = {}
    for function, us, ranges in launches:
        times.setdefault(shape_of(function, ranges), []).append(us)
    return [(function, median(times[shape_of(function, ranges)]), ranges) for function, _, ranges in launches]


def kernel(name: str, kinds: str) -> str:
    parameters = [f".param .u64 p{n}, .param .u32 c{n}" for n in range(len(kinds))] + [".param .u32 ns"]
    lines = [
        ".reg .b64 %p, %at; .reg .b32 %i, %b, %t, %sum, %v, %c; .reg .pred %in;",
        "ld.param.u32 %c, [ns]; nanosleep.u32 %c;",
        "mov.u32 %b, %ctaid.x; mov.u32 %t, %ntid.x; mov.u32 %i, %tid.x; mad.lo.u32 %i, %b, %t, %i;",
        "mul.wide.u32 %at, %i, 4; mov.u32 %sum, %i;",
    ]
    for n in sorted(range(len(kinds)), key=lambda n: kinds[n] == "w"):
        lines += [
            f"ld.param.u32 %c, [c{n}]; setp.ge.u32 %in, %i, %c; @%in bra L{n};",
            f"ld.param.u64 %p, [p{n}]; add.u64 %p, %p, %at;",
            "ld.global.u32 %v, [%p]; mad.lo.u32 %sum, %sum, 3, %v;"
            if kinds[n] == "r"
            else f"add.u32 %v, %sum, {n}; st.global.u32 [%p], %v;",
            f"L{n}:",
        ]
    return f".visible .entry {name}({', '.join(parameters)})\n{{\n" + "\n".join([*lines, "ret;"]) + "\n}\n"


def main() -> None:
    path, scale, *numbers = sys.argv[1:]
    times = int(numbers[0]) if numbers else 1
    most = int(numbers[1]) if len(numbers) > 1 else None
    recorded = json.loads(gzip.decompress(Path(path).read_bytes()))["launches"][:most]
    launches = with_times_of_shapes([(f, us, split(known(tier, ranges))) for f, us, tier, ranges in recorded])
    use_gpu()
    memory = Memory([each for *_, ranges in launches for each in ranges], int(scale))
    kinds = {(f, "".join(kind for kind, *_ in ranges)) for f, _, ranges in launches}
    found = functions(*(kernel(f"f{f}_{what}", what) for f, what in sorted(kinds)))
    shapes: dict[tuple[Any, ...], int] = {}
    stream = call(driver.cuStreamCreate(1))
    call(driver.cuCtxSynchronize())
    for f, us, ranges in launches * times:
        name = f"f{f}_" + "".join(kind for kind, *_ in ranges)
        values: list[Any] = []
        most_words = 1
        for _, first, end in ranges:
            at, words = memory(first), (memory(end) - memory(first)) // 4
            values += [at, words]
            most_words = max(most_words, words)
        types = (ctypes.c_uint64, ctypes.c_uint32) * len(ranges) + (ctypes.c_uint32,)
        parameters = ((*values, int(us * 1000)), types)
        blocks = -(-most_words // THREADS)
        shape = shapes.setdefault(shape_of(f, ranges), len(shapes)) * SHAPE_BYTES
        call(driver.cuLaunchKernel(found[name], blocks, 1, 1, THREADS, 1, 1, shape % SHARED, stream, parameters, 0))
    call(driver.cuStreamSynchronize(stream))
    print(memory.digest())


main()
