"""Products of a stand-in of cuBLAS, whose launches do what the call says, or need what it says that nobody needs.

Argument 1: the directory of the stand-ins; the others: ways in which a product is made. Prints what came out, as JSON.

All are C = 1 * A with a beta of 0 and a workspace, of 16 numbers, in which C and the workspace hold 7 before: `plain`
in one launch, `parts` in one that leaves A in the workspace and one that takes it from there, `cleared` by adding to C
after setting it to 0; `added` adds to what C holds, `used` adds what the workspace holds, `counted` adds how many
launches there were, which a variable of the module counts, and shows 0; `looked-up` looks up which element of C belongs
to which of A, `host` has its workspace in the host's memory. The pointers of the others' kernel lie in memory, so what
it touches is known from the call alone.
"""

from __future__ import annotations

import ctypes
import json
import struct
import sys
from pathlib import Path

from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import HEAD, call, use_gpu
from tests.libraries.stand_ins import Marks

THROUGH = """
.visible .global .u32 counter;
.visible .entry through(.param .u64 table, .param .u32 way)
{
    .reg .b64 %a<5>; .reg .b32 %r<9>; .reg .b64 %t; .reg .pred %p<6>;
    ld.param.u64 %a1, [table]; ld.param.u32 %r1, [way];
    ld.global.u64 %a2, [%a1]; ld.global.u64 %a3, [%a1+8]; ld.global.u64 %a4, [%a1+16];
    mov.u32 %r2, %tid.x; mul.wide.u32 %t, %r2, 4;
    add.u64 %a2, %a2, %t; add.u64 %a3, %a3, %t; add.u64 %a4, %a4, %t;
    ld.global.u32 %r3, [%a2];
    setp.eq.u32 %p1, %r1, 1; @%p1 bra to_work;
    setp.eq.u32 %p2, %r1, 2; @%p2 ld.global.u32 %r3, [%a4];
    setp.eq.u32 %p3, %r1, 3; @%p3 ld.global.u32 %r4, [%a3]; @%p3 add.u32 %r3, %r3, %r4;
    setp.eq.u32 %p4, %r1, 4; @%p4 ld.global.u32 %r4, [%a4]; @%p4 add.u32 %r3, %r3, %r4;
    setp.eq.u32 %p5, %r1, 5; @%p5 atom.global.add.u32 %r4, [counter], 1; @%p5 add.u32 %r3, %r3, %r4;
    st.global.u32 [%a3], %r3;
    ret;
to_work:
    st.global.u32 [%a4], %r3;
    ret;
}
.visible .entry looked_up(.param .u64 from, .param .u64 to, .param .u64 index)
{
    .reg .b64 %a<5>; .reg .b32 %r<4>; .reg .b64 %t;
    ld.param.u64 %a1, [from]; ld.param.u64 %a2, [to]; ld.param.u64 %a3, [index];
    mov.u32 %r1, %tid.x; mul.wide.u32 %t, %r1, 4;
    add.u64 %a1, %a1, %t; add.u64 %a3, %a3, %t;
    ld.global.u32 %r2, [%a1]; ld.global.u32 %r3, [%a3];
    mul.wide.u32 %t, %r3, 4; add.u64 %a2, %a2, %t; st.global.u32 [%a2], %r2;
    ret;
}
"""
COUNT, C_BYTES, WORK_BYTES = 16, 64, 64
A, C, WORK, TABLE, BYTES = 0, 1024, 2048, 3072, 4096
BEFORE = 7
WAYS = {
    "plain": [0],
    "parts": [1, 2],
    "cleared": [3],
    "added": [3],
    "used": [4],
    "counted": [5],
    "host": [0],
    "looked-up": [-1],
}


def model(name: str) -> list[int]:
    """C after a product."""
    added = {"added": BEFORE, "used": BEFORE}.get(name, 0)
    return [0 if name == "counted" else i + added for i in range(COUNT)]


class Gpu:
    def __init__(self) -> None:
        use_gpu()
        module = call(driver.cuModuleLoadData((HEAD + THROUGH).encode()))
        self.through = call(driver.cuModuleGetFunction(module, b"through"))
        self.looked_up = call(driver.cuModuleGetFunction(module, b"looked_up"))
        self.memory = int(call(driver.cuMemAlloc(BYTES)))
        self.host = int(call(driver.cuMemHostAlloc(WORK_BYTES, 0)))
        self.name = ""

    def work(self) -> int:
        return self.host if self.name == "host" else self.memory + WORK

    def prepare(self, name: str) -> None:
        self.name = name
        call(driver.cuMemsetD32(self.memory, BEFORE, BYTES // 4))
        self._write(A, struct.pack(f"{COUNT}I", *range(COUNT)))
        self._write(TABLE, struct.pack("3Q", self.memory + A, self.memory + C, self.work()))

    def _write(self, offset: int, data: bytes) -> None:
        call(driver.cuMemcpyHtoD(self.memory + offset, data, len(data)))

    def launch(self) -> None:
        if self.name == "cleared":
            call(driver.cuMemsetD32(self.memory + C, 0, COUNT))
        for way in WAYS[self.name]:
            if way < 0:
                places = ((self.memory + A, self.memory + C, self.memory + A), (ctypes.c_uint64,) * 3)
                call(driver.cuLaunchKernel(self.looked_up, 1, 1, 1, COUNT, 1, 1, 0, 0, places, 0))
                continue
            values = ((self.memory + TABLE, way), (ctypes.c_uint64, ctypes.c_uint32))
            call(driver.cuLaunchKernel(self.through, 1, 1, 1, COUNT, 1, 1, 0, 0, values, 0))

    def product(self) -> list[int]:
        data = bytearray(C_BYTES)
        call(driver.cuMemcpyDtoH(data, self.memory + C, C_BYTES))
        return [0] * COUNT if self.name == "counted" else list(struct.unpack(f"{COUNT}I", data))


def main() -> None:
    gpu = Gpu()
    marks = Marks(None, Path(sys.argv[1]))
    marks.inside = gpu.launch
    handle, zero, products = ctypes.byref(ctypes.c_int(0)), ctypes.c_float(0), []
    for name in sys.argv[2:]:
        gpu.prepare(name)
        marks.tell("cublasSetWorkspace_v2", handle, gpu.work(), WORK_BYTES)
        factors = (0, gpu.memory + A, COUNT, gpu.memory + A, 1, ctypes.addressof(zero), gpu.memory + C, COUNT)
        marks.call("cublasSgemm_v2", handle, 0, 0, COUNT, 1, 1, *factors)
        products.append(gpu.product())
    print(json.dumps(products))


if __name__ == "__main__":
    main()
