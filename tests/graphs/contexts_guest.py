"""A graph that streams of two contexts launch in turn: `contexts_guest.py LAUNCHES [object]`. Prints its sums.

object: the graph has a user object. What counts its ends is printed, too.
"""

import ctypes
import sys
from pathlib import Path

from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call
from tests.placement.large_guest import Program

ROWS, KIB = 4, 16


def main(launches: int, *, has_object: bool) -> None:
    program = Program(ROWS, KIB)
    first = call(driver.cuCtxGetCurrent())
    weights = program.buffer(program.count * ROWS, 1)
    numbers = program.buffer(program.count, 2)
    call(driver.cuStreamSynchronize(program.stream))
    call(driver.cuStreamBeginCapture(program.stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL))
    program.launch(program.layer, (numbers, numbers, weights), program.count, ROWS)
    captured = call(driver.cuStreamEndCapture(program.stream))
    ends: list[object] = []
    end = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(ends.append)
    if has_object:
        address = ctypes.cast(end, ctypes.c_void_p).value
        made = call(driver.cuUserObjectCreate(0, driver.CUhostFn(address), 1, 1))
        call(driver.cuGraphRetainUserObject(captured, made, 1, 1))
    graph = call(driver.cuGraphInstantiate(captured, 0))
    second = call(driver.cuCtxCreate(None, 0, call(driver.cuDeviceGet(0))))
    streams = [program.stream, call(driver.cuStreamCreate(1))]
    call(driver.cuCtxSetCurrent(first))
    for number in range(launches):
        call(driver.cuGraphLaunch(graph, streams[number % 2]))
    call(driver.cuStreamSynchronize(streams[(launches - 1) % 2]))
    print(program.sum(numbers))
    call(driver.cuCtxDestroy(second))
    call(driver.cuGraphLaunch(graph, program.stream))
    call(driver.cuStreamSynchronize(program.stream))
    print(program.sum(numbers), len(ends))
    call(driver.cuGraphDestroy(captured))
    call(driver.cuGraphExecDestroy(graph))
    print(len(ends))


if __name__ == "__main__":
    main(int(sys.argv[1]), has_object="object" in sys.argv[2:])
