"""Random programs of few buffers and streams that hardly ever wait: `order_guest.py FIRST COUNT OPS [FEATURE,...]`.

Launches read and write parts of buffers, one straight after the other, in a few streams; whatever two streams share,
they order by events, by what CUDA orders anyway, by a word in memory, or by a wait of the host. Prints, for each of
COUNT programs from seed FIRST on, a digest of all bytes at its end. FEATURE: what programs may do besides launching;
all if none is named.
"""

import ctypes
import hashlib
import mmap
import random
import sys
from pathlib import Path
from typing import Any

import numpy
from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, elementwise, functions, use_gpu

MIX = """
    ld.global.u32 %r1, [%to];
    ld.global.u32 %r2, [%from];
    mad.lo.u32 %r1, %r1, 1664525, %r2;
    add.u32 %r1, %r1, %salt;
    st.global.u32 [%to], %r1;
"""
TAKE = """
    ld.global.u32 %r1, [%from];
    mad.lo.u32 %r1, %r1, 22695477, %salt;
    st.global.u32 [%to], %r1;
"""
FILL = """
    mad.lo.u32 %r1, %i, 134775813, %salt;
    st.global.u32 [%to], %r1;
"""
CHASE = """
    sub.u64 %a1, %from, %at;
    ld.global.u64 %a1, [%a1];
    add.u64 %a1, %a1, %at;
    ld.global.u32 %r1, [%to];
    add.u32 %r1, %r1, %salt;
    st.global.u32 [%to], %r1;
    ld.global.u32 %r2, [%a1];
    add.u32 %r2, %r2, 1;
    st.global.u32 [%a1], %r2;
"""
BODIES = {
    **{f"mix_{n}": MIX for n in "abc"},
    "take_a": TAKE,
    "take_b": TAKE,
    "fill_a": FILL,
    "fill_b": FILL,
    "chase": CHASE,
}
KERNELS = ("mix_a", "mix_b", "mix_c", "take_a", "take_b", "fill_a", "fill_b")
WORDS, BUFFERS = 4096, 6
SLOTS, SLOT_WORDS = 3, 1024
FEATURES = (
    "streams",
    "legacy",
    "copies",
    "sets",
    "host",
    "chase",
    "graphs",
    "replace",
    "pinned",
    "values",
    "waits",
    "reads",
    "gives",
)
LEGACY, OWN = driver.CUstream(1), driver.CUstream(2)
RELAXED = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED


class Machine:
    """What all programs of a process share."""

    def __init__(self) -> None:
        use_gpu()
        parameters = ("to", "from"), ("count", "salt")
        self.functions = functions(*(elementwise(name, *parameters, body) for name, body in BODIES.items()))
        self.streams = [call(driver.cuStreamCreate(1)), call(driver.cuStreamCreate(0)), LEGACY, OWN]
        self.streams.append(call(driver.cuStreamCreate(1)))
        self.flags = call(driver.cuMemAlloc(64))
        call(driver.cuMemsetD8(self.flags, 0, 64))
        self.flag_value = 0
        self._mapped = mmap.mmap(-1, 4 * SLOTS * SLOT_WORDS)
        self.registered = ctypes.addressof(ctypes.c_char.from_buffer(self._mapped))
        call(driver.cuMemHostRegister(self.registered, 4 * SLOTS * SLOT_WORDS, 0))
        self.pinned = int(call(driver.cuMemHostAlloc(4 * SLOTS * SLOT_WORDS, 0)))


class Program:
    """buffers: address and words; used: by buffer, the streams that used it since it was last waited for."""

    def __init__(self, machine: Machine, seed: int, features: frozenset[str]) -> None:
        self._machine, self._draw, self._features = machine, random.Random(seed), features
        self._host: list[Any] = []
        self._buffers = [self._allocate() for _ in range(BUFFERS)]
        self._pinned = 0
        if "pinned" in features and self._draw.random() < 0.5:
            self._pinned = int(call(driver.cuMemHostAlloc(4 * WORDS, 2)))
            numpy.ctypeslib.as_array((ctypes.c_uint32 * WORDS).from_address(self._pinned))[:] = 1
            self._buffers.append(int(call(driver.cuMemHostGetDevicePointer(self._pinned, 0))))
        self._used: list[set[int]] = [set() for _ in self._buffers]
        self._slots: list[Any] = [None] * SLOTS  # events after the last copies from them
        self._slot_streams = [0] * SLOTS
        self._slots_at = machine.registered if self._draw.random() < 0.3 else machine.pinned
        self._digest = hashlib.sha256()
        several = "streams" in features and self._draw.random() < 0.7
        choices = [0, 1, 4] + ([2, 3] if "legacy" in features else [])
        self._choices = (
            self._draw.sample(choices, self._draw.randint(2, len(choices))) if several else [self._draw.choice(choices)]
        )

    def _allocate(self) -> int:
        address = int(call(driver.cuMemAlloc(4 * WORDS)))
        values = numpy.arange(WORDS, dtype=numpy.uint32) * numpy.uint32(self._draw.randrange(1, 1000))
        call(driver.cuMemcpyHtoD(address, values, values.nbytes))
        return address

    def _is_ordered(self, earlier: int, later: int) -> bool:
        blocking = (1, 3)
        return earlier == later or (earlier == 2 and later in blocking) or (later == 2 and earlier in blocking)

    def _order(self, buffer: int, stream: int) -> None:
        for earlier in self._used[buffer]:
            if not self._is_ordered(earlier, stream):
                self._wait(earlier, stream)
        self._used[buffer] = {stream}

    def _wait(self, earlier: int, later: int) -> None:
        machine, streams = self._machine, self._machine.streams
        if "values" in self._features and self._draw.random() < 0.2:
            machine.flag_value += 1
            flag = int(machine.flags) + 8 * earlier
            call(driver.cuStreamWriteValue64(streams[earlier], flag, machine.flag_value, 0))
            call(driver.cuStreamWaitValue64(streams[later], flag, machine.flag_value, 0))
            return
        event = call(driver.cuEventCreate(2))
        call(driver.cuEventRecord(event, streams[earlier]))
        call(driver.cuStreamWaitEvent(streams[later], event, 0))
        call(driver.cuEventDestroy(event))

    def _waited(self, stream: int) -> None:
        """The host has, so whatever it gives to other streams comes after the stream's work."""
        if self._draw.random() < 0.5:
            for streams in self._used:
                streams.discard(stream)

    def _part(self) -> tuple[int, int]:
        """First word and words: mostly all, or halves."""
        if self._draw.random() < 0.5:
            return 0, WORDS
        words = self._draw.choice((WORDS // 2, WORDS // 4, 64))
        return self._draw.randrange(0, WORDS - words + 1, 64), words

    def _two(self, stream: int) -> tuple[int, int, int]:
        """Addresses of parts of two buffers that the stream may use, and their words."""
        to, source = self._draw.sample(range(len(self._buffers)), 2)
        for buffer in (to, source):
            self._order(buffer, stream)
        (begin, words), (other, less) = self._part(), self._part()
        return self._buffers[to] + 4 * begin, self._buffers[source] + 4 * other, min(words, less)

    def _launch_on(self, stream: Any, to: int, source: int, words: int, name: str) -> None:
        parameters = ((to, source, words, self._draw.randrange(2**31)), (ctypes.c_uint64,) * 2 + (ctypes.c_uint32,) * 2)
        call(
            driver.cuLaunchKernel(
                self._machine.functions[name], -(-words // 128), 1, 1, 128, 1, 1, 0, stream, parameters, 0
            )
        )

    def launch(self, stream: int) -> None:
        to, source, words = self._two(stream)
        self._launch_on(self._machine.streams[stream], to, source, words, self._draw.choice(KERNELS))

    def copies(self, stream: int) -> None:
        to, source, words = self._two(stream)
        call(driver.cuMemcpyDtoDAsync(to, source, 4 * words, self._machine.streams[stream]))

    def sets(self, stream: int) -> None:
        """All words, or half of those of each row."""
        to, _, words = self._two(stream)
        value, handle = self._draw.randrange(2**31), self._machine.streams[stream]
        if self._draw.random() < 0.5:
            call(driver.cuMemsetD32Async(to, value, words, handle))
        else:
            call(driver.cuMemsetD2D32Async(to, 128, value, 16, words // 32, handle))

    def gives(self, stream: int) -> None:
        """A copy from page-locked memory, which is changed again when an event says that it may be."""
        to, _, words = self._two(stream)
        slot, words = self._draw.randrange(SLOTS), min(words, SLOT_WORDS)
        if self._slots[slot]:
            call(driver.cuEventSynchronize(self._slots[slot]))
        else:
            self._slots[slot] = call(driver.cuEventCreate(2))
        address = self._slots_at + 4 * SLOT_WORDS * slot
        values = numpy.ctypeslib.as_array((ctypes.c_uint32 * words).from_address(address))
        values[:] = self._draw.randrange(2**31)
        values[:: self._draw.randrange(1, 9)] += 1
        call(driver.cuMemcpyHtoDAsync(to, address, 4 * words, self._machine.streams[stream]))
        if self._draw.random() < 0.5:
            call(driver.cuEventRecord(self._slots[slot], self._machine.streams[stream]))
            self._slot_streams[slot] = stream
            return
        call(driver.cuEventDestroy(self._slots[slot]))
        self._slots[slot] = None
        call(driver.cuStreamSynchronize(self._machine.streams[stream]))

    def host(self, stream: int) -> None:
        """A copy to or from pageable memory, in the stream."""
        buffer = self._draw.randrange(BUFFERS)
        self._order(buffer, stream)
        begin, words = self._part()
        values = numpy.full(words, self._draw.randrange(2**31), numpy.uint32)
        self._host.append(values)
        if self._draw.random() < 0.7:
            copy = self._draw.choice((driver.cuMemcpyHtoDAsync, driver.cuMemcpyAsync))
            call(
                copy(
                    self._buffers[buffer] + 4 * begin, values.ctypes.data, values.nbytes, self._machine.streams[stream]
                )
            )
            values[:] = 0  # the driver has its own by now
            if self._draw.random() < 0.3:
                call(driver.cuStreamSynchronize(self._machine.streams[stream]))
                self._waited(stream)
            return
        call(
            driver.cuMemcpyDtoHAsync(
                values, self._buffers[buffer] + 4 * begin, values.nbytes, self._machine.streams[stream]
            )
        )
        call(driver.cuStreamSynchronize(self._machine.streams[stream]))
        self._digest.update(values.tobytes())
        self._waited(stream)

    def chase(self, stream: int) -> None:
        """A kernel that follows a pointer in memory: nobody knows what it touches."""
        to, target, words = self._two(stream)
        place = int(self._machine.flags) + 48
        for earlier in range(len(self._machine.streams)):
            if not self._is_ordered(earlier, stream):
                self._wait(earlier, stream)
        call(driver.cuMemcpyHtoDAsync(place, numpy.array([target], numpy.uint64), 8, self._machine.streams[stream]))
        self._launch_on(self._machine.streams[stream], to, place, words, "chase")
        call(driver.cuStreamSynchronize(self._machine.streams[stream]))

    def graphs(self, stream: int) -> None:
        if stream == 2:
            return
        to, source, words = self._two(stream)
        handle = self._machine.streams[stream]
        call(driver.cuStreamBeginCapture(handle, RELAXED))
        for name in self._draw.sample(KERNELS, 2):
            self._launch_on(handle, to, source, words, name)
        graph = call(driver.cuStreamEndCapture(handle))
        instance = call(driver.cuGraphInstantiate(graph, 0))
        call(driver.cuGraphLaunch(instance, handle))
        call(driver.cuGraphExecDestroy(instance))
        call(driver.cuGraphDestroy(graph))

    def replace(self, stream: int) -> None:
        """A buffer goes, straight after it was used, and another comes that may be where it was."""
        buffer = self._draw.randrange(BUFFERS)
        for earlier in self._used[buffer] - {stream}:
            self._wait(earlier, stream)
        self._used[buffer] = {stream}
        if self._draw.random() < 0.5 or stream == 3:
            call(driver.cuMemFree(self._buffers[buffer]))
            self._buffers[buffer] = self._allocate()
        else:
            handle = self._machine.streams[stream]
            call(driver.cuMemFreeAsync(self._buffers[buffer], handle))
            self._buffers[buffer] = int(call(driver.cuMemAllocAsync(4 * WORDS, handle)))
            call(driver.cuMemsetD32Async(self._buffers[buffer], self._draw.randrange(2**31), WORDS, handle))

    def pinned(self, _stream: int) -> None:
        """The host looks at, or changes, its own memory that kernels use."""
        if not self._pinned:
            return
        for earlier in self._used[-1]:
            call(driver.cuStreamSynchronize(self._machine.streams[earlier]))
        self._used[-1] = set()
        values = numpy.ctypeslib.as_array((ctypes.c_uint32 * WORDS).from_address(self._pinned))
        self._digest.update(values.tobytes())
        values[self._draw.randrange(WORDS)] += 1

    def waits(self, stream: int) -> None:
        """Then events that were recorded before are done."""
        every = self._draw.random() < 0.3
        if every:
            call(driver.cuCtxSynchronize())
        else:
            call(driver.cuStreamSynchronize(self._machine.streams[stream]))
            self._waited(stream)
        for slot, event in enumerate(self._slots):
            if event and (every or self._slot_streams[slot] == stream):
                call(driver.cuEventQuery(event))

    def reads(self, stream: int) -> None:
        """Few words are read back, and mostly waited for at once; then the pinned memory can be looked at, too."""
        buffer = self._draw.randrange(BUFFERS)
        self._order(buffer, stream)
        words = numpy.zeros(self._draw.choice((1, 1, 16)), numpy.uint32)
        begin = self._draw.randrange(0, WORDS - 16)
        call(
            driver.cuMemcpyDtoHAsync(
                words, self._buffers[buffer] + 4 * begin, words.nbytes, self._machine.streams[stream]
            )
        )
        if self._draw.random() < 0.1:
            self.launch(stream)
        call(driver.cuStreamSynchronize(self._machine.streams[stream]))
        self._digest.update(words.tobytes())
        if self._pinned and self._used[-1] == {stream}:
            self._used[-1] = set()
            self._digest.update(ctypes.string_at(self._pinned, 4 * WORDS))
        self._waited(stream)

    def values(self, stream: int) -> None:
        """Only between streams."""

    def run(self, operations: int) -> str:
        others = [f for f in FEATURES if f in self._features and f not in ("streams", "legacy")]
        rare = {"chase": 0.05, "graphs": 0.1, "waits": 0.1, "host": 0.2, "replace": 0.15, "pinned": 0.1, "reads": 0.7}
        for _ in range(operations):
            stream = self._draw.choice(self._choices)
            other = self._draw.choice(others) if others else "launch"
            is_other = self._draw.random() < 0.3 * rare.get(other, 1.0)
            getattr(self, other if is_other else "launch")(stream)
        call(driver.cuCtxSynchronize())
        for buffer in self._buffers[:BUFFERS]:
            numbers = numpy.zeros(WORDS, numpy.uint32)
            call(driver.cuMemcpyDtoH(numbers, buffer, numbers.nbytes))
            self._digest.update(numbers.tobytes())
            call(driver.cuMemFree(buffer))
        for event in filter(None, self._slots):
            call(driver.cuEventDestroy(event))
        if self._pinned:
            self.pinned(0)
            call(driver.cuMemFreeHost(self._pinned))
        return self._digest.hexdigest()[:16]


def main() -> None:
    first, count, operations = map(int, sys.argv[1:4])
    features = frozenset(sys.argv[4].split(",") if len(sys.argv) > 4 else FEATURES)
    machine = Machine()
    for seed in range(first, first + count):
        print(seed, Program(machine, seed, features).run(operations), flush=True)


if __name__ == "__main__":
    main()
