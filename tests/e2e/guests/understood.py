"""Launches a kernel of a module and one that is linked from PTX; again once templates of both are published."""

import ctypes
import sys
from pathlib import Path
from typing import Any

from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[3]))

from tests.bindings import call, use_gpu
from tests.templates import wait_for

TEXT = """.version 7.0
.target sm_70
.address_size 64
.visible .entry {name}(.param .u64 to, .param .u32 count)
{{
    .reg .b64 %a<3>;
    .reg .b32 %r<3>;
    .reg .pred %p;
    mov.u32 %r1, %tid.x;
    ld.param.u32 %r2, [count];
    setp.ge.u32 %p, %r1, %r2;
    @%p bra done;
    ld.param.u64 %a1, [to];
    mul.wide.u32 %a2, %r1, 4;
    add.u64 %a1, %a1, %a2;
    st.global.u32 [%a1], %r1;
done:
    ret;
}}
"""
AGAIN = 5


def linked(text: bytes) -> Any:
    state = call(driver.cuLinkCreate(0, [], []))
    kind = driver.CUjitInputType.CU_JIT_INPUT_PTX
    call(driver.cuLinkAddData(state, kind, text, len(text), b"", 0, [], []))
    image, _ = call(driver.cuLinkComplete(state))
    module = call(driver.cuModuleLoadData(image))
    call(driver.cuLinkDestroy(state))
    return module


def main() -> None:
    use_gpu()
    modules = {"loaded": call(driver.cuModuleLoadData(TEXT.format(name="loaded").encode() + b"\0"))}
    modules["linked"] = linked(TEXT.format(name="linked").encode() + b"\0")
    memory = call(driver.cuMemAlloc(4096))
    arguments = ((int(memory), 100), (ctypes.c_void_p, ctypes.c_uint32))
    functions = [call(driver.cuModuleGetFunction(module, name.encode())) for name, module in modules.items()]
    for function in functions:
        call(driver.cuLaunchKernel(function, 1, 1, 1, 128, 1, 1, 0, 0, arguments, 0))
    wait_for(len(functions))
    for _ in range(AGAIN):
        for function in functions:
            call(driver.cuLaunchKernel(function, 1, 1, 1, 128, 1, 1, 0, 0, arguments, 0))
    call(driver.cuCtxSynchronize())


if __name__ == "__main__":
    main()
