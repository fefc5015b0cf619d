"""Room is made for memory while another thread begins captures: `captured_room_guest.py PIECES TIMES`.

Of the pieces of 2 MiB, which do not fit the GPU together, one thread uses all but the last again and again; the other
one uses those, and captures its stream right after that, TIMES times. Prints the answers to the ends of captures.
"""

import sys
import threading
from pathlib import Path
from typing import Any

from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, use_gpu
from tests.placement.large_guest import Program

BYTES, COUNT, FEW = 2 << 20, 256, 4
THREAD_LOCAL = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL


def fill(program: Program, stream: Any, buffer: Any, first: int) -> None:
    program.stream = stream
    program.launch(program.fill, (buffer,), COUNT, first)


def main() -> None:
    pieces, times = map(int, sys.argv[1:])
    programs = [Program(1, 1), Program(1, 1)]
    buffers = [call(driver.cuMemAlloc(BYTES)) for _ in range(pieces)]
    mine, others = buffers[:-FEW], buffers[-FEW:]
    streams = [call(driver.cuStreamCreate(1)) for _ in range(2)]
    answers: list[str] = []
    ended = threading.Event()

    def capture() -> None:
        use_gpu()
        for number in range(times):
            for buffer in others:
                fill(programs[1], streams[1], buffer, number)
            call(driver.cuStreamBeginCapture(streams[1], THREAD_LOCAL))
            fill(programs[1], streams[1], others[0], number)
            error, graph = driver.cuStreamEndCapture(streams[1])
            answers.append(error.name)
            call(driver.cuStreamSynchronize(streams[1]))
            if not int(error):
                call(driver.cuGraphDestroy(graph))

    def work() -> None:
        try:
            capture()
        finally:
            ended.set()

    thread = threading.Thread(target=work)
    thread.start()
    number = 0
    while not ended.is_set():
        for buffer in mine:
            fill(programs[0], streams[0], buffer, number)
        call(driver.cuStreamSynchronize(streams[0]))
        number += 1
    thread.join()
    for stream in streams:
        call(driver.cuStreamSynchronize(stream))
    print(*sorted(set(answers)))


main()
