"""Values that machine code computes in pieces: what they are as a whole."""

from __future__ import annotations

import pytest

from tests.instruments.listing import ranges, template

INDEX = """
    S2R R0, SR_CTAID.X
    S2R R3, SR_TID.X
    IMAD R4, R0, c[0x0][0x0], R3
"""


def test_high_words_compared_the_other_way_round() -> None:
    """ptxas turns a < n into n.high > a.high, given a.low < n.low."""
    code = f"""{INDEX}
        MOV R6, c[0x0][0x224]
        ISETP.LT.U32.AND P0, PT, R4, c[0x0][0x220], PT
        ISETP.GT.U32.AND.EX P0, PT, R6, RZ, PT, P0
        @!P0 EXIT
        MOV R8, c[0x0][0x210]
        MOV R9, c[0x0][0x214]
        IMAD.WIDE.U32 R8, R4, 0x4, R8
        STG.E desc[UR8][R8.64], RZ
    """
    assert ranges(code, n=100) == [(0, 399, 0, 0)]
    assert ranges(code, n=0) == []
    assert ranges(code, n=1 << 40) == [(0, 1023, 0, 0)]


def test_a_lower_word_that_is_shifted_by_a_multiplication() -> None:
    code = f"""{INDEX}
        IADD3 R5, P0, R4, 0x10, RZ
        IMAD.X R2, RZ, RZ, RZ, P0
        IMAD.SHL.U32 R10, R5, 0x8, RZ
        SHF.L.U64.HI R11, R5, 0x3, R2
        IADD3 R12, P0, R10, c[0x0][0x210], RZ
        IADD3.X R13, R11, c[0x0][0x214], RZ, P0, !PT
        LDG.E.64 R14, desc[UR8][R12.64]
    """
    assert ranges(code) == [(128, 128 + 4 * 64 * 8 - 1, 0, 0)]


TWICE = """
        IADD3 RZ, P0, R18, c[0x0][0x210], RZ
        VIADD R16, R18, c[0x0][0x210]
        IADD3.X R17, R19, c[0x0][0x214], RZ, P0
"""
TWICE_SHIFTED = """
        LEA RZ, P0, R18, c[0x0][0x210], 0x3
        LEA R16, R18, c[0x0][0x210], 0x3
        LEA.HI.X R17, R18, c[0x0][0x214], R19, 0x3, P0
"""


@pytest.mark.parametrize(("code", "step"), [(TWICE, 4), (TWICE_SHIFTED, 32)])
def test_a_sum_that_is_made_once_for_its_carry_and_once_for_itself(code: str, step: int) -> None:
    found = ranges(f"{INDEX} IMAD.WIDE.U32 R18, R4, 0x4, RZ\n{code}\nSTG.E desc[UR8][R16.64], RZ")
    assert [each[:2] for each in found] == [(0, 255 * step + 3)]


def test_the_least_of_two_values_is_chosen_by_halves() -> None:
    """What the least of thread and block lacks to the block is never negative."""
    code = f"""{INDEX}
        IADD3 R5, P0, R3, c[0x0][0x220], RZ
        IMAD.X R6, RZ, RZ, c[0x0][0x224], P0
        ISETP.LT.U32.AND P1, PT, R5, R0, PT
        ISETP.LT.U32.AND.EX P1, PT, R6, RZ, PT, P1
        SEL R10, R5, R0, P1
        SEL R11, R6, RZ, P1
        IADD3 R12, P0, R0, -R10, RZ
        IADD3.X R13, RZ, ~R11, RZ, P0, !PT
        LEA R14, P0, R12, c[0x0][0x210], 0x3
        LEA.HI.X R15, R12, c[0x0][0x214], R13, 0x3, P0
        STG.E.64 desc[UR8][R14.64], R4
    """
    assert ranges(code) == [(0, 31, 0, 0)]


def test_the_least_of_two_words_compared_as_pairs() -> None:
    code = f"""{INDEX}
        ISETP.LT.U32.AND P1, PT, R3, R0, PT
        ISETP.LT.U32.AND.EX P1, PT, RZ, RZ, PT, P1
        SEL R10, R3, R0, P1
        IADD3 R12, R0, -R10, RZ
        IMAD.WIDE R14, R12, 0x8, c[0x0][0x210]
        STG.E.64 desc[UR8][R14.64], R4
    """
    assert ranges(code) == [(0, 31, 0, 0)]


def test_a_product_of_64_bits_in_a_sum_of_three() -> None:
    """block * n + m + thread, all of 64 bits: what the lower product lacks is added with the thread."""
    code = f"""{INDEX}
        MOV R8, c[0x0][0x228]
        MOV R9, c[0x0][0x22c]
        IMAD R12, R0, c[0x0][0x224], RZ
        IMAD.WIDE.U32 R8, R0, c[0x0][0x220], R8
        IADD3 R6, P1, R3, R8, RZ
        IADD3.X R7, RZ, R9, R12, P1, !PT
        LEA R10, P1, R6, c[0x0][0x210], 0x2
        LEA.HI.X R11, R6, c[0x0][0x214], R7, 0x2, P1
        STG.E desc[UR8][R10.64], RZ
    """
    assert ranges(code, n=1000, m=10) == [(40, 40 + 3 * 4000 + 255, 4000, 256)]
    assert ranges(code, n=(1 << 64) - 1000, m=10) == [(40 - 3 * 4000, 40 + 255, 4000, 256)]


def test_a_sum_of_pairs_in_a_loop_with_a_branch() -> None:
    """Its words come through paths that meet: that these are one value is seen after the loop was followed."""
    code = """
        S2R R8, SR_CTAID.X
        MOV R9, RZ
        MOV R10, c[0x0][0x0]
        MOV R11, RZ
    again: LEA R4, P4, R8, c[0x0][0x210], 0x2
        LEA.HI.X R5, R8, c[0x0][0x214], R9, 0x2, P4
        LDG.E R14, desc[UR12][R4.64]
        ISETP.GE.AND P1, PT, R14, RZ, PT
        @P1 BRA behind
        FADD R14, R14, R14
    behind: IADD.64 R8, R8, R10
        ISETP.GE.U32.AND P0, PT, R8, c[0x0][0x220], PT
        @!P0 BRA again
    """
    assert ranges(code, n=512) == [(0, 451 * 4 + 3, 256, 16)]


@pytest.mark.full
def test_a_value_that_is_used_thousands_of_blocks_later() -> None:
    """Each block has one way to it: what unrolled code with many routines in it looks like."""
    steps = "\n".join(f"step{number}: BRA step{number + 1}" for number in range(7000))
    code = f"""{INDEX}
        MOV R9, 0x4
        @P0 MOV R9, 0x4
        {steps}
        step7000: IMAD.WIDE.U32 R8, R4, R9, c[0x0][0x210]
        STG.E desc[UR8][R8.64], RZ
    """
    assert ranges(code) == [(0, 1023, 0, 0)]


def test_blocks_are_as_large_as_they_can_be() -> None:
    code = f"""{INDEX}
        MOV R9, RZ
        again: IMAD.WIDE.U32 R6, R4, 0x4, c[0x0][0x210]
        STG.E desc[UR8][R6.64], RZ
        VIADD R9, R9, 0x1
        ISETP.NE.AND P0, PT, R9, 0x4, PT
        @P0 BRA again
        NOP
    """
    assert [len(loops) for loops in template(code).block_loops] == [0, 1, 0]
