"""What copies from global to shared memory read of the last bytes that they fill."""

from __future__ import annotations

import struct

import pytest

from ptxtools.ranges import Launch, evaluate
from tests.instruments.listing import P, template

INDEX = "S2R R3, SR_TID.X\nIMAD.WIDE.U32 R2, R3, 0x10, c[0x0][0x210]\n"
ALIGNED = f"{INDEX}LDGSTS.E.128{{filled}} [R7], desc[UR4][R2.64{{moved}}]"
COUNTED = f"""{INDEX}
    MOV R9, c[0x0][0x220]
    IADD3 R4, -R9, 0x10, RZ
    LOP3.LUT R4, R4, 0xf, RZ, 0xc0, !PT
    ISETP.NE.U32.AND P0, PT, RZ, R9, PT
    IADD3 R2, P1, R4, R2, RZ
    IADD3.X R3, RZ, RZ, R3, P1, !PT
    LDGSTS.E.128.ZFILL [R7], desc[UR4][R2.64], P0
"""


def read(text: str, p: int = P, n: int = 0) -> list[tuple[int, int, int, int]]:
    """(first, last, stride, width) of what two threads read."""
    launch = Launch(struct.pack("<QQQQ", p, 0, n, 0), (1, 1, 1), (2, 1, 1), {p: (p - 4096, p + 4096)}.get)
    found = evaluate(template(text), launch)
    assert found.unknown == []
    return [(each.first, each.last, each.stride, each.width) for each in found.ranges]


def test_what_is_filled_with_zeros_is_not_read() -> None:
    """As ptxas 13.5 writes a copy of 1 and of 5 bytes, a kilobyte on, and of all 16."""
    assert read(ALIGNED.format(filled=".ZFILL", moved="+0x40f")) == [(1024, 1040, 16, 1)]
    assert read(ALIGNED.format(filled=".ZFILL", moved="+-0x3f5")) == [(-1024, -1004, 16, 5)]
    assert read(ALIGNED.format(filled=".ZFILL", moved="")) == [(0, 31, 0, 0)]
    assert read(ALIGNED.format(filled="", moved="+0x400")) == [(1024, 1055, 0, 0)]


@pytest.mark.parametrize("n", [0, 1, 5, 9, 16])
def test_a_number_of_bytes_that_only_the_launch_knows(n: int) -> None:
    spread = {0: [], 5: [(0, 31, 0, 0)], 16: [(0, 31, 0, 0)]}  # of 3, 5, 6 and 7 bytes the stride is not found
    assert read(COUNTED, n=n) == spread.get(n, [(0, 15 + n, 16, n)])


def test_the_low_bits_of_a_pointer_count() -> None:
    """The pointer's own 4 say that 4 bytes are not read, and it is what the address begins with all the same."""
    assert read(ALIGNED.format(filled=".ZFILL", moved=""), p=P + 4) == [(-4, 23, 16, 12)]
