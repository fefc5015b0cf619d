"""Launches kernels whose accesses the analysis does not understand, with their parameters in the trace of the run.

`indirect` doubles `count` words of its input into its output, through a call by address; `chase` stores through a
pointer that it loads, which memory of a probe does not have.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, use_gpu

TEXT = b"""
.version 7.0
.target sm_70
.address_size 64
.func (.param .b32 result) twice(.param .b32 value)
{
    .reg .b32 %r;
    ld.param.u32 %r, [value];
    add.u32 %r, %r, %r;
    st.param.b32 [result], %r;
    ret;
}
.visible .entry indirect(.param .u64 to, .param .u64 from, .param .u32 count)
{
    .reg .b64 %a<5>;
    .reg .b32 %r<4>;
    .reg .pred %p;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r1, %r1, %r2, %r3;
    ld.param.u32 %r2, [count];
    setp.ge.u32 %p, %r1, %r2;
    @%p bra done;
    ld.param.u64 %a1, [to];
    ld.param.u64 %a2, [from];
    mul.wide.u32 %a3, %r1, 4;
    add.u64 %a1, %a1, %a3;
    add.u64 %a2, %a2, %a3;
    ld.global.u32 %r2, [%a2];
    mov.u64 %a4, twice;
    {
    .param .b32 value; .param .b32 result;
    st.param.b32 [value], %r2;
    prototype: .callprototype (.param .b32 _) _ (.param .b32 _);
    call (result), %a4, (value), prototype;
    ld.param.b32 %r3, [result];
    }
    st.global.u32 [%a1], %r3;
done:
    ret;
}
.visible .entry chase(.param .u64 at)
{
    .reg .b64 %a;
    ld.param.u64 %a, [at];
    ld.global.u64 %a, [%a];
    st.global.u64 [%a], %a;
    ret;
}
\0"""
COUNT, OFFSET = 100, 256  # words; of the output in its allocation, in bytes
OUTPUT_BYTES, INPUT_BYTES = 4096, 2048


def main() -> None:
    use_gpu()
    module = call(driver.cuModuleLoadData(TEXT))
    indirect, chase = (call(driver.cuModuleGetFunction(module, name)) for name in (b"indirect", b"chase"))
    output, source = (int(call(driver.cuMemAlloc(size))) for size in (OUTPUT_BYTES, INPUT_BYTES))
    types = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32)
    call(driver.cuMemsetD32(source, 7, INPUT_BYTES // 4))
    call(driver.cuMemcpyHtoD(source, output.to_bytes(8, "little"), 8))
    for count in (COUNT, COUNT, 3):
        arguments = ((output + OFFSET, source, count), types)
        call(driver.cuLaunchKernel(indirect, 4, 1, 1, 32, 1, 1, 0, 0, arguments, 0))
    call(driver.cuLaunchKernel(chase, 1, 1, 1, 1, 1, 1, 0, 0, ((source,), types[:1]), 0))
    call(driver.cuCtxSynchronize())


if __name__ == "__main__":
    main()
