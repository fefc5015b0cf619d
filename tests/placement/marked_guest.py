"""Chains of launches that may run on different GPUs; after each, memsets, and launches that take long over own bytes.

Each of those launches uses what is all there, and nothing else. Prints what came out, turn by turn.
"""

import ctypes
import sys
from pathlib import Path

from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import arithmetic, call, elementwise, functions, launch
from tests.placement.automatic_guest import Program

STEPS, KIB, TURNS, WORDS, ROUNDS = 20, 8, 4, 64, 300_000


def main() -> None:
    program = Program(STEPS, KIB)
    long = functions(elementwise("long", ("out", "in", "weights"), ("rounds",), arithmetic("%rounds")))["long"]
    chains, sides, results = ([program.buffer(number) for number in range(2)] for _ in range(3))
    for _ in range(TURNS):
        for chain, side, result in zip(chains, sides, results, strict=True):
            program.chain(chain, chain)
            program.step(result, chain, result, WORDS)
            for rounds in (1, ROUNDS):
                call(driver.cuMemsetD32Async(side, rounds, WORDS, program.stream))
                given = (result, result, result, rounds), (None, None, None, ctypes.c_uint32)
                launch(long, 1, WORDS, program.stream, given)
        program.print(*results)


if __name__ == "__main__":
    main()
