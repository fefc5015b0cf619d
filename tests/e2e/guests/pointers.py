"""Launches that leave pointers in memory and launches that follow them, as far as nothing else was written there.

Prints as JSON, for each launch of `follow`, whether the pointers that it loads are those that launches left.
"""

import ctypes
import json
import struct
import sys
from pathlib import Path

from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[3]))

from tests.bindings import HEAD, call, use_gpu

# Thread x of the first `count` ones stores where row x begins, of what is read and of what is written, in two arrays.
FILL = """
.visible .entry fill(.param .u64 from, .param .u64 to, .param .u64 sources, .param .u64 targets, .param .u32 pitch,
                     .param .u32 count)
{
    .reg .b64 %a<9>; .reg .b32 %r<4>; .reg .pred %p;
    mov.u32 %r1, %tid.x; ld.param.u32 %r2, [count]; setp.ge.u32 %p, %r1, %r2; @%p bra done;
    ld.param.u32 %r3, [pitch]; mul.wide.u32 %a1, %r1, %r3; mul.wide.u32 %a2, %r1, 8;
    ld.param.u64 %a3, [from]; ld.param.u64 %a4, [to]; ld.param.u64 %a5, [sources]; ld.param.u64 %a6, [targets];
    add.u64 %a3, %a3, %a1; add.u64 %a4, %a4, %a1; add.u64 %a5, %a5, %a2; add.u64 %a6, %a6, %a2;
    st.global.u64 [%a5], %a3; st.global.u64 [%a6], %a4;
done:
    ret;
}
"""
# Block x takes the row that memory names, and copies it.
FOLLOW = """
.visible .entry follow(.param .u64 sources, .param .u64 targets, .param .u64 order)
{
    .reg .b64 %a<9>; .reg .b32 %r<5>;
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; ld.param.u64 %a1, [order];
    mul.wide.u32 %a2, %r1, 4; add.u64 %a1, %a1, %a2; ld.global.u32 %r3, [%a1];
    mul.wide.u32 %a3, %r3, 8; ld.param.u64 %a4, [sources]; add.u64 %a4, %a4, %a3; ld.global.u64 %a4, [%a4];
    ld.param.u64 %a5, [targets]; add.u64 %a5, %a5, %a3; ld.global.u64 %a5, [%a5];
    mul.wide.u32 %a6, %r2, 4; add.u64 %a4, %a4, %a6; add.u64 %a5, %a5, %a6;
    ld.global.u32 %r4, [%a4]; st.global.u32 [%a5], %r4;
    ret;
}
"""
SET = """
.visible .entry set(.param .u64 to)
{
    .reg .b64 %a1; .reg .b32 %r1;
    mov.u32 %r1, 0; ld.param.u64 %a1, [to]; st.global.u32 [%a1], %r1;
    ret;
}
"""
ROWS, PITCH, THREADS = 8, 256, 32
POINTER, NUMBER = ctypes.c_uint64, ctypes.c_uint32


class Gpu:
    def __init__(self) -> None:
        use_gpu()
        text = HEAD + FILL + FOLLOW + SET
        module = call(driver.cuModuleLoadData(text.encode() + b"\0"))
        names = ("fill", "follow", "set")
        self.functions = {name: call(driver.cuModuleGetFunction(module, name.encode())) for name in names}
        self.source, self.target = (int(call(driver.cuMemAlloc(ROWS * PITCH))) for _ in range(2))
        self.small = int(call(driver.cuMemAlloc(4096)))  # both arrays, next to each other, and the order
        self.order = self.small + 16 * ROWS
        call(driver.cuMemcpyHtoD(self.order, struct.pack(f"<{ROWS}I", *reversed(range(ROWS))), 4 * ROWS))

    @property
    def arrays(self) -> tuple[int, int]:
        return self.small, self.small + 8 * ROWS

    def launch(self, name: str, blocks: int, threads: int, values: tuple[int, ...], types: tuple[object, ...]) -> None:
        call(driver.cuLaunchKernel(self.functions[name], blocks, 1, 1, threads, 1, 1, 0, 0, (values, types), 0))

    def fill(self, count: int = ROWS) -> None:
        values = (self.source, self.target, *self.arrays, PITCH, count)
        self.launch("fill", 1, ROWS, values, (POINTER,) * 4 + (NUMBER,) * 2)

    def follow(self) -> None:
        self.launch("follow", ROWS, THREADS, (*self.arrays, self.order), (POINTER,) * 3)

    def copied(self, row: int) -> None:
        """From the host: the same pointer, which nobody knows there."""
        pointer = struct.pack("<Q", self.source + row * PITCH)
        call(driver.cuMemcpyHtoD(self.small + 8 * row, pointer, 8))


def main() -> None:
    gpu, known = Gpu(), []

    def follow(is_known: bool) -> None:
        gpu.follow()
        known.append(is_known)

    gpu.fill()
    follow(True)
    gpu.launch("set", 1, 1, (gpu.order + 4 * ROWS,), (POINTER,))
    follow(True)
    gpu.copied(0)
    follow(False)
    gpu.fill()
    follow(True)
    gpu.launch("set", 1, 1, (gpu.small + 4 * 8 * ROWS // 2,), (POINTER,))
    gpu.copied(4)
    call(driver.cuMemcpyHtoD(gpu.small + 8 * ROWS, struct.pack("<Q", gpu.target), 8))
    follow(False)
    call(driver.cuCtxSynchronize())
    print(json.dumps({"known": known, "source": gpu.source, "target": gpu.target, "bytes": ROWS * PITCH}))


if __name__ == "__main__":
    main()
