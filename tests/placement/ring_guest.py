"""Threads in a ring, each with a stream: the same launches again and again, whose results the next thread reads.

    ring_guest.py THREADS ROUNDS REPEATS

Events order what one stream writes before what another one reads, and before it is overwritten. All count on one
board, each at places of its own. Prints sums of what each thread has gathered, and the counts.
"""

import queue
import sys
import threading
from pathlib import Path
from typing import Any

import numpy
from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, use_gpu

# gather: sum[i] = sum[i] * 5 + mail[i] + shared[i]. send: mail[i] = sum[i] ^ i. count: board[places[i]] += 1, which may
# be anywhere on the board.
HEAD = """
    .reg .b64 %a<5>;
    .reg .b32 %r<7>;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r2, %r2, %r3, %r4;
    mul.wide.u32 %a4, %r2, 4;
"""
PTX = f"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry gather(.param .u64 sum, .param .u64 mail, .param .u64 shared)
{{
{HEAD}
    ld.param.u64 %a1, [sum];
    ld.param.u64 %a2, [mail];
    ld.param.u64 %a3, [shared];
    add.u64 %a1, %a1, %a4;
    add.u64 %a2, %a2, %a4;
    add.u64 %a3, %a3, %a4;
    ld.global.u32 %r1, [%a1];
    ld.global.u32 %r5, [%a2];
    ld.global.u32 %r6, [%a3];
    mad.lo.u32 %r1, %r1, 5, %r5;
    add.u32 %r1, %r1, %r6;
    st.global.u32 [%a1], %r1;
    ret;
}}
.visible .entry send(.param .u64 mail, .param .u64 sum)
{{
{HEAD}
    ld.param.u64 %a1, [mail];
    ld.param.u64 %a2, [sum];
    add.u64 %a1, %a1, %a4;
    add.u64 %a2, %a2, %a4;
    ld.global.u32 %r1, [%a2];
    xor.b32 %r1, %r1, %r2;
    st.global.u32 [%a1], %r1;
    ret;
}}
"""
PTX += f"""
.visible .entry count(.param .u64 board, .param .u64 places)
{{
{HEAD}
    ld.param.u64 %a1, [board];
    ld.param.u64 %a2, [places];
    add.u64 %a2, %a2, %a4;
    ld.global.u32 %r1, [%a2];
    mul.wide.u32 %a3, %r1, 4;
    add.u64 %a1, %a1, %a3;
    ld.global.u32 %r5, [%a1];
    add.u32 %r5, %r5, 1;
    st.global.u32 [%a1], %r5;
    ret;
}}
"""
BLOCK, BLOCKS = 64, 4
ELEMENTS = BLOCK * BLOCKS
BYTES = 4 * ELEMENTS


class Station:
    """One thread's stream and memory, and what its neighbours tell it: events to come after."""

    def __init__(self, number: int) -> None:
        self.stream = call(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
        self.sum, self.mail, self.places = (call(driver.cuMemAlloc(BYTES)) for _ in range(3))
        places = numpy.arange(number * ELEMENTS, (number + 1) * ELEMENTS, dtype=numpy.uint32)
        call(driver.cuMemcpyHtoD(self.places, places, BYTES))
        for memory in (self.sum, self.mail):
            call(driver.cuMemsetD32(memory, 1, ELEMENTS))
        self.arrived: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.read: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def mark(self) -> Any:
        event = call(driver.cuEventCreate(driver.CUevent_flags.CU_EVENT_DISABLE_TIMING))
        call(driver.cuEventRecord(event, self.stream))
        return event

    def come_after(self, events: "queue.SimpleQueue[Any]") -> None:
        event = events.get(timeout=60)
        if event is not None:
            call(driver.cuStreamWaitEvent(self.stream, event, 0))
            call(driver.cuEventDestroy(event))


class Ring:
    def __init__(self, threads: int) -> None:
        self.context = use_gpu()
        module = call(driver.cuModuleLoadData(PTX.encode()))
        names = (b"gather", b"send", b"count")
        self.gather, self.send, self.count = (call(driver.cuModuleGetFunction(module, name)) for name in names)
        self.shared = call(driver.cuMemAlloc(BYTES))
        call(driver.cuMemcpyHtoD(self.shared, numpy.arange(ELEMENTS, dtype=numpy.uint32), BYTES))
        self.board = call(driver.cuMemAlloc(threads * BYTES))
        call(driver.cuMemsetD32(self.board, 0, threads * ELEMENTS))
        self.stations = [Station(number) for number in range(threads)]
        for station in self.stations:
            station.arrived.put(None)
        call(driver.cuCtxSynchronize())

    def launch(self, kernel: Any, stream: Any, *memory: Any) -> None:
        parameters = (memory, (None,) * len(memory))
        call(driver.cuLaunchKernel(kernel, BLOCKS, 1, 1, BLOCK, 1, 1, 0, stream, parameters, 0))

    def run(self, number: int, rounds: int, repeats: int) -> None:
        call(driver.cuCtxSetCurrent(self.context))
        own, following = self.stations[number], self.stations[(number + 1) % len(self.stations)]
        for _ in range(rounds):
            own.come_after(own.arrived)
            for _ in range(repeats):
                self.launch(self.gather, own.stream, own.sum, own.mail, self.shared)
                self.launch(self.count, own.stream, self.board, own.places)
            own.read.put(own.mark())
            own.come_after(following.read)
            self.launch(self.send, own.stream, following.mail, own.sum)
            following.arrived.put(own.mark())


def main() -> None:
    """The board counts the same everywhere, or a launch's sums were lost."""
    threads, rounds, repeats = map(int, sys.argv[1:])
    ring = Ring(threads)
    workers = [threading.Thread(target=ring.run, args=(number, rounds, repeats)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for station in ring.stations:
        values = numpy.zeros(ELEMENTS, numpy.uint32)
        call(driver.cuMemcpyDtoHAsync(values, station.sum, BYTES, station.stream))
        call(driver.cuStreamSynchronize(station.stream))
        print(int(values.sum()), int((values * numpy.arange(ELEMENTS, dtype=numpy.uint32)).sum()))
    call(driver.cuCtxSynchronize())
    values = numpy.zeros(threads * ELEMENTS, numpy.uint32)
    call(driver.cuMemcpyDtoH(values, ring.board, threads * BYTES))
    print(sorted(set(values.tolist())))


if __name__ == "__main__":
    main()
