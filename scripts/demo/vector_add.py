"""A small CUDA program: vector addition on the first GPU, saxpy on the last one, checked against Python.

It uses NVIDIA's own Python bindings of the driver and knows nothing of Tessera.
"""

from __future__ import annotations

import array
import sys
from ctypes import c_float, c_uint32
from typing import Any

from cuda.bindings import driver

PTX = b"""
.version 7.0
.target sm_70
.address_size 64

.visible .entry vector_add(.param .u64 x, .param .u64 y, .param .u64 out, .param .u32 count)
{
    .reg .pred %p;
    .reg .b32 %r<5>;
    .reg .b64 %a<5>;
    .reg .f32 %f<4>;
    ld.param.u64 %a1, [x];
    ld.param.u64 %a2, [y];
    ld.param.u64 %a3, [out];
    ld.param.u32 %r1, [count];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r2, %r2, %r3, %r4;
    setp.ge.u32 %p, %r2, %r1;
    @%p bra done;
    mul.wide.u32 %a4, %r2, 4;
    add.u64 %a1, %a1, %a4;
    add.u64 %a2, %a2, %a4;
    add.u64 %a3, %a3, %a4;
    ld.global.f32 %f1, [%a1];
    ld.global.f32 %f2, [%a2];
    add.f32 %f3, %f1, %f2;
    st.global.f32 [%a3], %f3;
done:
    ret;
}

.visible .entry saxpy(.param .f32 factor, .param .u64 x, .param .u64 y, .param .u32 count)
{
    .reg .pred %p;
    .reg .b32 %r<5>;
    .reg .b64 %a<4>;
    .reg .f32 %f<5>;
    ld.param.f32 %f1, [factor];
    ld.param.u64 %a1, [x];
    ld.param.u64 %a2, [y];
    ld.param.u32 %r1, [count];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r2, %r2, %r3, %r4;
    setp.ge.u32 %p, %r2, %r1;
    @%p bra done;
    mul.wide.u32 %a3, %r2, 4;
    add.u64 %a1, %a1, %a3;
    add.u64 %a2, %a2, %a3;
    ld.global.f32 %f2, [%a1];
    ld.global.f32 %f3, [%a2];
    fma.rn.f32 %f4, %f1, %f2, %f3;
    st.global.f32 [%a2], %f4;
done:
    ret;
}
"""
COUNT = 1 << 20
BLOCK = 256
FACTOR = 2.0


def call(result: tuple[Any, ...]) -> Any:
    """Unpacks (error, value...) and raises on an error."""
    error, *values = result
    if error != driver.CUresult.CUDA_SUCCESS:
        _, name = driver.cuGetErrorName(error)
        raise RuntimeError(f"the driver says {name.decode() if name else error}")
    return values[0] if len(values) == 1 else values


class Gpu:
    """One GPU with the module loaded in its primary context."""

    def __init__(self, ordinal: int) -> None:
        device = call(driver.cuDeviceGet(ordinal))
        self.name = call(driver.cuDeviceGetName(64, device)).split(b"\0")[0].decode()
        self.context = call(driver.cuDevicePrimaryCtxRetain(device))
        call(driver.cuCtxSetCurrent(self.context))
        self.module = call(driver.cuModuleLoadData(PTX))

    def upload(self, values: array.array[float]) -> Any:
        call(driver.cuCtxSetCurrent(self.context))
        size = len(values) * values.itemsize
        pointer = call(driver.cuMemAlloc(size))
        call(driver.cuMemcpyHtoD(pointer, values.buffer_info()[0], size))
        return pointer

    def launch(self, name: bytes, arguments: tuple[Any, ...], types: tuple[Any, ...]) -> None:
        call(driver.cuCtxSetCurrent(self.context))
        function = call(driver.cuModuleGetFunction(self.module, name))
        grid = (COUNT + BLOCK - 1) // BLOCK
        call(driver.cuLaunchKernel(function, grid, 1, 1, BLOCK, 1, 1, 0, 0, (arguments, types), 0))

    def download(self, pointer: Any) -> array.array[float]:
        call(driver.cuCtxSetCurrent(self.context))
        values = array.array("f", bytes(4 * COUNT))
        call(driver.cuMemcpyDtoH(values.buffer_info()[0], pointer, 4 * COUNT))
        return values


def vector_add(gpu: Gpu, x: array.array[float], y: array.array[float]) -> bool:
    """Whether x + y on the GPU is what Python computes (sums of small whole numbers are exact)."""
    pointers = gpu.upload(x), gpu.upload(y), gpu.upload(x)
    gpu.launch(b"vector_add", (*pointers, COUNT), (None, None, None, c_uint32))
    return gpu.download(pointers[2]) == array.array("f", (a + b for a, b in zip(x, y, strict=True)))


def saxpy(gpu: Gpu, x: array.array[float], y: array.array[float]) -> bool:
    pointers = gpu.upload(x), gpu.upload(y)
    gpu.launch(b"saxpy", (FACTOR, *pointers, COUNT), (c_float, None, None, c_uint32))
    return gpu.download(pointers[1]) == array.array("f", (FACTOR * a + b for a, b in zip(x, y, strict=True)))


def main() -> int:
    call(driver.cuInit(0))
    gpus = [Gpu(ordinal) for ordinal in range(call(driver.cuDeviceGetCount()))]
    x = array.array("f", (i % 1000 for i in range(COUNT)))
    y = array.array("f", (i % 777 for i in range(COUNT)))
    right = vector_add(gpus[0], x, y), saxpy(gpus[-1], x, y)
    verdict = "right" if all(right) else "WRONG"
    print(f"vector_add on GPU 0 ({gpus[0].name}), saxpy on GPU {len(gpus) - 1} ({gpus[-1].name}): {verdict}")
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
