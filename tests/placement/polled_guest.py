"""What queries of streams answer when a number has been read back and waited for: `polled_guest.py TIMES`.

Each time after work that nobody waits for: a long chain, then the number, and the wait for the stream. Queried is the
stream; another one, without work; or the stream when it has been given one more step. Prints the answers, and last what
the chains made; and on standard error, of each query, how much longer a wait for the chain took after it.
"""

import sys
import time
from pathlib import Path

from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call
from tests.placement.automatic_guest import Program

STEPS, KIB = 100, 512


def main() -> None:
    program = Program(STEPS, KIB)
    buffer, flag = program.buffer(1), program.buffer(2)
    for _ in range(4):
        program.answer(flag)
    for number in range(int(sys.argv[1])):
        what = ("same", "other", "newer")[number % 3]
        program.chain(buffer, buffer)
        program.answer(flag)
        if what == "newer":
            program.step(buffer, buffer, program.weights[0])
        began = time.perf_counter()
        answer, *_ = driver.cuStreamQuery(program.apart if what == "other" else program.stream)
        queried = time.perf_counter()
        call(driver.cuCtxSynchronize())
        print(what, (time.perf_counter() - queried) / (queried - began), file=sys.stderr)
        print(what, answer.name, driver.cuStreamQuery(program.stream)[0].name)
    program.print(buffer)


main()
