"""Launches whose code does not say what they touch, inside and outside of library calls, and one with a tensor map.

Argument 1: the directory of the stand-ins. It prints addresses and the map as JSON.
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path

from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import HEAD, call, use_gpu
from tests.libraries.stand_ins import Marks

# Adds 1 to the number that the table's first entry points to.
THROUGH = """
.visible .entry through(.param .u64 table)
{
    .reg .b64 %a<3>; .reg .b32 %r<2>;
    ld.param.u64 %a1, [table]; ld.global.u64 %a2, [%a1];
    ld.global.u32 %r1, [%a2]; add.u32 %r1, %r1, 1; st.global.u32 [%a2], %r1;
    ret;
}
"""
WITH_MAP = """
.visible .entry with_map(.param .align 64 .b8 map[128])
{
    ret;
}
"""
MAP_BYTES, ALIGNMENT, FLOAT16 = 128, 64, 6  # of a CUtensorMap; CU_TENSOR_MAP_DATA_TYPE_FLOAT16
ROWS, COLUMNS, PITCH = 6, 40, 64  # of the tensor, in elements of 2 bytes


class Gpu:
    def __init__(self) -> None:
        use_gpu()
        module = call(driver.cuModuleLoadData((HEAD + THROUGH + WITH_MAP).encode()))
        self.through, self.with_map = (
            call(driver.cuModuleGetFunction(module, name)) for name in (b"through", b"with_map")
        )
        self.data = int(call(driver.cuMemAlloc(4096)))
        self.table = int(call(driver.cuMemAlloc(16)))
        call(driver.cuMemcpyHtoD(self.table, self.data.to_bytes(8, "little"), 8))

    def launch(self) -> None:
        values = ((self.table,), (ctypes.c_uint64,))
        call(driver.cuLaunchKernel(self.through, 1, 1, 1, 1, 1, 1, 0, 0, values, 0))

    def set_and_launch(self) -> None:
        call(driver.cuMemsetD8(self.table + 8, 0, 4))
        self.launch()

    def launch_with_map(self) -> bytes:
        """The map's bytes."""
        room = ctypes.create_string_buffer(MAP_BYTES + ALIGNMENT)
        place = -(-ctypes.addressof(room) // ALIGNMENT) * ALIGNMENT
        sizes, strides = (ctypes.c_uint64 * 2)(COLUMNS, ROWS), (ctypes.c_uint64 * 1)(2 * PITCH)
        box, steps = (ctypes.c_uint32 * 2)(8, 2), (ctypes.c_uint32 * 2)(1, 1)
        tensor = (FLOAT16, 2, ctypes.c_void_p(self.data), sizes, strides, box, steps)
        encode = ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeTiled
        assert encode(ctypes.c_void_p(place), *tensor, 0, 0, 0, 0) == 0
        values = (ctypes.c_void_p * 1)(place)
        call(driver.cuLaunchKernel(self.with_map, 1, 1, 1, 1, 1, 1, 0, 0, ctypes.addressof(values), 0))
        return ctypes.string_at(place, MAP_BYTES)


def main() -> None:
    gpu = Gpu()
    marks = Marks(None, Path(sys.argv[1]), wants=False)
    marks.inside = gpu.launch
    handle, one = ctypes.byref(ctypes.c_int(0)), gpu.data
    zero = ctypes.c_float(0)
    product = ("cublasSgemm_v2", handle, 0, 0, 4, 4, 4, 0, one, 4, one + 64, 4, ctypes.addressof(zero), one + 128, 4)
    marks.tell("cublasSetWorkspace_v2", handle, one + 1024, 64)
    marks.call(*product)
    marks.inside = gpu.set_and_launch
    marks.call(*product)
    marks.inside = gpu.launch
    marks.call("cublasSgemmBatched", handle, 0, 0, 4, 4, 4, 0, one, 4, one, 4, 0, one, 4, 1)
    gpu.launch()
    tensor_map = gpu.launch_with_map()
    call(driver.cuCtxSynchronize())
    print(json.dumps({"data": gpu.data, "map": tensor_map.hex()}))


if __name__ == "__main__":
    main()
