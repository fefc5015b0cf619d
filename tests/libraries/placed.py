"""A program whose cuBLAS follows a pointer in its work area, so that only the calls say what its launches touch.

Argument 1: the directory of the stand-ins. Prints the sum of what the products gave.
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

# c[i] += a[i] + b[i]; where c is, the work area says.
PRODUCT = """
.visible .entry product(.param .u64 a, .param .u64 b, .param .u64 work)
{
    .reg .b64 %a<5>; .reg .b32 %r<5>; .reg .f32 %f<4>;
    ld.param.u64 %a1, [a]; ld.param.u64 %a2, [b]; ld.param.u64 %a3, [work];
    ld.global.u64 %a3, [%a3];
    mov.u32 %r1, %tid.x; mul.wide.u32 %a4, %r1, 4;
    add.u64 %a1, %a1, %a4; add.u64 %a2, %a2, %a4; add.u64 %a3, %a3, %a4;
    ld.global.f32 %f1, [%a1]; ld.global.f32 %f2, [%a2]; ld.global.f32 %f3, [%a3];
    add.f32 %f1, %f1, %f2; add.f32 %f3, %f3, %f1; st.global.f32 [%a3], %f3;
    ret;
}
"""
SIDE, CALLS, WORK_BYTES = 8, 40, 64


class Indirect(Gpu):
    def __init__(self) -> None:
        super().__init__()
        module = call(driver.cuModuleLoadData((HEAD + PRODUCT).encode()))
        self.product = call(driver.cuModuleGetFunction(module, b"product"))

    def launch(self) -> None:
        if not self.work:
            self.work = int(call(driver.cuMemAlloc(WORK_BYTES)))
        a, b, c = self.arguments
        call(driver.cuMemcpyHtoD(self.work, numpy.array([c], dtype=numpy.uint64), 8))
        call(
            driver.cuLaunchKernel(
                self.product, 1, 1, 1, SIDE * SIDE, 1, 1, 0, 0, ((a, b, self.work), (ctypes.c_uint64,) * 3), 0
            )
        )


def main() -> None:
    gpu = Indirect()
    marks = Marks(None, Path(sys.argv[1]), wants=False)
    marks.inside = gpu.launch
    handle, one = ctypes.byref(ctypes.c_int(0)), ctypes.c_float(1)
    values = numpy.arange(SIDE * SIDE, dtype=numpy.float32)
    buffers = [int(call(driver.cuMemAlloc(values.nbytes))) for _ in range(4)]
    for buffer in buffers:
        call(driver.cuMemcpyHtoD(buffer, values, values.nbytes))
    for number in range(CALLS):
        a, b, c = (buffers[(number + place) % len(buffers)] for place in range(3))
        gpu.arguments = (a, b, c)
        marks.call(
            "cublasSgemm_v2", handle, 0, 0, SIDE, SIDE, SIDE, 1, a, SIDE, b, SIDE, ctypes.addressof(one), c, SIDE
        )
    call(driver.cuMemcpyDtoH(values, buffers[0], values.nbytes))
    print(values.sum())


if __name__ == "__main__":
    main()
