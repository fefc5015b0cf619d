"""Rows of a buffer that several launches share: rows_guest.py LAUNCH...

A launch is PLACE_WHAT: home_* and one_* are to run on these GPUs. What it does: `fill` overwrites all of the buffer,
`upper` the first third of each row, `lower` the rest of each, `read` copies all of it to another buffer. Prints the
sum of what the last `read` found.
"""

import ctypes
import sys
from pathlib import Path
from typing import TypeAlias

import numpy
import numpy.typing
from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, functions, use_gpu

KERNEL = """
.visible .entry {name}(.param .u64 to, .param .u64 from, .param .u32 value)
{{
    .reg .b64 %a<5>;
    .reg .b32 %r<8>;
    ld.param.u64 %a1, [to];
    ld.param.u64 %a3, [from];
    ld.param.u32 %r1, [value];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r2, %r2, %r3, %r4;
    mov.u32 %r5, %ctaid.y;
    mad.lo.u32 %r2, %r5, {words}, %r2;
    mul.wide.u32 %a2, %r2, 4;
    add.u64 %a1, %a1, %a2;
    add.u64 %a3, %a3, %a2;
    {body}
    st.global.u32 [%a1], %r6;
    ret;
}}
"""
WRITE = "mad.lo.u32 %r6, %r1, %r2, %r1;"
READ = "ld.global.u32 %r6, [%a3];"
Numbers: TypeAlias = "numpy.typing.NDArray[numpy.uint32]"
BLOCK, BLOCKS, ROWS = 128, 3, 72
FIRST = 3  # number of a launch
WORDS = BLOCK * BLOCKS  # of a row
BYTES = 4 * WORDS * ROWS
PARTS = {"fill": (0, BLOCKS), "upper": (0, 1), "lower": (1, BLOCKS - 1), "read": (0, BLOCKS)}  # first block, blocks


def weighted(numbers: Numbers) -> int:
    return int((numbers.astype(numpy.uint64) * numpy.arange(1, numbers.size + 1, dtype=numpy.uint64)).sum())


def expected(launches: list[str]) -> int:
    """What is printed, whatever the places."""
    shared = numpy.zeros((ROWS, WORDS), numpy.uint32)
    found = shared
    for number, name in enumerate(launches, FIRST):
        what = name.split("_")[1]
        first, blocks = PARTS[what]
        columns = numpy.arange(BLOCK * blocks, dtype=numpy.uint32)
        rows = numpy.arange(ROWS, dtype=numpy.uint32)[:, None] * WORDS
        if what == "read":
            found = shared.copy()
        else:
            shared[:, BLOCK * first : BLOCK * (first + blocks)] = (rows + columns + 1) * number
    return weighted(found.ravel())


def main() -> None:
    use_gpu()
    names = {f"{place}_{what}": READ if what == "read" else WRITE for place in ("home", "one") for what in PARTS}
    made = functions(*(KERNEL.format(name=name, body=body, words=WORDS) for name, body in names.items()))
    stream = call(driver.cuStreamCreate(1))
    shared, found = (int(call(driver.cuMemAlloc(BYTES))) for _ in range(2))
    kinds = (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint32)
    for number, name in enumerate(sys.argv[1:], FIRST):
        first, blocks = PARTS[name.split("_")[1]]
        to, source = (found, shared) if name.endswith("read") else (shared + 4 * BLOCK * first, found)
        values = ((to, source, number), kinds)
        call(driver.cuLaunchKernel(made[name], blocks, ROWS, 1, BLOCK, 1, 1, 0, stream, values, 0))
    call(driver.cuStreamSynchronize(stream))
    numbers = numpy.zeros(BYTES // 4, numpy.uint32)
    call(driver.cuMemcpyDtoH(numbers, found, numbers.nbytes))
    print(weighted(numbers))


if __name__ == "__main__":
    main()
