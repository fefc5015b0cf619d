"""Where launches of streams and threads run: given_guest.py SCENARIO [COUNT] prints, as JSON, what the scenario saw.

A launch notes the number of SMs of the GPU that it runs on, which tells the GPUs of the machine apart.
"""

import ctypes
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, functions, use_gpu

NOTE = """
.visible .entry {name}(.param .u64 to)
{{
    .reg .b64 %a<2>;
    .reg .b32 %r<2>;
    ld.param.u64 %a1, [to];
    mov.u32 %r1, %nsmid;
    st.global.u32 [%a1], %r1;
    ret;
}}
"""
LAUNCHES, MOST = 5, 512
LEGACY, PER_THREAD = driver.CUstream(driver.CU_STREAM_LEGACY), driver.CUstream(driver.CU_STREAM_PER_THREAD)
RELAXED = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
PATIENCE_S = 10


class Program:
    """One context of the home GPU; each thread calls begin() first."""

    def __init__(self) -> None:
        self.context, self.device = use_gpu(), call(driver.cuDeviceGet(0))
        self.functions = functions(*(NOTE.format(name=name) for name in ("where", "other")))
        self.notes, self.used, self.lock = call(driver.cuMemAlloc(4 * MOST)), 0, threading.Lock()

    def begin(self) -> None:
        call(driver.cuCtxSetCurrent(self.context))

    def stream(self) -> Any:
        return call(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))

    def launch(self, stream: Any, function: str = "where") -> int:
        """Address of the note."""
        with self.lock:
            note, self.used = int(self.notes) + 4 * self.used, self.used + 1
        parameters = ((note,), (ctypes.c_void_p,))
        call(driver.cuLaunchKernel(self.functions[function], 1, 1, 1, 1, 1, 1, 0, stream, parameters, 0))
        return note

    def read(self, stream: Any, note: int) -> int:
        value = ctypes.c_uint32()
        call(driver.cuMemcpyDtoHAsync(ctypes.addressof(value), note, 4, stream))
        call(driver.cuStreamSynchronize(stream))
        return value.value

    def where(self, stream: Any, function: str = "where") -> int:
        return self.read(stream, self.launch(stream, function))

    def captured(self, stream: Any) -> int:
        """Where a launch of a graph runs that was captured in the stream."""
        call(driver.cuStreamBeginCapture(stream, RELAXED))
        note = self.launch(stream)
        graph = call(driver.cuStreamEndCapture(stream))
        ready = call(driver.cuGraphInstantiate(graph, 0))
        call(driver.cuGraphLaunch(ready, stream))
        return self.read(stream, note)


def together(count: int, work: Callable[[int], list[int]]) -> list[list[int]]:
    """What each of so many threads saw, which begin at the same time; none ends before all have worked."""
    seen: list[list[int]] = [[] for _ in range(count)]
    barrier = threading.Barrier(count)

    def run(number: int) -> None:
        barrier.wait()
        seen[number] = work(number)
        barrier.wait()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return seen


def streams(program: Program, count: int) -> list[list[int]]:
    """Threads with a stream each."""

    def work(_: int) -> list[int]:
        program.begin()
        stream = program.stream()
        return [program.where(stream) for _ in range(LAUNCHES)]

    return together(count, work)


def threads(program: Program, count: int) -> list[list[int]]:
    """Threads that use two streams each, one of them the legacy default stream."""

    def work(_: int) -> list[int]:
        program.begin()
        stream = program.stream()
        return [program.where(at) for _ in range(LAUNCHES) for at in (stream, LEGACY)]

    return together(count, work)


def defaults(program: Program, count: int) -> dict[str, list[list[int]]]:
    """Threads that use the default streams, of both kinds."""

    def work(stream: Any) -> Callable[[int], list[int]]:
        def run(_: int) -> list[int]:
            program.begin()
            return [program.where(stream) for _ in range(LAUNCHES)]

        return run

    return {"legacy": together(count, work(LEGACY)), "own": together(count, work(PER_THREAD))}


def pool(program: Program, count: int) -> list[int]:
    """As PyTorch: 32 streams at once, of which every fourth is used."""
    made = [program.stream() for _ in range(32)]
    return [program.where(made[4 * number]) for number in range(count)]


def ended(program: Program, _: int) -> list[int]:
    """Streams that are destroyed, and a context, which is none of theirs."""
    first, second, third, fourth = (program.stream() for _ in range(4))
    seen = [program.where(stream) for stream in (first, second, third, fourth)]
    call(driver.cuStreamDestroy(second))
    call(driver.cuStreamDestroy(fourth))
    fifth, sixth = program.stream(), program.stream()
    seen += [program.where(stream) for stream in (fifth, sixth)]
    call(driver.cuCtxDestroy(call(driver.cuCtxCreate(None, 0, program.device))))
    program.begin()
    return seen + [program.where(stream) for stream in (fifth, sixth, first, third)]


def matched(program: Program, _: int) -> list[int]:
    """Only launches of `where` give a place; those of `other` are none of the rule's."""
    first, second = program.stream(), program.stream()
    seen = [program.where(first, "other"), program.where(second), program.where(first)]
    return [*seen, program.where(first, "other"), program.where(second, "other")]


def capture(program: Program, _: int) -> list[int]:
    """Graphs that are captured in streams with and without a place."""
    first, second, third = (program.stream() for _ in range(3))
    seen = [program.where(first), program.captured(second), program.where(third), program.captured(third)]
    return [*seen, program.where(second), program.where(third)]


def lost(program: Program, _: int) -> list[int]:
    """The executor of GPU 1 is killed between two launches of each of four streams."""
    made = [program.stream() for _ in range(4)]
    before = [program.where(stream) for stream in made]
    call(driver.cuCtxSynchronize())
    executor = executor_of(1)
    workers = [number for number, parent, _ in processes() if parent == executor]
    os.kill(executor, signal.SIGKILL)
    end = time.monotonic() + PATIENCE_S
    while {number for number, _, _ in processes()} & {*workers} and time.monotonic() < end:
        time.sleep(0.001)  # one that still runs would take a launch, which then is lost
    while (
        program.where(made[1]) != before[2] and time.monotonic() < end
    ):  # until it is seen, and not only at home for once
        time.sleep(0.01)
    return before + [program.where(stream) for stream in made]


def processes() -> Iterator[tuple[int, int, list[str]]]:
    """Number, parent and command line of each that has not ended."""
    for place in Path("/proc").glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes().decode().split("\0")
            state, parent = (place / "stat").read_text().rpartition(")")[2].split()[:2]
        except (OSError, ValueError):
            continue
        if state != "Z":
            yield int(place.name), int(parent), words


def executor_of(gpu: int) -> int:
    """Its process, a child of tessera-run as we are."""
    for number, parent, words in processes():
        if words[0].endswith("tessera-executor") and str(gpu) in words and parent == os.getppid():
            return number
    raise RuntimeError(f"GPU {gpu} has no executor")


SCENARIOS: dict[str, Callable[[Program, int], Any]] = {
    each.__name__: each for each in (streams, threads, defaults, pool, ended, matched, capture, lost)
}

if __name__ == "__main__":
    print(json.dumps(SCENARIOS[sys.argv[1]](Program(), int(sys.argv[2]))))
