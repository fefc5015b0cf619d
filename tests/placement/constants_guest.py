"""Constants of modules whose addresses kernels are given, as XLA does: what the kernels find there.

Prints, as JSON, for `free` (a variable that no code names) and `named`: whether the address stays the same when it is
asked for again, the sum that a kernel finds there, the sum after the program wrote to it, and the sum in a module that
was loaded anew.
"""

import json
import sys
from pathlib import Path

import numpy
from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, use_gpu

COUNT = 64
VALUES = ", ".join(str(number) for number in range(COUNT))
PTX = f"""
.version 7.0
.target sm_70
.address_size 64
.visible .global .align 4 .b32 free[{COUNT}] = {{ {VALUES} }};
.visible .global .align 4 .b32 named[{COUNT}] = {{ {VALUES} }};
.visible .entry total(.param .u64 values, .param .u64 sum)
{{
    .reg .b64 %a<4>;
    .reg .b32 %r<3>;
    ld.param.u64 %a1, [values];
    ld.param.u64 %a2, [sum];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %a3, %r1, 4;
    add.u64 %a1, %a1, %a3;
    ld.global.u32 %r1, [%a1];
    atom.global.add.u32 %r2, [%a2], %r1;
    ret;
}}
.visible .entry write()
{{
    .reg .b64 %a<2>;
    mov.u64 %a1, named;
    st.global.u32 [%a1], 1;
    ret;
}}
"""


def total(module: driver.CUmodule, values: int) -> int:
    """What a kernel finds."""
    found = call(driver.cuMemAlloc(4))
    call(driver.cuMemsetD32(found, 0, 1))
    parameters = numpy.array([values, int(found)], dtype=numpy.uint64)
    pointers = numpy.array([parameters.ctypes.data, parameters.ctypes.data + 8], dtype=numpy.uint64)
    function = call(driver.cuModuleGetFunction(module, b"total"))
    call(driver.cuLaunchKernel(function, 1, 1, 1, COUNT, 1, 1, 0, 0, pointers.ctypes.data, 0))
    result = numpy.zeros(1, numpy.uint32)
    call(driver.cuMemcpyDtoH(result.ctypes.data, found, 4))
    call(driver.cuMemFree(found))
    return int(result[0])


def look(name: bytes) -> dict[str, int | bool]:
    module = call(driver.cuModuleLoadData(PTX.encode()))
    address, size = call(driver.cuModuleGetGlobal(module, name))
    again, _ = call(driver.cuModuleGetGlobal(module, name))
    found = total(module, int(address))
    call(driver.cuMemsetD32(address, 7, size // 4))
    written = total(module, int(again))
    call(driver.cuModuleUnload(module))
    module = call(driver.cuModuleLoadData(PTX.encode()))
    anew, _ = call(driver.cuModuleGetGlobal(module, name))
    return {"same": int(again) == int(address), "found": found, "written": written, "anew": total(module, int(anew))}


def main() -> None:
    use_gpu()
    print(json.dumps({name: look(name.encode()) for name in sys.argv[1:]}))


main()
