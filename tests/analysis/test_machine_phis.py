"""What is known where paths meet: values that went on together, and what held on the way that was taken.

Compilers test a loop's condition before it and at its end, so that what follows is reached by two ways.
"""

from __future__ import annotations

import struct

import pytest

from ptxtools.ranges import Launch, evaluate
from tests.instruments.listing import P, template

pytestmark = pytest.mark.usefixtures("native")

BEGIN = """
    S2R R0, SR_TID.X
    LDC R4, c[0x0][0x220]
    LDC R5, c[0x0][0x228]
    LDC.64 R6, c[0x0][0x210]
    MOV R2, R0
    IMAD.WIDE.U32 R8, R0, 0x4, R6
"""


def written(code: str, n: int, m: int, threads: int = 64) -> list[tuple[int, int]]:
    """First and last byte of each range that stores have."""
    made = template(code)
    made.accesses = [access for access in made.accesses if access.kind.value == "write"]
    values = struct.pack("<QQQQ", P, P, n, m)
    launch = Launch(values, (2, 1, 1), (threads, 1, 1), lambda _: (P - (1 << 20), P + (1 << 20)))
    found = evaluate(made, launch)
    assert found.unknown == []
    return [(each.first, each.last) for each in found.ranges]


def test_a_pointer_that_goes_on_with_a_counter() -> None:
    """Whether both have gone on or not, the pointer is as far as the counter, which is below n."""
    code = f"""{BEGIN}
        LDG.E R10, desc[UR8][R8.64]
        ISETP.EQ.AND P0, PT, R10, RZ, PT
        @P0 BRA behind
        VIADD R2, R2, 0x40
        IADD3 R8, P1, R8, 0x100, RZ
        IMAD.X R9, RZ, RZ, R9, P1
        behind: ISETP.GE.AND P0, PT, R2, R4, PT
        @P0 EXIT
        STG.E desc[UR8][R8.64], RZ
    """
    assert written(code, n=100, m=0) == [(0, 399)]
    assert written(code.replace("R8, 0x100, RZ", "R8, 0x104, RZ"), n=100, m=0) != [(0, 399)]


def test_values_that_go_together_on_some_ways_only() -> None:
    """On the second of three ways one goes on without the other, which says nothing of the third."""
    code = f"""{BEGIN}
        MOV R3, R0
        LDG.E R10, desc[UR8][R8.64]
        ISETP.EQ.AND P0, PT, R10, RZ, PT
        @P0 BRA behind
        VIADD R2, R0, 0x40
        ISETP.EQ.AND P0, PT, R10, 0x1, PT
        @P0 BRA behind
        VIADD R2, R0, 0x80
        VIADD R3, R0, 0x80
        behind: ISETP.LT.AND P0, PT, R2, R4, PT
        @P0 EXIT
        ISETP.GE.AND P0, PT, R2, R5, PT
        @P0 EXIT
        IMAD.WIDE R8, R3, 0x4, R6
        STG.E desc[UR8][R8.64], RZ
    """
    ((first, _),) = written(code, n=64, m=128)
    assert first == 0


FLAG = f"""{BEGIN}
    ISETP.GE.AND P0, PT, R2, R4, PT
    @P0 EXIT
    LDG.E R10, desc[UR8][R8.64]
    PLOP3.LUT P0, PT, PT, PT, PT, 0x80, 0x0
    ISETP.NE.AND P1, PT, R10, RZ, PT
    @P1 BRA behind
    VIADD R2, R2, 0x40
    PLOP3.LUT P0, PT, PT, PT, PT, 0x8, 0x0
    behind: ISETP.LT.OR P0, PT, R2, R4, P0
    @!P0 EXIT
    IMAD.WIDE R8, R2, 0x4, R6
    STG.E desc[UR8][R8.64], RZ
"""


def test_a_flag_that_says_which_way_was_taken() -> None:
    """Where the flag is still set, nothing was added to what was tested before."""
    assert written(FLAG, n=50, m=0) == [(0, 199)]
    assert written(FLAG.replace("PT, 0x8, 0x0", "PT, 0x80, 0x0"), n=50, m=0) == [(0, 4 * (49 + 64) + 3)]


def test_a_flag_of_a_way_that_tests_nothing() -> None:
    untested = FLAG.replace("ISETP.GE.AND P0, PT, R2, R4, PT\n    @P0 EXIT", "")
    ((first, last),) = written(untested, n=50, m=0)
    assert first == 0
    assert last >= 4 * 63 + 3


def test_the_only_way_that_a_launch_can_take() -> None:
    """If m is not 0, the loop runs, and ends only at n or beyond."""
    code = f"""{BEGIN}
        ISETP.EQ.AND P0, PT, R5, RZ, PT
        @P0 BRA behind
        again: VIADD R2, R2, 0x40
        ISETP.LT.AND P1, PT, R2, R4, PT
        @P1 BRA again
        behind: ISETP.GE.AND P1, PT, R2, 0x400, PT
        @P1 EXIT
        IMAD.WIDE R8, R2, 0x4, R6
        STG.E desc[UR8][R8.64], RZ
    """
    assert written(code, n=640, m=1) == [(4 * 640, 4 * (639 + 64) + 3)]
    assert written(code, n=640, m=0) == [(0, 255)]
