"""What the driver says of device memory, wherever it lies: `kinds_guest.py PIECES`.

Allocates so many pieces of 2 MiB, and maps as many itself, in turn. Prints the different answers about all of them.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import call, use_gpu
from tests.placement.held_up_guest import BYTES, Mapped

ASKED = driver.CUpointer_attribute
ATTRIBUTES = [
    ASKED.CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
    ASKED.CU_POINTER_ATTRIBUTE_HOST_POINTER,
    ASKED.CU_POINTER_ATTRIBUTE_IS_MANAGED,
    ASKED.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
]


def said(answer: Sequence[Any]) -> str:
    error, *values = answer
    return " ".join(map(str, [error.name, *(int(value) for value in values if not int(error))]))


def main() -> None:
    use_gpu()
    pieces: list[Any] = []
    for _ in range(int(sys.argv[1])):
        pieces += [call(driver.cuMemAlloc(BYTES)), Mapped().address]
    alone = {tuple(said(driver.cuPointerGetAttribute(each, piece)) for each in ATTRIBUTES) for piece in pieces}
    together = {
        tuple(map(int, call(driver.cuPointerGetAttributes(len(ATTRIBUTES), ATTRIBUTES, piece)))) for piece in pieces
    }
    print(sorted(alone), sorted(together))


main()
