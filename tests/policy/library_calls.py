"""Launches within calls of a library that looks like cuBLAS, whose file is argument 1.

Prints what the calls returned, and "right" if no launch was lost.
"""

import ctypes
import sys
from ctypes import CFUNCTYPE, c_double, c_int, c_longlong
from pathlib import Path

from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, use_gpu
from tests.policy.launches import BLOCKS, NOTE, PTX

LAUNCH = CFUNCTYPE(None)


def main() -> None:
    use_gpu()
    module = call(driver.cuModuleLoadData(PTX.encode()))
    sums = call(driver.cuMemAlloc(NOTE + 4))
    call(driver.cuMemsetD32(sums, 0, BLOCKS))

    def launch(name: bytes) -> None:
        function = call(driver.cuModuleGetFunction(module, name))
        call(driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, ((sums,), (None,)), 0))

    whole = [c_longlong(n) for n in range(2, 23)]
    numbers = [*whole, *(c_double(n + 0.5) for n in range(8)), c_double(99.5)]
    everybody = ctypes.CDLL(None)
    gemm, dgemm = everybody.cublasGemmEx, everybody.cublasDgemm_v2
    print(gemm(1, 2))  # before the library is there
    library = ctypes.CDLL(sys.argv[1], ctypes.RTLD_LOCAL)
    inner = LAUNCH(lambda: launch(b"alpha"))

    def nest() -> None:
        gemm(inner, *numbers)
        launch(b"beta")

    outer = LAUNCH(nest)
    dgemm.restype = c_double
    print(gemm(inner, *numbers), dgemm(outer, *numbers))
    launch(b"gamma")
    library.cublasGemmEx.restype = c_int
    print(library.cublasGemmEx(LAUNCH(lambda: launch(b"gamma")), *numbers))  # past the marks
    result = (ctypes.c_uint32 * BLOCKS)()
    call(driver.cuMemcpyDtoH(ctypes.addressof(result), sums, 4 * BLOCKS))
    print("right" if sum(result) == 5 else "WRONG")


if __name__ == "__main__":
    main()
