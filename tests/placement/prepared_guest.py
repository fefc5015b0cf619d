"""Functions of several modules, by turns, over buffers of their own: `prepared_guest.py MODULES REQUESTS PAUSE`.

The first request's launches come right after each other, the others after so many seconds. Then a module more is
loaded, launched from once and unloaded. Prints the sum of each result, and on standard error the longest that a launch
took, in milliseconds.
"""

import ctypes
import sys
import time
from pathlib import Path
from typing import Any

import numpy
from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import HEAD, call, elementwise, use_gpu

COUNT, STEPS = 1024, 60


def loaded(number: int) -> tuple[Any, Any]:
    body = f"ld.global.u32 %r1, [%in]; mad.lo.u32 %r1, %r1, {2 * number + 3}, 1; st.global.u32 [%out], %r1;"
    name = f"step{number}"
    module = call(driver.cuModuleLoadData((HEAD + elementwise(name, ("out", "in"), ("count",), body)).encode()))
    return module, call(driver.cuModuleGetFunction(module, name.encode()))


class Launcher:
    def __init__(self) -> None:
        self.stream, self.longest = call(driver.cuStreamCreate(1)), 0.0

    def launch(self, function: Any, buffer: Any) -> None:
        parameters = ((buffer, buffer, COUNT), (None, None, ctypes.c_uint32))
        begun = time.perf_counter()
        call(driver.cuLaunchKernel(function, COUNT // 256, 1, 1, 256, 1, 1, 0, self.stream, parameters, 0))
        self.longest = max(self.longest, time.perf_counter() - begun)


def main() -> None:
    modules, requests, pause = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    use_gpu()
    launcher = Launcher()
    all_loaded = [loaded(number) for number in range(modules)]
    buffers = [call(driver.cuMemAlloc(4 * COUNT)) for _ in range(requests)]
    for buffer in buffers:
        call(driver.cuMemsetD32(buffer, 1, COUNT))
    for number, buffer in enumerate(buffers):
        for step in range(STEPS):
            launcher.launch(all_loaded[step % modules][1], buffer)
        if not number:
            call(driver.cuStreamSynchronize(launcher.stream))
            time.sleep(pause)
    module, function = loaded(modules)
    launcher.launch(function, buffers[0])
    call(driver.cuStreamSynchronize(launcher.stream))
    call(driver.cuModuleUnload(module))
    result = numpy.zeros(COUNT, dtype=numpy.uint32)
    for buffer in buffers:
        call(driver.cuMemcpyDtoH(result, buffer, result.nbytes))
        print(int(result.sum(dtype=numpy.uint64)))
    print(1000 * launcher.longest, file=sys.stderr)


if __name__ == "__main__":
    main()
