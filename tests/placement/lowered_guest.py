"""A function's most shared memory is lowered when another thread has launched it: `lowered_guest.py LAUNCHES`.

The thread makes its launches, with more than that, and then says so. Prints what its wait answers, and what they made.
"""

import ctypes
import sys
import threading
from pathlib import Path

import numpy
from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, elementwise, functions, use_gpu

COUNT, MUCH, LITTLE = 256, 64 << 10, 16 << 10
MOST = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
BODY = "ld.global.u32 %r1, [%out]; add.u32 %r1, %r1, 1; st.global.u32 [%out], %r1;"


def main() -> None:
    use_gpu()
    function = functions(elementwise("step", ("out",), ("count",), BODY))["step"]
    stream, buffer = call(driver.cuStreamCreate(1)), call(driver.cuMemAlloc(4 * COUNT))
    call(driver.cuMemsetD32(buffer, 0, COUNT))
    call(driver.cuFuncSetAttribute(function, MOST, MUCH))
    launched, lowered = threading.Event(), threading.Event()

    def work() -> None:
        use_gpu()
        parameters = ((buffer, COUNT), (None, ctypes.c_uint32))
        for _ in range(int(sys.argv[1])):
            call(driver.cuLaunchKernel(function, 1, 1, 1, COUNT, 1, 1, MUCH, stream, parameters, 0))
        launched.set()
        lowered.wait()
        print(driver.cuStreamSynchronize(stream)[0].name)

    thread = threading.Thread(target=work)
    thread.start()
    launched.wait()
    call(driver.cuFuncSetAttribute(function, MOST, LITTLE))
    lowered.set()
    thread.join()
    result = numpy.zeros(COUNT, dtype=numpy.uint32)
    call(driver.cuMemcpyDtoH(result, buffer, result.nbytes))
    print(int(result.min()), int(result.max()))


main()
