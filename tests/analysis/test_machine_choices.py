"""Values that machine code chooses or swaps under predicates, or keeps as predicates, keep their pointers."""

from __future__ import annotations

from ptxtools.access.template import AccessKind
from tests.instruments.listing import P, Q, ranges, result

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
    (written,) = [each for each in result(code, n=Q).touched if each.kind is AccessKind.WRITE]
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


def test_a_path_with_a_value_that_its_own_condition_chose() -> None:
    """Both paths bring the sum of thread and block: one because it is chosen where that path is taken."""
    code = """
        S2R R0, SR_TID.X
        S2R R1, SR_CTAID.X
        LDC.64 R2, c[0x0][0x210]
        LDG.E R7, desc[UR8][R2.64]
        ISETP.NE.AND P0, PT, R7, c[0x0][0x220], PT
        MOV R9, R7
        @!P0 IADD3 R9, R0, R1, RZ
        @!P0 BRA meet
        IADD3 R9, R0, R1, RZ
        meet: IMAD.WIDE.U32 R10, R9, 0x4, R2
        STG.E desc[UR8][R10.64], R7
    """
    assert touched(code) == [(P, P + 4), (P, P + 4 * 67)]


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
