"""A program whose cuBLAS sets a counter before each of its launches: requests one after another, each a chain of calls.

Argument 1: the directory of the stand-ins. Prints the sum of what each request gave.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import numpy
from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import HEAD, call
from tests.libraries.guest import Gpu
from tests.libraries.stand_ins import Marks

# c[i] += a[i] + b[i] + the counter, which it advances.
PRODUCT = """
.visible .entry product(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 work)
{
    .reg .b64 %a<6>; .reg .b32 %r<3>; .reg .f32 %f<5>;
    nanosleep.u32 200000;
    ld.param.u64 %a1, [a]; ld.param.u64 %a2, [b]; ld.param.u64 %a3, [c]; ld.param.u64 %a5, [work];
    mov.u32 %r1, %tid.x; mul.wide.u32 %a4, %r1, 4;
    add.u64 %a1, %a1, %a4; add.u64 %a2, %a2, %a4; add.u64 %a3, %a3, %a4; add.u64 %a5, %a5, %a4;
    ld.global.f32 %f1, [%a1]; ld.global.f32 %f2, [%a2]; ld.global.f32 %f3, [%a3]; ld.global.u32 %r2, [%a5];
    cvt.rn.f32.u32 %f4, %r2; add.u32 %r2, %r2, 1; st.global.u32 [%a5], %r2;
    add.f32 %f1, %f1, %f2; add.f32 %f3, %f3, %f1; add.f32 %f3, %f3, %f4; st.global.f32 [%a3], %f3;
    ret;
}
"""
SIDE, REQUESTS, CALLS = 4, 12, 30


class Counted(Gpu):
    def __init__(self) -> None:
        super().__init__()
        module = call(driver.cuModuleLoadData((HEAD + PRODUCT).encode()))
        self.product = call(driver.cuModuleGetFunction(module, b"product"))
        self.work = int(call(driver.cuMemAlloc(4 * SIDE * SIDE)))

    def launch(self) -> None:
        call(driver.cuMemsetD32Async(self.work, 0, SIDE * SIDE, 0))
        parameters = ((*self.arguments, self.work), (ctypes.c_uint64,) * 4)
        call(driver.cuLaunchKernel(self.product, 1, 1, 1, SIDE * SIDE, 1, 1, 0, 0, parameters, 0))


def main() -> None:
    gpu = Counted()
    marks = Marks(None, Path(sys.argv[1]), wants=False)
    marks.inside = gpu.launch
    handle, one = ctypes.byref(ctypes.c_int(0)), ctypes.c_float(1)
    values = numpy.arange(SIDE * SIDE, dtype=numpy.float32)
    buffers = [int(call(driver.cuMemAlloc(values.nbytes))) for _ in range(2 + REQUESTS)]
    for buffer in buffers:
        call(driver.cuMemcpyHtoD(buffer, values, values.nbytes))
    a, b, *results = buffers
    for c in results:
        gpu.arguments = (a, b, c)
        for _ in range(CALLS):
            marks.call(
                "cublasSgemm_v2", handle, 0, 0, SIDE, SIDE, SIDE, 1, a, SIDE, b, SIDE, ctypes.addressof(one), c, SIDE
            )
    call(driver.cuCtxSynchronize())
    for c in results:
        call(driver.cuMemcpyDtoH(values, c, values.nbytes))
        print(values.sum())


if __name__ == "__main__":
    main()
