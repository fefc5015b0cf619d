"""Values that machine code chooses or swaps under predicates, or keeps as predicates, keep their pointers."""

from __future__ import annotations

from ptxtools.access.template import AccessKind
from tests.analysis.listing import P, Q, ranges, result

WORD = [(0, 3, 0, 0)]


def touched(code: str, n: int = 0) -> list[tuple[int, int]]:
    """(begin, end) of each range."""
    return [(each.begin, each.end) for each in result(code, n).ranges]


def test_a_word_written_under_a_predicate_and_under_its_opposite() -> None:
    code = """
        S2R R0, SR_TID.X
        ISETP.GE.AND P0, PT, R0, 0x10, PT
        ULDC.64 UR4, c[0x0][0x210]
        @!P0 IMAD.U32 R4, RZ, RZ, UR4
        @P0 IMAD.U32 R4, RZ, RZ, UR4
        MOV R5, UR5
        LDG.E R6, desc[UR8][R4.64]
    """
    assert ranges(code) == WORD


def test_a_comparison_that_is_made_twice() -> None:
    code = """
        S2R R0, SR_TID.X
        MOV R8, 0x10
        ISETP.LT.AND P0, PT, R0, R8, PT
        @P0 LDC.64 R4, c[0x0][0x210]
        ISETP.NE.AND P0, PT, R0, RZ, PT
        @P0 BRA behind
        NOP
        behind: ISETP.GT.AND P1, PT, R8, R0, PT
        @P1 LDG.E R6, desc[UR8][R4.64]
    """
    assert ranges(code) == WORD


def test_words_that_are_swapped() -> None:
    code = """
        LDC.64 R2, c[0x0][0x210]
        S2R R0, SR_TID.X
        IMAD.WIDE.U32 R2, R0, 0x4, R2
        MOV R4, R3
        MOV R5, R2
        ISETP.LT.AND P0, PT, R0, 0x10, PT
        @P0 LOP3.LUT R5, R5, R4, RZ, 0x3c, !PT
        @P0 LOP3.LUT R4, R5, R4, RZ, 0x3c, !PT
        @P0 LOP3.LUT R5, R5, R4, RZ, 0x3c, !PT
        @P0 LDG.E R6, desc[UR8][R4.64]
    """
    assert ranges(code) == [(0, 63, 0, 0)]


def test_a_predicate_that_comes_back_where_paths_have_met() -> None:
    """n decides which pointer is used, whatever way is taken in between."""
    code = """
        LDC R8, c[0x0][0x220]
        ISETP.NE.U32.AND P0, PT, R8, RZ, PT
        P2R R24, PR, RZ, 0x1
        S2R R0, SR_TID.X
        ISETP.LT.AND P0, PT, R0, 0x10, PT
        @P0 BRA behind
        ISETP.LT.AND P0, PT, R0, 0x8, PT
        MOV R24, R24
        BRA behind
        behind: ISETP.NE.AND P0, PT, R24, RZ, PT
        LDC.64 R4, c[0x0][0x218]
        @P0 LDC.64 R4, c[0x0][0x210]
        LDG.E R6, desc[UR8][R4.64]
    """
    assert touched(code, n=1) == [(P, P + 4)]
    assert touched(code, n=0) == [(Q, Q + 4)]


def test_the_lesser_of_two_numbers_is_no_pointer() -> None:
    """n is a number that looks like a pointer: the address begins with p."""
    code = """
        LDC.64 R2, c[0x0][0x220]
        LDC.64 R4, c[0x0][0x210]
        LDG.E.64 R6, desc[UR8][R4.64]
        ISETP.LT.U32.AND P0, PT, R2, R6, PT
        ISETP.LT.U32.AND.EX P0, PT, R3, R7, PT, P0
        SEL R8, R2, R6, P0
        SEL R9, R3, R7, P0
        IADD3 R4, P1, R4, R8, RZ
        IMAD.X R5, R5, 0x1, R9, P1
        STG.E desc[UR8][R4.64], R10
    """
    (written,) = [each for each in result(code, n=Q).ranges if each.kind is AccessKind.WRITE]
    assert (written.parameter, written.first) == (0, 0)
    assert touched(code, n=100) == [(P, P + 8), (P, P + 104)]


def test_predicates_that_are_bits_of_a_word() -> None:
    """Bit 8 says that n is not 0; others are set and cleared besides, on one way of two."""
    code = """
        LDC R8, c[0x0][0x220]
        ISETP.NE.U32.AND P0, PT, R8, RZ, PT
        LDC R24, c[0x0][0x28]
        LOP3.LUT R24, R24, 0xfffffeff, RZ, 0xc0, !PT
        @P0 LOP3.LUT R24, R24, 0x100, RZ, 0xfc, !PT
        S2R R0, SR_TID.X
        ISETP.LT.AND P1, PT, R0, 0x10, PT
        LOP3.LUT R24, R24, 0xfffff7ff, RZ, 0xc0, !PT
        @P1 LOP3.LUT R24, R24, 0x800, RZ, 0xfc, !PT
        @P1 BRA behind
        LOP3.LUT R24, R24, 0xfffffffe, RZ, 0xc0, !PT
        behind: LOP3.LUT P0, RZ, R24, 0x100, RZ, 0xc0, !PT
        @P0 LDC.64 R4, c[0x0][0x210]
        @!P0 LDC.64 R4, c[0x0][0x218]
        LDG.E R6, desc[UR8][R4.64]
    """
    assert touched(code, n=1) == [(P, P + 4)]
    assert touched(code, n=0) == [(Q, Q + 4)]


def test_a_half_of_the_least_of_two_values() -> None:
    """Only the lower word of the least of n and a sum is used: it is at most n."""
    code = """
        S2R R0, SR_TID.X
        LDC.64 R8, c[0x0][0x210]
        LDG.E.64 R2, desc[UR8][R8.64]
        IADD3 R2, P0, R2, R0, RZ
        IMAD.X R3, RZ, RZ, R3, P0
        LDC.64 R10, c[0x0][0x220]
        ISETP.LT.U32.AND P0, PT, R2, R10, PT
        ISETP.LT.U32.AND.EX P0, PT, R3, R11, PT, P0
        SEL R5, R2, R10, P0
        IMAD.WIDE.U32 R8, R5, 0x4, R8
        STG.E desc[UR8][R8.64], R6
    """
    assert touched(code, n=100) == [(P, P + 8), (P, P + 404)]


def test_an_upper_word_of_a_sum_with_two_that_are_subtracted() -> None:
    """100 - thread - block fits in one word: whatever is done only when it does not is not done."""
    code = """
        S2R R0, SR_TID.X
        S2R R1, SR_CTAID.X
        MOV R2, 0x64
        IADD3 R4, P0, P1, R2, -R0, -R1
        IADD3.X R5, RZ, -0x1, ~RZ, P0, P1
        ISETP.NE.U32.AND P2, PT, R5, RZ, PT
        LDC.64 R8, c[0x0][0x210]
        @P2 LDC.64 R8, c[0x0][0x218]
        LDG.E R6, desc[UR8][R8.64]
    """
    assert touched(code) == [(P, P + 4)]


def test_a_division_by_the_reciprocal() -> None:
    """n / blocks, where what the estimate lacks is multiplied by the divisor that was made negative before."""
    code = """
        LDC R5, c[0x0][0xc]
        LDC R4, c[0x0][0x220]
        I2F.U32.RP R8, R5
        IMAD.MOV R9, RZ, RZ, -R5
        MUFU.RCP R8, R8
        VIADD R6, R8, 0xffffffe
        F2I.FTZ.U32.TRUNC.NTZ R7, R6
        IMAD.MOV.U32 R6, RZ, RZ, RZ
        IMAD R9, R9, R7, RZ
        IMAD.HI.U32 R7, R7, R9, R6
        IMAD.HI.U32 R6, R7, R4, RZ
        IMAD.MOV R7, RZ, RZ, -R6
        IMAD R4, R5, R7, R4
        ISETP.GE.U32.AND P0, PT, R4, R5, PT
        @P0 IMAD.IADD R4, R4, 0x1, -R5
        @P0 VIADD R6, R6, 0x1
        ISETP.GE.U32.AND P1, PT, R4, R5, PT
        @P1 VIADD R6, R6, 0x1
        LDC.64 R8, c[0x0][0x210]
        IMAD.WIDE.U32 R8, R6, 0x4, R8
        LDG.E R6, desc[UR8][R8.64]
    """
    assert touched(code, n=30) == [(P + 28, P + 32)]


def test_a_division_whose_divisor_is_computed_twice() -> None:
    """Thread / n in a loop, where the reciprocal of |n| is made before it and |n| once more inside."""
    code = """
        S2R R12, SR_TID.X
        LDC R4, c[0x0][0x220]
        IABS R14, R4
        LDC.64 R6, c[0x0][0x210]
        I2F.RP R4, R14
        MUFU.RCP R4, R4
        VIADD R20, R4, 0xffffffe
        F2I.FTZ.U32.TRUNC.NTZ R21, R20
        MOV R20, RZ
        IADD3 R17, -R21, RZ, RZ
        IMAD R17, R17, R14, RZ
        IMAD.HI.U32 R17, R21, R17, R20
        LDC R15, c[0x0][0x220]
        again: IABS R20, R12
        IABS R22, R15
        IMAD.HI.U32 R25, R17, R20, RZ
        IADD3 R21, -R25, RZ, RZ
        IMAD R21, R22, R21, R20
        ISETP.GT.U32.AND P1, PT, R14, R21, PT
        @!P1 IADD3 R21, R21, -R22, RZ
        @!P1 IADD3 R25, R25, 0x1, RZ
        ISETP.GE.U32.AND P0, PT, R21, R14, PT
        @P0 IADD3 R25, R25, 0x1, RZ
        IMAD.WIDE.U32 R28, R25, 0x4, R6
        LDG.E R28, desc[UR4][R28.64]
        VIADD R12, R12, 0x40
        ISETP.LT.AND P0, PT, R12, 0x80, PT
        @P0 BRA again
    """
    assert touched(code, n=32) == [(P, P + 16)]
    assert touched(code.replace("IABS R22, R15", "IABS R22, R12"), n=32) != [(P, P + 16)]


def test_values_that_are_often_exchanged_in_a_loop() -> None:
    """There are a million ways for a value to come to the end of it; another register has a step all the same."""
    swap = "MOV R11, R1\n@P0 MOV R1, R10\n@P0 MOV R10, R11\n"
    swaps = "".join(f"ISETP.NE.AND P0, PT, R7, {n}, PT\n{swap}" for n in range(20))
    code = f"""
        S2R R0, SR_TID.X
        LDC.64 R4, c[0x0][0x210]
        MOV R1, R0
        MOV R10, RZ
        MOV R2, R0
        again: LOP3.LUT R6, R1, 0x3f, RZ, 0xc0, !PT
        IMAD.WIDE.U32 R8, R6, 0x4, R4
        LDG.E R7, desc[UR8][R8.64]
        {swaps}
        IMAD.WIDE.U32 R8, R2, 0x4, R4
        VIADD R2, R2, 0x40
        STG.E desc[UR8][R8.64], R7
        ISETP.LT.AND P0, PT, R2, 0x100, PT
        @P0 BRA again
    """
    assert touched(code) == [(P, P + 256), (P, P + 1024)]


def test_a_register_that_each_iteration_gives_the_value_that_it_has() -> None:
    code = """
        S2R R0, SR_TID.X
        LDC.64 R4, c[0x0][0x210]
        LOP3.LUT R2, R0, 0x1f, RZ, 0xc0, !PT
        MOV R3, RZ
        again: LOP3.LUT R6, R0, 0x1f, RZ, 0xc0, !PT
        IMAD.WIDE.U32 R8, R2, 0x4, R4
        STG.E desc[UR8][R8.64], R6
        LOP3.LUT R2, R0, 0x1f, RZ, 0xc0, !PT
        LDG.E R7, desc[UR8][R8.64]
        VIADD R3, R3, 0x1
        ISETP.LT.AND P0, PT, R3, R7, PT
        @P0 BRA again
    """
    assert set(touched(code)) == {(P, P + 128)}
