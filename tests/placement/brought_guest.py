"""A number is read back after others were, and were waited for: `brought_guest.py unknown | place`.

unknown: in the stream that makes it, after work of which nothing is known was put into another stream, which has been
given something long before. place: to page-locked memory that an earlier copy to the GPU, behind something long, has
yet to read. Prints the numbers.
"""

import ctypes
import sys
from pathlib import Path
from typing import Any

import numpy
from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import arithmetic, call, elementwise, functions, launch, use_gpu

READS, LONG, WORDS, UPLOAD = 6, 60, 32, 1 << 17
FOLLOW = """
    ld.global.u64 %a1, [%from];
    ld.global.u32 %r1, [%a1];
    st.global.u32 [%to], %r1;
"""
FREE = 1


def made(*numbers: int) -> Any:
    values = numpy.array(numbers, numpy.uint64)
    buffer = call(driver.cuMemAlloc(1 << 21))
    call(driver.cuMemcpyHtoD(buffer, values, values.nbytes))
    return buffer


class Guest:
    def __init__(self) -> None:
        use_gpu()
        body = arithmetic("%rounds")
        steps = (elementwise(name, ("out", "in", "weights"), ("rounds",), body) for name in ("make", "stay"))
        self.known = functions(*steps, elementwise("follow", ("to", "from"), (), FOLLOW))
        self.stream, self.other = (call(driver.cuStreamCreate(FREE)) for _ in range(2))
        self.number, self.target, self.long = made(1), made(7), made(1)
        self.pointer, self.copy = made(int(self.target)), made(0)
        self.read = numpy.zeros(1, numpy.uint32)
        self.pinned = int(call(driver.cuMemHostAlloc(UPLOAD, 0)))
        ctypes.memset(self.pinned, 7, UPLOAD)

    def step(self, name: str, handle: Any, buffer: Any) -> None:
        parameters = (buffer, buffer, buffer, 1), (None, None, None, ctypes.c_uint32)
        launch(self.known[name], 1, WORDS, handle, parameters)

    def stay(self, handle: Any) -> None:
        for _ in range(LONG):
            self.step("stay", handle, self.long)

    def answer(self, buffer: Any) -> None:
        call(driver.cuMemcpyDtoHAsync(self.read, buffer, self.read.nbytes, self.stream))
        call(driver.cuStreamSynchronize(self.stream))
        print(self.read[0])

    def unknown(self) -> None:
        self.step("make", self.stream, self.number)
        self.stay(self.other)
        launch(self.known["follow"], 1, 1, self.other, ((self.copy, self.pointer), (None, None)))
        self.answer(self.number)

    def place(self) -> None:
        self.step("make", self.stream, self.number)
        self.stay(self.stream)
        call(driver.cuMemcpyHtoDAsync(self.target, self.pinned, UPLOAD, self.stream))
        call(driver.cuMemcpyDtoHAsync(self.pinned, self.number, 4, self.stream))
        call(driver.cuStreamSynchronize(self.stream))
        print(ctypes.c_uint32.from_address(self.pinned).value)
        self.answer(self.target)


def main() -> None:
    guest = Guest()
    for _ in range(READS - 1):
        guest.step("make", guest.stream, guest.number)
        guest.answer(guest.number)
    {"unknown": guest.unknown, "place": guest.place}[sys.argv[1]]()
    call(driver.cuCtxSynchronize())


if __name__ == "__main__":
    main()
