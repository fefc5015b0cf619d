"""Launches like NCCL's: in calls of a library that looks like it (argument 1), of a kernel of such a name, and neither.

Prints "right" if none was lost.
"""

import ctypes
import sys
from ctypes import CFUNCTYPE, c_long
from pathlib import Path

from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import HEAD, call, use_gpu
from tests.policy.launches import KERNEL

LAUNCH = CFUNCTYPE(None)
KERNELS = ("plain", "ncclDevKernel_AllReduce_Sum_f32_RING_LL")


def main() -> None:
    use_gpu()
    module = call(driver.cuModuleLoadData((HEAD + "".join(KERNEL.format(name=name) for name in KERNELS)).encode()))
    sums = call(driver.cuMemAlloc(4))
    call(driver.cuMemsetD32(sums, 0, 1))

    def launch(name: str) -> None:
        function = call(driver.cuModuleGetFunction(module, name.encode()))
        call(driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, ((sums,), (None,)), 0))

    ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
    everybody = ctypes.CDLL(None)
    inside = LAUNCH(lambda: launch("plain"))
    for name in ("ncclAllReduce", "ncclBroadcast"):
        everybody[name](inside, *(c_long(0) for _ in range(6)))
    for name in KERNELS:
        launch(name)
    result = (ctypes.c_uint32 * 1)()
    call(driver.cuMemcpyDtoH(ctypes.addressof(result), sums, 4))
    print("right" if result[0] == 4 else "WRONG")


if __name__ == "__main__":
    main()
