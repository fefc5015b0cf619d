"""Launches that use variables of their module, which the program changes between them, and prints what they did.

Argument 1: `module` or `library`, the way in which the code is loaded. Each launch has THREADS threads: thread i adds
scale[i % 4] to counters[i % 4] and stores what was there, and 1000 for each launch before, in element i of memory.
`scale` is constant memory; launches are counted in a variable that the module keeps to itself. With a second argument
it waits for the analysis before the second launch.
"""

from __future__ import annotations

import ctypes
import json
import sys
from array import array
from pathlib import Path
from typing import Any

from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, use_gpu
from tests.templates import wait_for

THREADS, LAUNCHES, ACCESSES = 32, 3, 4  # of each thread
NAME, FIRST_SCALE = "count", (1, 2, 3, 4)
TEXT = """.version 7.0
.target sm_70
.address_size 64
.visible .global .align 4 .u32 counters[4];
.global .align 4 .u32 launches[32];
.visible .const .align 4 .u32 scale[4] = {1, 2, 3, 4};
.visible .entry count(.param .u64 to)
{
    .reg .b64 %a<4>;
    .reg .b32 %r<6>;
    ld.param.u64 %a1, [to];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %a2, %r1, 4;
    add.u64 %a1, %a1, %a2;
    mov.u64 %a3, launches;
    add.u64 %a3, %a3, %a2;
    ld.global.u32 %r4, [%a3];
    add.u32 %r5, %r4, 1;
    st.global.u32 [%a3], %r5;
    and.b32 %r1, %r1, 3;
    mul.wide.u32 %a2, %r1, 4;
    mov.u64 %a3, scale;
    add.u64 %a3, %a3, %a2;
    ld.const.u32 %r2, [%a3];
    mov.u64 %a3, counters;
    add.u64 %a3, %a3, %a2;
    atom.global.add.u32 %r3, [%a3], %r2;
    mad.lo.u32 %r3, %r4, 1000, %r3;
    st.global.u32 [%a1], %r3;
    ret;
}
"""


def loaded(way: str) -> tuple[Any, dict[str, int]]:
    """The function, and where the variables are."""
    text = TEXT.encode() + b"\0"
    if way == "library":
        library = call(driver.cuLibraryLoadData(text, [], [], 0, [], [], 0))
        function, find = call(driver.cuLibraryGetKernel(library, NAME.encode())), driver.cuLibraryGetGlobal
    else:
        library = call(driver.cuModuleLoadData(text))
        function, find = call(driver.cuModuleGetFunction(library, NAME.encode())), driver.cuModuleGetGlobal
    return function, {name: int(call(find(library, name.encode()))[0]) for name in ("counters", "scale")}


def contents(address: int, count: int) -> list[int]:
    words = array("I", bytes(4 * count))
    call(driver.cuMemcpyDtoH(words.buffer_info()[0], address, 4 * count))
    return list(words)


def scale_of(launch: int) -> tuple[int, ...]:
    return tuple(10 * launch + each for each in FIRST_SCALE)


def model() -> list[list[list[int]]]:
    """What is printed of each launch: the counters, and what was stored, sorted."""
    counters, found = [0] * 4, []
    for launch in range(LAUNCHES):
        stored = []
        for thread in range(THREADS):
            stored.append(1000 * launch + counters[thread % 4])
            counters[thread % 4] += scale_of(launch)[thread % 4]
        found.append([list(counters), sorted(stored)])
    return found


def main() -> None:
    use_gpu()
    stream = call(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
    function, places = loaded(sys.argv[1])
    memory = int(call(driver.cuMemAlloc(4 * THREADS)))
    for launch in range(LAUNCHES):
        scale = array("I", scale_of(launch))
        if launch:
            call(driver.cuMemcpyHtoD(places["scale"], scale.buffer_info()[0], 4 * len(scale)))
        arguments = ((memory,), (ctypes.c_void_p,))
        kernel = driver.CUfunction(int(function))
        call(driver.cuLaunchKernel(kernel, 1, 1, 1, THREADS, 1, 1, 0, stream, arguments, 0))
        call(driver.cuStreamSynchronize(stream))
        if len(sys.argv) > 2:
            wait_for(1)
        print(json.dumps([contents(places["counters"], 4), sorted(contents(memory, THREADS))]))


if __name__ == "__main__":
    main()
