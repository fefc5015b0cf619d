"""Random steps, the same again and again, against a model: `repeated_guest.py SEED STEPS TIMES PAGES [legacy]`.

Buffers of some pages of 2 MiB, PAGES in all; steps launch, copy and set parts of them. So what a launch needs next can
be foreseen. legacy: in the legacy default stream. In the end all bytes are compared. Prints how many steps there were.
"""

import sys
from pathlib import Path
from typing import Any

from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call
from tests.placement.random_pool_guest import MOST_WORDS, Program

Step = tuple[str, int, int, list[tuple[int, Any]]]


class Repeated(Program):
    def fill_all(self, pages: int) -> None:
        while pages:
            buffer = self._plain(min(self.random.choice((1, 1, 2, 3, 4)), pages))
            assert buffer is not None
            pages -= buffer.pages
            self.begin(buffer)

    def drawn(self) -> Step:
        what = self.random.choices(("mix", "copy", "set"), (14, 1, 1))[0]
        count, number = self.random.randrange(1, MOST_WORDS), self.random.randrange(1 << 30)
        while True:
            parts = [self.part(count) for _ in range(3)]
            if all(parts[0][0] == at or abs(parts[0][0] - at) >= 4 * count for at, _ in parts[1:]):
                return what, count, number, parts


def main() -> None:
    seed, steps, times, pages = map(int, sys.argv[1:5])
    program = Repeated(seed, pages)
    if sys.argv[5:] == ["legacy"]:
        program.stream = driver.CUstream(0)
    program.fill_all(pages)
    drawn = [program.drawn() for _ in range(steps)]
    for number in range(times):
        for step in drawn:
            program.make(*step)
        if number % 4 == 0:
            call(driver.cuStreamSynchronize(program.stream))
    for buffer in program.buffers:
        program.compare(buffer.address, buffer.words)
    print(steps * times)


if __name__ == "__main__":
    main()
