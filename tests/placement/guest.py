"""Buffers and what is done with them, as it is told: a JSON object on standard input.

{"buffers": [bytes, ...], "steps": [step, ...]}. A step is one of

    {"launch": "alpha" or "beta", "buffers": [n, ...], "times": 1}
                              the first elements of each buffer, 4096 at most, become one more
    {"wait": "context", "stream", "event" or "copy"}
    {"copy": [from, to]}      a whole buffer into another of the same size, in the stream
    {"replace": n}            the buffer is freed and allocated again, zero
    {"attribute": n}          SYNC_MEMOPS is set
    {"capture": "alpha", "buffers": [n, ...], "times": 1}    the same launches, in a graph that is launched once

Prints, for each buffer, the sum of its elements and the device that its pointer names; then how much less memory is
free than before the buffers were allocated.
"""

import ctypes
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, elementwise, functions, use_gpu

ADD_ONE = """
    ld.global.u32 %r1, [%buffer];
    add.u32 %r1, %r1, 1;
    st.global.u32 [%buffer], %r1;
"""
KERNELS = [elementwise(name, ("buffer",), ("count",), ADD_ONE) for name in ("alpha", "beta")]
MOST = 4096
ORDINAL = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
SYNC = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_SYNC_MEMOPS
RELAXED = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED


class Program:
    """Buffers of 32-bit numbers, all zero at first."""

    def __init__(self, sizes: list[int]) -> None:
        use_gpu()
        self._functions = functions(*KERNELS)
        self._stream, self._event = call(driver.cuStreamCreate(0)), call(driver.cuEventCreate(0))
        self._sizes, self._free = sizes, call(driver.cuMemGetInfo())[0]
        self._buffers = [self._allocate(size) for size in sizes]

    def _allocate(self, size: int) -> Any:
        buffer = call(driver.cuMemAlloc(size))
        call(driver.cuMemsetD8(buffer, 0, size))
        return buffer

    def launch(self, step: dict[str, Any], name: str) -> None:
        for _ in range(step.get("times", 1)):
            for number in step["buffers"]:
                count = min(self._sizes[number] // 4, MOST)
                parameters = ((self._buffers[number], count), (None, ctypes.c_uint32))
                shape = (-(-count // 256), 1, 1, 256, 1, 1)
                call(driver.cuLaunchKernel(self._functions[name], *shape, 0, self._stream, parameters, 0))

    def wait(self, _step: dict[str, Any], what: str) -> None:
        if what == "context":
            call(driver.cuCtxSynchronize())
        elif what == "stream":
            call(driver.cuStreamSynchronize(self._stream))
        elif what == "copy":
            call(driver.cuMemcpyDtoH(numpy.zeros(1, numpy.uint32), self._buffers[0], 4))
        else:
            call(driver.cuEventRecord(self._event, self._stream))
            call(driver.cuEventSynchronize(self._event))

    def copy(self, _step: dict[str, Any], pair: list[int]) -> None:
        source, target = pair
        size = self._sizes[source]
        call(driver.cuMemcpyDtoDAsync(self._buffers[target], self._buffers[source], size, self._stream))

    def replace(self, _step: dict[str, Any], number: int) -> None:
        call(driver.cuMemFree(self._buffers[number]))
        self._buffers[number] = self._allocate(self._sizes[number])

    def attribute(self, _step: dict[str, Any], number: int) -> None:
        call(driver.cuPointerSetAttribute(1, SYNC, self._buffers[number]))

    def capture(self, step: dict[str, Any], name: str) -> None:
        call(driver.cuStreamBeginCapture(self._stream, RELAXED))
        self.launch(step, name)
        graph = call(driver.cuGraphInstantiate(call(driver.cuStreamEndCapture(self._stream)), 0))
        call(driver.cuGraphLaunch(graph, self._stream))

    def show(self) -> None:
        call(driver.cuCtxSynchronize())
        for buffer, size in zip(self._buffers, self._sizes, strict=True):
            numbers = numpy.zeros(size // 4, numpy.uint32)
            call(driver.cuMemcpyDtoH(numbers, buffer, numbers.nbytes))
            print(int(numbers.sum()), int(call(driver.cuPointerGetAttribute(ORDINAL, buffer))))
        print(self._free - call(driver.cuMemGetInfo())[0])


def main() -> None:
    told = json.load(sys.stdin)
    program = Program(told["buffers"])
    for step in told["steps"]:
        for kind in ("launch", "wait", "copy", "replace", "attribute", "capture"):
            if kind in step:
                action: Callable[[dict[str, Any], Any], None] = getattr(program, kind)
                action(step, step[kind])
    program.show()


if __name__ == "__main__":
    main()
