"""A program whose cuBLAS launches matrix products on an emulated GPU. Argument 1: the directory of the stand-ins.

For each call it prints a line of JSON: what the marks of library calls say that the launch may touch.
"""

from __future__ import annotations

import ctypes
import json
import random
import sys
from pathlib import Path

from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import HEAD, call, use_gpu
from tests.libraries.stand_ins import Marks

# Thread (i, j) adds the sum over p of A[i * ai + p * ap] * B[p * bp + j * bj] to C[i + j * cj], and advances a counter.
PRODUCT = """
.visible .entry product(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 work, .param .u32 k, .param .u32 ai,
    .param .u32 ap, .param .u32 bp, .param .u32 bj, .param .u32 cj)
{
    .reg .b64 %a<9>; .reg .b32 %r<20>; .reg .f32 %f<5>; .reg .pred %p;
    ld.param.u64 %a1, [a]; ld.param.u64 %a2, [b]; ld.param.u64 %a3, [c]; ld.param.u64 %a4, [work];
    ld.param.u32 %r1, [k]; ld.param.u32 %r2, [ai]; ld.param.u32 %r3, [ap]; ld.param.u32 %r4, [bp];
    ld.param.u32 %r5, [bj]; ld.param.u32 %r6, [cj];
    mov.u32 %r7, %tid.x; mov.u32 %r8, %tid.y; mov.u32 %r9, 0;
    mad.lo.u32 %r10, %r8, %r6, %r7; mul.wide.u32 %a5, %r10, 4; add.u64 %a5, %a3, %a5;
    ld.global.f32 %f1, [%a5];
next:
    setp.ge.u32 %p, %r9, %r1; @%p bra done;
    mul.lo.u32 %r11, %r7, %r2; mad.lo.u32 %r11, %r9, %r3, %r11; mul.wide.u32 %a6, %r11, 4; add.u64 %a6, %a1, %a6;
    mul.lo.u32 %r12, %r8, %r5; mad.lo.u32 %r12, %r9, %r4, %r12; mul.wide.u32 %a7, %r12, 4; add.u64 %a7, %a2, %a7;
    ld.global.f32 %f2, [%a6]; ld.global.f32 %f3, [%a7]; fma.rn.f32 %f1, %f2, %f3, %f1;
    add.u32 %r9, %r9, 1; bra next;
done:
    st.global.f32 [%a5], %f1;
    ld.global.u32 %r13, [%a4]; add.u32 %r13, %r13, 1; st.global.u32 [%a4], %r13;
    ret;
}
"""
CALLS, WORK_BYTES = 12, 32


class Gpu:
    """What the stand-in does inside its calls: the first one allocates a work area."""

    def __init__(self) -> None:
        use_gpu()
        module = call(driver.cuModuleLoadData((HEAD + PRODUCT).encode()))
        self.product = call(driver.cuModuleGetFunction(module, b"product"))
        self.work = 0
        self.shape, self.arguments = (1, 1), tuple[object, ...]()

    def launch(self) -> None:
        if not self.work:
            self.work = int(call(driver.cuMemAlloc(WORK_BYTES)))
        a, b, c, *numbers = self.arguments
        values = (a, b, c, self.work, *numbers)
        kinds = (*[ctypes.c_uint64] * 4, *[ctypes.c_uint32] * len(numbers))
        call(driver.cuLaunchKernel(self.product, 1, 1, 1, *self.shape, 1, 0, 0, (values, kinds), 0))


def main() -> None:
    gpu, draw = Gpu(), random.Random(5)
    marks = Marks(None, Path(sys.argv[1]))
    marks.inside = gpu.launch
    handle = ctypes.byref(ctypes.c_int(0))
    one = ctypes.c_float(1)
    beta = ctypes.addressof(one)
    buffers = [call(driver.cuMemAlloc(4096)) for _ in range(3)]
    for _ in range(CALLS):
        m, n, k = (draw.randint(1, 6) for _ in range(3))
        ta, tb, lda, ldb, ldc = draw.randint(0, 1), draw.randint(0, 1), *(draw.randint(6, 9) for _ in range(3))
        a, b, c = (int(buffer) + 4 * draw.randint(0, 60) for buffer in buffers)
        strides = (lda, 1) if ta else (1, lda), (ldb, 1) if tb else (1, ldb)
        gpu.shape, gpu.arguments = (m, n), (a, b, c, k, *strides[0], *strides[1], ldc)
        found = marks.call("cublasSgemm_v2", handle, ta, tb, m, n, k, 1, a, lda, b, ldb, beta, c, ldc)
        assert found.unknown is None, found.unknown
        work = [gpu.work, gpu.work + WORK_BYTES]
        print(json.dumps({"reads": sorted(found.reads), "writes": sorted(found.writes), "work": work}))
    call(driver.cuCtxSynchronize())


if __name__ == "__main__":
    main()
