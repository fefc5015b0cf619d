"""A program that is larger than its GPU: `large_guest.py layers LAYERS WAITED UNWAITED ROWS
KIB`, `... captured|scattered|sparse LAYERS WAITED UNWAITED ROWS KIB`, `...
serve LAYERS REQUESTS ROWS KIB`, `... fill LAYERS ROWS KIB`
or `... info`.

layers: each layer has ROWS rows of weights, of KIB each like what goes through the layers, which are made on the GPU;
requests go through all layers, over the same two buffers, and their results are kept; the host waits for each of the
first ones. Prints the sum of each result. captured: the same, and a request is a graph of all layers, over its own
input and output, half of them joined by programmatic dependencies, as cuBLAS does. scattered: as captured, and each
layer has a row more, which are made together, after all other rows. sparse: as captured, and the last row of each layer
is not read. serve: the same request, waited
for each time, until a line comes in, and REQUESTS more; prints "right", or the first error and the next one. fill:
prints how many of the layers there was memory for. info: prints what memory the GPU says it has.
"""

import ctypes
import os
import select
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy
from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import PROGRAMMATIC, call, elementwise, functions, launch, use_gpu

LAYER = """
    ld.global.u32 %r1, [%in];
    mov.u32 %r3, 0;
    mul.wide.u32 %a1, %count, 4;
loop:
    ld.global.u32 %r2, [%weights];
    mad.lo.u32 %r1, %r1, 3, %r2;
    add.u64 %weights, %weights, %a1;
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p1, %r3, %rows;
    @%p1 bra loop;
    st.global.u32 [%out], %r1;
"""
FILL = """
    mad.lo.u32 %r1, %i, 2654435761, %first;
    st.global.u32 [%out], %r1;
"""


class Program:
    def __init__(self, rows: int, kib: int, *, uses_first: bool = True) -> None:
        """On the first GPU, or the current context's."""
        if uses_first:
            use_gpu()
        layer = elementwise("layer", ("out", "in", "weights"), ("count", "rows"), LAYER)
        fill = elementwise("fill", ("out",), ("count", "first"), FILL)
        found = functions(layer + fill)
        self.layer, self.fill = found["layer"], found["fill"]
        self.stream = call(driver.cuStreamCreate(1))
        self.rows, self.count = rows, kib * 256

    def launch(self, function: Any, pointers: tuple[Any, ...], count: int, number: int, *attributes: str) -> None:
        kinds = (*(None for _ in pointers), ctypes.c_uint32, ctypes.c_uint32)
        launch(function, -(-count // 256), 256, self.stream, ((*pointers, count, number), kinds), *attributes)

    def buffer(self, count: int, first: int) -> Any:
        buffer = call(driver.cuMemAlloc(count * 4))
        self.launch(self.fill, (buffer,), count, first)
        return buffer

    def sum(self, buffer: Any) -> int:
        numbers = numpy.zeros(self.count, numpy.uint32)
        call(driver.cuMemcpyDtoH(numbers, buffer, numbers.nbytes))
        return int(numbers.sum())


def layers(count: int, waited: int, unwaited: int, rows: int, kib: int) -> None:
    program, requests = Program(rows, kib), waited + unwaited
    weights = [program.buffer(program.count * rows, number) for number in range(count)]
    between = [program.buffer(program.count, number) for number in range(2)]
    given = [program.buffer(program.count, number) for number in range(requests)]
    results = [program.buffer(program.count, number) for number in range(requests)]
    for request in range(requests):
        at = given[request]
        for number, weight in enumerate(weights):
            out = results[request] if number == count - 1 else between[number % 2]
            program.launch(program.layer, (out, at, weight), program.count, rows)
            at = out
        if request < waited:
            call(driver.cuStreamSynchronize(program.stream))
    call(driver.cuStreamSynchronize(program.stream))
    print(*(program.sum(result) for result in results))


def captured(
    count: int, waited: int, unwaited: int, rows: int, kib: int, *, scattered: bool = False, sparse: bool = False
) -> None:
    program, requests = Program(rows, kib), waited + unwaited
    weights = [program.buffer(program.count * rows, number) for number in range(count)]
    more = program.buffer(program.count * count, 3) if scattered else None
    between = [program.buffer(program.count, number) for number in range(3)]
    given = [program.buffer(program.count, number) for number in range(requests)]
    results = [program.buffer(program.count, number) for number in range(requests)]
    call(driver.cuStreamBeginCapture(program.stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL))
    for number, weight in enumerate(weights):
        to, source = between[1 + number % 2], between[0 if number == 0 else 1 + (number - 1) % 2]
        read = rows - 1 if sparse else rows
        program.launch(program.layer, (to, source, weight), program.count, read, *[PROGRAMMATIC] * (number % 2))
        if more is not None:
            row = int(more) + number * program.count * 4
            program.launch(program.layer, (to, to, driver.CUdeviceptr(row)), program.count, 1)
    graph = call(driver.cuGraphInstantiate(call(driver.cuStreamEndCapture(program.stream)), 0))
    for request in range(requests):
        call(driver.cuMemcpyDtoDAsync(between[0], given[request], program.count * 4, program.stream))
        call(driver.cuGraphLaunch(graph, program.stream))
        last = between[1 + (count - 1) % 2]
        call(driver.cuMemcpyDtoDAsync(results[request], last, program.count * 4, program.stream))
        if request < waited:
            call(driver.cuStreamSynchronize(program.stream))
    call(driver.cuStreamSynchronize(program.stream))
    print(*(program.sum(result) for result in results))


def serve(count: int, requests: int, rows: int, kib: int) -> None:
    program = Program(rows, kib)
    weights = [program.buffer(program.count * rows, number) for number in range(count)]
    between = [program.buffer(program.count, number) for number in range(2)]
    first = program.buffer(program.count, 7)

    def request() -> int:
        at = first
        for number, weight in enumerate(weights):
            program.launch(program.layer, (between[number % 2], at, weight), program.count, rows)
            at = between[number % 2]
        call(driver.cuStreamSynchronize(program.stream))
        return program.sum(at)

    wanted = request()
    print("started", flush=True)
    try:
        while not select.select([sys.stdin], [], [], 0)[0]:
            assert request() == wanted
        for _ in range(requests):
            assert request() == wanted
        print("right", flush=True)
    except RuntimeError as error:
        print("error", error, int(driver.cuMemAlloc(4096)[0]), flush=True)
    os._exit(0)


def fill(count: int, rows: int, kib: int) -> None:
    program = Program(rows, kib)
    given = [driver.cuMemAlloc(program.count * rows * 4)[0] for _ in range(count)]
    print(sum(error == driver.CUresult.CUDA_SUCCESS for error in given), "of", count)


def info() -> None:
    use_gpu()
    free, total = call(driver.cuMemGetInfo())
    print(free >> 20, total >> 20, call(driver.cuDeviceTotalMem(call(driver.cuDeviceGet(0)))) >> 20)


if __name__ == "__main__":
    if sys.argv[1] == "info":
        info()
    else:
        sizes = list(map(int, sys.argv[2:]))
        programs: dict[str, Callable[..., None]] = {
            "layers": layers,
            "captured": captured,
            "scattered": partial(captured, scattered=True),
            "sparse": partial(captured, sparse=True),
            "serve": serve,
            "fill": fill,
        }
        programs[sys.argv[1]](*sizes)
