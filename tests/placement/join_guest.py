"""A stream joins a capture while another thread does what makes Tessera ask that stream for its work so far.

    join_guest.py free | legacy | pool | first

free, legacy: the other thread brings all memory home, in a stream of that kind, and the one that joins has yet to write
some; pool: it needs more of a pool, to which the one that joins has given some back. It waits longer and longer
before it does so. first: a capture begins while the other thread's launch is the first that uses another GPU's copy.
Prints the errors, which the program alone does not have.
"""

import sys
import threading
import time
from pathlib import Path
from typing import Any

from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, store_ptx, use_gpu

ROUNDS, STEP_S = 25, 0.001
FIRST_S = 0.1  # that a driver takes for a change of the thread's mode of capture
BYTES = 1 << 20
FREE = driver.CUstream_flags.CU_STREAM_NON_BLOCKING
RELAXED = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
WRITTEN = driver.CUstreamWriteValue_flags.CU_STREAM_WRITE_VALUE_DEFAULT


class Program:
    def __init__(self, kind: str) -> None:
        self.context = use_gpu()
        self.store = call(driver.cuModuleGetFunction(call(driver.cuModuleLoadData(store_ptx("u32"))), b"store"))
        self.memory, self.other = (call(driver.cuMemAlloc(BYTES)) for _ in range(2))
        self.side, self.captured, there = (call(driver.cuStreamCreate(FREE)) for _ in range(3))
        self.there = driver.CUstream(driver.CU_STREAM_LEGACY) if kind == "legacy" else there
        self.event = call(driver.cuEventCreate(driver.CUevent_flags.CU_EVENT_DISABLE_TIMING))
        self.kind = kind
        self.errors: list[str] = []

    def launch(self, stream: Any, memory: Any) -> None:
        call(driver.cuLaunchKernel(self.store, 1, 1, 1, 1, 1, 1, 0, stream, ((memory,), (None,)), 0))

    def expect(self, what: str, result: tuple[Any, ...]) -> Any:
        if result[0] != driver.CUresult.CUDA_SUCCESS:
            self.errors.append(f"{what}: {result[0].name}")
        return result[-1]

    def give(self) -> None:
        """What the other thread's work is to come after."""
        if self.kind == "pool":
            call(driver.cuMemFreeAsync(call(driver.cuMemAllocAsync(BYTES, self.side)), self.side))
        else:
            self.launch(self.side, self.memory)

    def ask(self, pause_s: float) -> None:
        time.sleep(pause_s)
        call(driver.cuCtxSetCurrent(self.context))
        if self.kind == "pool":
            self.expect("allocation", driver.cuMemAllocAsync(64 * BYTES, self.there))
        else:
            self.expect("work", driver.cuStreamWriteValue32(self.there, int(self.other) + 8, 5, WRITTEN))

    def record(self, stream: Any) -> None:
        self.expect("record", driver.cuEventRecord(self.event, stream))

    def wait(self, stream: Any) -> None:
        self.expect("wait", driver.cuStreamWaitEvent(stream, self.event, 0))

    def round(self, pause_s: float) -> None:
        self.give()
        self.begin(0)
        self.record(self.captured)
        asking = threading.Thread(target=self.ask, args=(pause_s,))
        asking.start()
        self.wait(self.side)
        self.record(self.side)
        self.wait(self.captured)
        asking.join()
        graph = self.expect("capture", driver.cuStreamEndCapture(self.captured))
        if graph:
            call(driver.cuGraphDestroy(graph))

    def begin(self, pause_s: float) -> None:
        time.sleep(pause_s)
        call(driver.cuCtxSetCurrent(self.context))
        call(driver.cuStreamBeginCapture(self.captured, RELAXED))

    def end(self) -> None:
        graph = self.expect("capture", driver.cuStreamEndCapture(self.captured))
        if graph:
            call(driver.cuGraphDestroy(graph))

    def first(self) -> None:
        """During a capture is not the moment; it is tried again with the second launch from there."""
        self.begin(0)
        self.launch(self.there, self.memory)
        self.end()
        self.launch(self.there, self.memory)
        capturing = threading.Thread(target=self.begin, args=(FIRST_S / 2,))
        capturing.start()
        self.launch(self.there, self.memory)
        capturing.join()
        self.end()


def main() -> None:
    program = Program(sys.argv[1])
    if program.kind == "first":
        program.first()
    else:
        program.launch(program.there, program.other)
    for number in range(ROUNDS if program.kind != "first" else 0):
        program.round(number * STEP_S)
        if program.errors:
            break
    call(driver.cuCtxSynchronize())
    print(program.errors)


if __name__ == "__main__":
    main()
