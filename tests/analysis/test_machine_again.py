"""Values that code computes again, and words that are cut out of pairs."""

from __future__ import annotations

from tests.instruments.listing import spans

LOOP = """
    LDC.64 R2, c[0x0][0x210]
    S2R R0, SR_TID.X
    LOP3.LUT R4, R0, 0x1f, RZ, 0xc0, !PT
    MOV R5, RZ
again:
    IMAD.WIDE.U32 R6, R4, 0x4, R2
    LDG.E R8, desc[UR4][R6.64]
    LOP3.LUT R4, R0, {mask}, RZ, 0xc0, !PT
    IADD3 R5, R5, 0x1, RZ
    ISETP.LT.AND P0, PT, R5, R8, PT
    @P0 BRA again
    EXIT
"""


def test_a_value_that_is_computed_again_in_a_loop() -> None:
    assert spans(LOOP.format(mask="0x1f")) == [(0, 127)]
    ((first, last),) = spans(LOOP.format(mask="0x3f"))  # what is not the same value is not taken for it
    assert first <= 0
    assert last >= 255


def test_half_of_a_number_of_64_bits_rounded_to_0() -> None:
    """(n + 1) / 2 in 64 bits, of which only the lower word is used."""
    text = """
        LDC.64 R2, c[0x0][0x210]
        LDC.64 R10, c[0x0][0x218]
        S2R R0, SR_TID.X
        IADD3 R12, P0, R10, 0x1, RZ
        IADD3.X R13, RZ, R11, RZ, P0, !PT
        LEA.HI R12, P0, R13, R12, RZ, 0x1
        IADD3.X R13, RZ, R13, RZ, P0, !PT
        SHF.R.U64 R14, R12, 0x1, R13
        ISETP.GE.AND P0, PT, R0, R14, PT
        @P0 EXIT
        IMAD.WIDE.U32 R6, R0, 0x4, R2
        LDG.E R8, desc[UR4][R6.64]
        EXIT
    """
    assert spans(text, 19) == [(0, 39)]


def test_a_pair_shifted_by_what_a_register_holds_on_every_way() -> None:
    """The compiler keeps the number in a register, round a loop."""
    text = """
        LDC.64 R2, c[0x0][0x210]
        S2R R0, SR_TID.X
        MOV R9, 0x1
        MOV R5, RZ
    again:
        IMAD.WIDE.U32 R10, R0, 0x3, RZ
        IMAD.SHL.U32 R12, R10, 0x2, RZ
        SHF.L.U64.HI R13, R10, R9, R11
        IADD3 R6, P0, R12, R2, RZ
        IADD3.X R7, R13, R3, RZ, P0, !PT
        LDG.E R8, desc[UR4][R6.64]
        MOV R9, 0x1
        IADD3 R5, R5, 0x1, RZ
        ISETP.LT.AND P0, PT, R5, R8, PT
        @P0 BRA again
        EXIT
    """
    assert spans(text) == [(0, 63 * 6 + 3)]
