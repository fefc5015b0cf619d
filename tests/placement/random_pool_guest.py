"""A random program against a model of its memory: `random_pool_guest.py SEED STEPS PAGES [graphs]`.

PAGES: so many pages of 2 MiB the pool has. Allocates (what can be counted in pages), frees, launches, copies and
sets, waits now and then, and compares what it reads with the model, and in the end all bytes. Allocating fails exactly
when there are not enough pages left. graphs: captures such steps, too, and launches the graphs again and again. Prints
how many allocations failed and how many did not.
"""

import ctypes
import random
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy
from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, elementwise, functions, use_gpu

PAGE, WORDS = 2 << 20, 1 << 19
MOST_WORDS = 1 << 16  # that a step changes
FULL = driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY
MIX = """
    ld.global.u32 %r1, [%in];
    ld.global.u32 %r2, [%other];
    mad.lo.u32 %r1, %r1, 3, %r2;
    add.u32 %r1, %r1, %more;
    st.global.u32 [%out], %r1;
"""
FILL = """
    mad.lo.u32 %r1, %i, 2654435761, %first;
    st.global.u32 [%out], %r1;
"""


RELAXED = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED


@dataclass(slots=True, eq=False)
class Buffer:
    address: int
    pages: int
    handles: list[Any] | None  # of pages that the program has mapped itself
    words: Any


@dataclass(slots=True, eq=False)
class Kept:
    """A graph, and what a launch of it does: words of the model that are set, from words and a number."""

    instance: Any
    buffers: list[Buffer]
    steps: list[tuple[Any, Any, Any, int]]


class Program:
    def __init__(self, seed: int, pages: int) -> None:
        use_gpu()
        mix = elementwise("mix", ("out", "in", "other"), ("count", "more"), MIX)
        found = functions(mix + elementwise("fill", ("out",), ("count", "first"), FILL))
        self.mix, self.fill = found["mix"], found["fill"]
        self.stream = call(driver.cuStreamCreate(1))
        self.random = random.Random(seed)
        self.buffers: list[Buffer] = []
        self.graphs: list[Kept] = []
        self.free, self.refused, self.given = pages, 0, 0

    def launch(self, function: Any, pointers: tuple[int, ...], count: int, number: int) -> None:
        kinds = (*(ctypes.c_uint64 for _ in pointers), ctypes.c_uint32, ctypes.c_uint32)
        parameters = ((*pointers, count, number), kinds)
        call(driver.cuLaunchKernel(function, -(-count // 256), 1, 1, 256, 1, 1, 0, self.stream, parameters, 0))

    def allocate(self) -> None:
        pages = self.random.choice((1, 1, 2, 2, 3, 4, 6, 10, 25))
        mapped = self.random.random() < 0.25
        found = self._mapped(pages) if mapped else self._plain(pages)
        assert (found is not None) == (pages <= self.free), (pages, self.free, mapped)
        if found is None:
            self.refused += 1
            return
        self.given += 1
        self.free -= pages
        self.begin(found)

    def begin(self, buffer: Buffer) -> None:
        """Fills it, on the GPU and in the model."""
        first, count = self.random.randrange(1 << 30), buffer.pages * WORDS
        self.launch(self.fill, (buffer.address,), count, first)
        buffer.words = numpy.arange(count, dtype=numpy.uint32) * numpy.uint32(2654435761) + numpy.uint32(first)
        self.buffers.append(buffer)

    def _plain(self, pages: int) -> Buffer | None:
        error, address = driver.cuMemAlloc(pages * PAGE)
        assert error in (FULL, driver.CUresult.CUDA_SUCCESS)
        return None if error == FULL else Buffer(int(address), pages, None, None)

    def _mapped(self, pages: int) -> Buffer | None:
        place = driver.CUmemLocation()
        place.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        properties, access = driver.CUmemAllocationProp(), driver.CUmemAccessDesc()
        properties.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        properties.location = access.location = place
        access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        address = int(call(driver.cuMemAddressReserve(pages * PAGE, 0, 0, 0)))
        handles: list[Any] = []
        for number in range(pages):
            error, handle = driver.cuMemCreate(PAGE, properties, 0)
            assert error in (FULL, driver.CUresult.CUDA_SUCCESS)
            if error == FULL:
                self._unmap(address, pages, handles)
                return None
            call(driver.cuMemMap(address + number * PAGE, PAGE, 0, handle, 0))
            handles.append(handle)
        call(driver.cuMemSetAccess(address, pages * PAGE, [access], 1))
        return Buffer(address, pages, handles, None)

    def _unmap(self, address: int, pages: int, handles: list[Any]) -> None:
        for number, handle in enumerate(handles):
            call(driver.cuMemUnmap(address + number * PAGE, PAGE))
            call(driver.cuMemRelease(handle))
        call(driver.cuMemAddressFree(address, pages * PAGE))

    def release(self) -> None:
        buffer = self.buffers.pop(self.random.randrange(len(self.buffers)))
        self.free += buffer.pages
        for kept in [kept for kept in self.graphs if buffer in kept.buffers]:
            self.drop(kept)
        if buffer.handles is None:
            call(driver.cuMemFree(buffer.address))
        else:
            call(driver.cuStreamSynchronize(self.stream))
            self._unmap(buffer.address, buffer.pages, buffer.handles)

    def drop(self, kept: Kept) -> None:
        """While it may still be under way."""
        self.graphs.remove(kept)
        call(driver.cuGraphExecDestroy(kept.instance))

    def capture(self) -> None:
        kept = Kept(None, [], [])
        call(driver.cuStreamBeginCapture(self.stream, RELAXED))
        for _ in range(self.random.randrange(2, 9)):
            count, number = self.random.randrange(1, MOST_WORDS), self.random.randrange(1 << 30)
            buffers = [self.random.choice(self.buffers) for _ in range(3)]
            (out, to), (given, one), (more, other) = (self.part(count, buffer) for buffer in buffers)
            if any(out != at and abs(out - at) < 4 * count for at in (given, more)):
                continue  # threads would race
            self.launch(self.mix, (out, given, more), count, number)
            kept.steps.append((to, one, other, number))
            kept.buffers += buffers
        graph = call(driver.cuStreamEndCapture(self.stream))
        kept.instance = call(driver.cuGraphInstantiate(graph, 0))
        call(driver.cuGraphDestroy(graph))
        self.graphs.append(kept)

    def replay(self) -> None:
        if len(self.graphs) < 3:
            self.capture()
        elif self.random.random() < 0.2:
            self.drop(self.random.choice(self.graphs))
            return
        kept = self.random.choice(self.graphs)
        for _ in range(self.random.randrange(1, 3)):
            call(driver.cuGraphLaunch(kept.instance, self.stream))
            for to, one, other, number in kept.steps:
                to[:] = one * numpy.uint32(3) + other + numpy.uint32(number)

    def part(self, count: int, buffer: Buffer | None = None) -> tuple[int, Any]:
        """Of any buffer: its address, and its words in the model."""
        buffer = buffer or self.random.choice(self.buffers)
        first = self.random.randrange(buffer.pages * WORDS - count + 1)
        return buffer.address + 4 * first, buffer.words[first : first + count]

    def step(self) -> None:
        count, number = self.random.randrange(1, MOST_WORDS), self.random.randrange(1 << 30)
        (out, to), (given, one), (more, other) = (self.part(count) for _ in range(3))
        what: Literal["mix", "copy", "set", "put", "look"] = self.random.choices(
            ("mix", "copy", "set", "put", "look"), (12, 2, 1, 1, 1)
        )[0]
        parts = [(out, to), (given, one), (more, other)]
        if what == "mix":
            if any(out != at and abs(out - at) < 4 * count for at in (given, more)):
                return  # threads would race
            self.make(what, count, number, parts)
        elif what == "set" or (what == "copy" and abs(out - given) >= 4 * count):
            self.make(what, count, number, parts)
        elif what == "put":
            words = numpy.full(count, number, numpy.uint32)
            call(driver.cuMemcpyHtoDAsync(out, words, words.nbytes, self.stream))
            call(driver.cuStreamSynchronize(self.stream))
            to[:] = words
        elif what == "look":
            self.compare(given, one)

    def make(self, what: str, count: int, number: int, parts: list[tuple[int, Any]]) -> None:
        """A step on the GPU, and in the model; parts: the one that is written first."""
        (out, to), (given, one), (more, other) = parts
        if what == "mix":
            self.launch(self.mix, (out, given, more), count, number)
            to[:] = one * numpy.uint32(3) + other + numpy.uint32(number)
        elif what == "copy":
            call(driver.cuMemcpyDtoDAsync(out, given, 4 * count, self.stream))
            to[:] = one
        else:
            call(driver.cuMemsetD32Async(out, number, count, self.stream))
            to[:] = number

    def compare(self, address: int, words: Any) -> None:
        found = numpy.zeros(words.size, numpy.uint32)
        call(driver.cuMemcpyDtoHAsync(found, address, found.nbytes, self.stream))
        call(driver.cuStreamSynchronize(self.stream))
        assert (found == words).all(), (hex(address), int((found != words).sum()), words.size)


def main() -> None:
    seed, steps, pages = map(int, sys.argv[1:4])
    graphs = sys.argv[4:] == ["graphs"]
    program = Program(seed, pages)
    for _ in range(steps):
        change = program.random.random()
        if change < (0.08 if program.free < pages // 4 else 0.25) or not program.buffers:
            program.allocate()
        elif 0.26 < change < 0.3:
            program.release()
        elif change > 0.98:
            call(driver.cuStreamSynchronize(program.stream))
        elif graphs and 0.3 < change < 0.5:
            program.replay()
        else:
            program.step()
    for buffer in program.buffers:
        program.compare(buffer.address, buffer.words)
    print(program.refused, program.given)


if __name__ == "__main__":
    main()
