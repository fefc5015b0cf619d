"""Threads that launch, copy and set memory at the same time, each in memory and a stream of its own.

Prints "right" if all their results are.
"""

import ctypes
import sys
import threading
from pathlib import Path
from typing import Any

from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, use_gpu
from tests.policy.launches import PTX

ELEMENTS, ROUNDS, THREADS = 64, 60, 4


class Worker(threading.Thread):
    """Adds 1 to its elements on a GPU, sometimes sets or copies them from here, and keeps count."""

    def __init__(self, context: Any, function: Any, number: int) -> None:
        super().__init__()
        self._context, self._function, self._number = context, function, number
        self.right = False

    def run(self) -> None:
        call(driver.cuCtxSetCurrent(self._context))
        stream = call(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
        memory = call(driver.cuMemAlloc(4 * ELEMENTS))
        call(driver.cuMemsetD32Async(memory, self._number, ELEMENTS, stream))
        expected = [self._number] * ELEMENTS
        for turn in range(ROUNDS):
            shape = (ELEMENTS, 1, 1, 1, 1, 1)
            call(driver.cuLaunchKernel(self._function, *shape, 0, stream, ((memory,), (None,)), 0))
            expected = [value + 1 for value in expected]
            if turn % 3 == self._number % 3:
                call(driver.cuMemsetD32Async(memory, turn, ELEMENTS // 2, stream))
                expected[: ELEMENTS // 2] = [turn] * (ELEMENTS // 2)
            if turn % 5 == 0:
                values = (ctypes.c_uint32 * ELEMENTS)(*(value + 7 for value in expected))
                call(driver.cuStreamSynchronize(stream))
                call(driver.cuMemcpyHtoD(memory, ctypes.addressof(values), 4 * ELEMENTS))
                expected = list(values)
        result = (ctypes.c_uint32 * ELEMENTS)()
        call(driver.cuStreamSynchronize(stream))
        call(driver.cuMemcpyDtoH(ctypes.addressof(result), memory, 4 * ELEMENTS))
        self.right = list(result) == expected


def main() -> int:
    context = use_gpu()
    module = call(driver.cuModuleLoadData(PTX.encode()))
    function = call(driver.cuModuleGetFunction(module, b"alpha"))
    workers = [Worker(context, function, number) for number in range(THREADS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    right = all(worker.right for worker in workers)
    print("right" if right else "WRONG")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
