"""Two branches in each step, joined at its end, as in an image generator with guidance: `branches.py [STEPS]`.

An ordinary program of one thread and one stream on one GPU. It calls the driver's library through ctypes and knows
nothing of Tessera. Prints its result.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import byref, c_float, c_int, c_uint32, c_uint64, c_void_p
from typing import Any

PTX = b"""
.version 7.0
.target sm_70
.address_size 64

// out[i] = the value of in[i] after `turns` turns of x = 3.7 * x * (1 - x)
.visible .entry turn(.param .u64 out, .param .u64 in, .param .u32 turns)
{
    .reg .pred %more;
    .reg .b32 %i, %left;
    .reg .b64 %out, %in, %at;
    .reg .f32 %x, %y;
    ld.param.u64 %out, [out];
    ld.param.u64 %in, [in];
    ld.param.u32 %left, [turns];
    mov.u32 %i, %tid.x;
    mul.wide.u32 %at, %i, 4;
    add.u64 %in, %in, %at;
    add.u64 %out, %out, %at;
    ld.global.f32 %x, [%in];
again:
    mul.rn.f32 %y, %x, 0f406CCCCD;
    neg.f32 %x, %x;
    fma.rn.f32 %x, %x, %y, %y;
    sub.u32 %left, %left, 1;
    setp.ne.u32 %more, %left, 0;
    @%more bra again;
    st.global.f32 [%out], %x;
    ret;
}

// out[i] = (a[i] + b[i]) / 2
.visible .entry join(.param .u64 out, .param .u64 a, .param .u64 b)
{
    .reg .b32 %i;
    .reg .b64 %out, %a, %b, %at;
    .reg .f32 %x, %y;
    ld.param.u64 %out, [out];
    ld.param.u64 %a, [a];
    ld.param.u64 %b, [b];
    mov.u32 %i, %tid.x;
    mul.wide.u32 %at, %i, 4;
    add.u64 %a, %a, %at;
    add.u64 %b, %b, %at;
    add.u64 %out, %out, %at;
    ld.global.f32 %x, [%a];
    ld.global.f32 %y, [%b];
    add.rn.f32 %x, %x, %y;
    mul.rn.f32 %x, %x, 0f3F000000;
    st.global.f32 [%out], %x;
    ret;
}
"""
COUNT = 32  # numbers in a buffer, one for each thread
STEPS = 32
LAUNCHES = 200  # in each branch of a step
TURNS = 1600  # in each launch


class Gpu:
    """The first GPU that the program sees, and one stream."""

    def __init__(self) -> None:
        self._driver = ctypes.CDLL("libcuda.so.1")
        context, module = c_void_p(), c_void_p()
        self._stream = c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", byref(context), c_int(0))
        self.call("cuCtxSetCurrent", context)
        self.call("cuModuleLoadData", byref(module), PTX)
        self.call("cuStreamCreate", byref(self._stream), 1)
        self._functions = {name: c_void_p() for name in ("turn", "join")}
        for name, function in self._functions.items():
            self.call("cuModuleGetFunction", byref(function), module, name.encode())

    def call(self, name: str, *arguments: Any) -> None:
        result = getattr(self._driver, name)(*arguments)
        if result:
            raise RuntimeError(f"{name} says {result}")

    def buffer(self, numbers: list[float]) -> c_uint64:
        memory = c_uint64()
        self.call("cuMemAlloc_v2", byref(memory), c_uint64(4 * COUNT))
        self.call("cuMemcpyHtoD_v2", memory, (c_float * COUNT)(*numbers), c_uint64(4 * COUNT))
        return memory

    def launch(self, name: str, *parameters: c_uint64 | c_uint32) -> None:
        places = (c_void_p * len(parameters))(*(ctypes.addressof(each) for each in parameters))
        sizes = 1, 1, 1, COUNT, 1, 1, 0  # the grid, the block, shared memory
        self.call("cuLaunchKernel", self._functions[name], *sizes, self._stream, places, None)

    def read(self, memory: c_uint64) -> list[float]:
        numbers = (c_float * COUNT)()
        self.call("cuStreamSynchronize", self._stream)
        self.call("cuMemcpyDtoH_v2", numbers, memory, c_uint64(4 * COUNT))
        return list(numbers)


def main() -> None:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else STEPS
    gpu = Gpu()
    picture, left, right = (
        gpu.buffer([(number + 1) / (COUNT + shift) for number in range(COUNT)]) for shift in (2, 3, 4)
    )
    turns = c_uint32(TURNS)
    for _ in range(steps):
        for branch in (left, right):
            for number in range(LAUNCHES):
                gpu.launch("turn", branch, branch if number else picture, turns)
        gpu.launch("join", picture, left, right)
    print(f"{sum(gpu.read(picture)):.9f}")


if __name__ == "__main__":
    main()
