"""Launches a kernel that every GPU has code of, and one for architecture 9.0 and later only; prints "right"."""

import ctypes
import sys
from pathlib import Path

from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import HEAD, call, use_gpu
from tests.policy.launches import KERNEL


def main() -> None:
    use_gpu()
    sums = call(driver.cuMemAlloc(4))
    call(driver.cuMemsetD32(sums, 0, 1))
    for name, target in (("everywhere", "sm_70"), ("here_only", "sm_90")):
        module = call(
            driver.cuModuleLoadData(
                (HEAD.replace("7.0", "7.8").replace("sm_70", target) + KERNEL.format(name=name)).encode()
            )
        )
        function = call(driver.cuModuleGetFunction(module, name.encode()))
        call(driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, ((sums,), (None,)), 0))
    result = (ctypes.c_uint32 * 1)()
    call(driver.cuMemcpyDtoH(ctypes.addressof(result), sums, 4))
    print("right" if result[0] == 2 else "WRONG")


if __name__ == "__main__":
    main()
