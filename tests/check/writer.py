"""Launches kernels as it is told, once their templates are there: a JSON list of launches on standard input.

Argument 1: how many threads do that, each in memory of its own. A launch is {function, count, offset}: of `count`
elements of 8 bytes, from that byte on, `even` adds 1 to the first word, `all` to both words, `quiet` writes nothing,
`plain` stores the element's number in the first word. A digest of each memory is printed in the end. Before the list's
launches each function has an empty one, so that it is analysed.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import sys
import threading
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import HEAD, call, use_gpu
from tests.templates import wait_for

KERNEL = """
.visible .entry {name}(.param .u64 to, .param .u32 count)
{{
    .reg .b64 %a<3>;
    .reg .b32 %r<5>;
    .reg .pred %p;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r1, %r1, %r2, %r3;
    ld.param.u32 %r2, [count];
    setp.ge.u32 %p, %r1, %r2;
    @%p bra done;
    ld.param.u64 %a1, [to];
    mul.wide.u32 %a2, %r1, 8;
    add.u64 %a1, %a1, %a2;
    mov.u32 %r3, 1;
{body}
done:
    ret;
}}
"""
WORD = "    atom.global.add.u32 %r4, [%a1], %r3;"
BODIES = {
    "even": WORD,
    "all": WORD + "\n    atom.global.add.u32 %r4, [%a1+4], %r3;",
    "quiet": "    ld.global.u32 %r4, [%a1];",
    "plain": "    st.global.u32 [%a1], %r1;",
}
THREADS = 128
ELEMENTS = 1 << 17
PAGE = 2 << 20
FILL = 7
TYPES = (ctypes.c_void_p, ctypes.c_uint32)


def text(bodies: dict[str, str]) -> bytes:
    return (HEAD + "".join(KERNEL.format(name=name, body=body) for name, body in bodies.items())).encode() + b"\0"


def model(launches: Sequence[dict[str, Any]]) -> array[int]:
    """The memory's words after the launches."""
    words = array("I", [FILL]) * (2 * ELEMENTS)
    for launch in launches:
        for i in range(launch["count"]):
            at = launch.get("offset", 0) // 4 + 2 * i
            name = launch["function"]
            words[at] = i if name == "plain" else words[at] + (name in ("even", "all"))
            words[at + 1] += name == "all"
    return words


def digest(words: array[int]) -> str:
    return hashlib.sha256(words.tobytes()).hexdigest()


def allocated(size: int) -> int:
    return int(call(driver.cuMemAlloc(size)))


def mapped(size: int) -> int:
    """Physical memory of the GPU, mapped in a reservation of the program's own."""
    properties = driver.CUmemAllocationProp()
    properties.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    access = driver.CUmemAccessDesc()
    access.location = properties.location
    access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    whole = (size + PAGE - 1) // PAGE * PAGE
    address = call(driver.cuMemAddressReserve(2 * whole, 0, 0, 0))
    call(driver.cuMemMap(address, whole, 0, call(driver.cuMemCreate(whole, properties, 0)), 0))
    call(driver.cuMemSetAccess(address, whole, [access], 1))
    return int(address)


class Worker(threading.Thread):
    """Makes the launches in memory and a stream of its own; between them it sets and copies other memory."""

    def __init__(
        self, number: int, context: Any, functions: dict[str, Any], launches: Sequence[dict[str, Any]]
    ) -> None:
        super().__init__()
        self._number, self._context, self._functions, self._launches = number, context, functions, launches
        self.result = array("I", [0]) * (2 * ELEMENTS)

    def run(self) -> None:
        call(driver.cuCtxSetCurrent(self._context))
        stream = call(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
        allocate = (allocated, mapped)[self._number % 2]
        memory, other = allocate(8 * ELEMENTS), allocate(8 * ELEMENTS)
        call(driver.cuMemsetD32Async(memory, FILL, 2 * ELEMENTS, stream))
        for turn, launch in enumerate(self._launches):
            call(driver.cuMemsetD32Async(other, turn, 2 * ELEMENTS, stream))
            blocks = (launch["count"] + THREADS - 1) // THREADS
            arguments = ((int(memory) + launch.get("offset", 0), launch["count"]), TYPES)
            function = self._functions[launch["function"]]
            call(driver.cuLaunchKernel(function, blocks, 1, 1, THREADS, 1, 1, 0, stream, arguments, 0))
            call(driver.cuMemcpyDtoDAsync(other, memory, 4 * ELEMENTS, stream))
        call(driver.cuStreamSynchronize(stream))
        call(driver.cuMemcpyDtoH(self.result.buffer_info()[0], memory, 8 * ELEMENTS))


def main() -> None:
    launches = json.load(sys.stdin)
    context = use_gpu()
    module = call(driver.cuModuleLoadData(text(BODIES)))
    functions = {name: call(driver.cuModuleGetFunction(module, name.encode())) for name in BODIES}
    memory = call(driver.cuMemAlloc(4))
    for function in functions.values():
        call(driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, ((int(memory), 0), TYPES), 0))
    wait_for(len(functions))
    workers = [Worker(number, context, functions, launches) for number in range(int(sys.argv[1]))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        print(digest(worker.result))


if __name__ == "__main__":
    main()
