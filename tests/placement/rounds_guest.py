"""Rounds of one stream: `rounds_guest.py ROUNDS STEPS KIB`.

In each, a launch of `make_begin` writes a buffer, a chain of `own` changes another one, and `use` adds the first buffer
to it; then a chain of `make` begins by overwriting the first buffer, and `use` adds what becomes of it, too. Prints the
sum of what `use` has made.
"""

import ctypes
import sys
from pathlib import Path

import numpy
from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, elementwise, functions, use_gpu

BEGIN = "mad.lo.u32 %r1, %i, 3, %round; st.global.u32 [%out], %r1;"
CHANGE = "ld.global.u32 %r1, [%out]; mad.lo.u32 %r1, %r1, 3, 1; st.global.u32 [%out], %r1;"
USE = """
    ld.global.u32 %r1, [%out];
    ld.global.u32 %r2, [%in];
    mad.lo.u32 %r1, %r1, 5, %r2;
    st.global.u32 [%out], %r1;
"""


def main() -> None:
    rounds, steps, kib = map(int, sys.argv[1:4])
    use_gpu()
    begin = elementwise("make_begin", ("out",), ("count", "round"), BEGIN)
    kernels = (elementwise(name, ("out",), ("count",), CHANGE) for name in ("make", "own"))
    found = functions(begin, *kernels, elementwise("use", ("out", "in"), ("count",), USE))
    stream = call(driver.cuStreamCreate(1))
    count = kib * 256
    made, own = (call(driver.cuMemAlloc(4 * count)) for _ in range(2))
    call(driver.cuMemsetD8(own, 1, 4 * count))

    def launch(name: str, *values: int, numbers: int = 1) -> None:
        kinds = (None,) * (len(values) - numbers) + (ctypes.c_uint32,) * numbers
        call(driver.cuLaunchKernel(found[name], -(-count // 256), 1, 1, 256, 1, 1, 0, stream, (values, kinds), 0))

    for number in range(rounds):
        launch("make_begin", made, count, number, numbers=2)
        for _ in range(steps):
            launch("own", own, count)
        launch("use", own, made, count)
        launch("make_begin", made, count, number, numbers=2)
        for _ in range(steps):
            launch("make", made, count)
        launch("use", own, made, count)
    call(driver.cuStreamSynchronize(stream))
    numbers = numpy.zeros(count, numpy.uint32)
    call(driver.cuMemcpyDtoH(numbers, own, numbers.nbytes))
    print(int(numbers.astype(numpy.uint64).sum()))


if __name__ == "__main__":
    main()
