"""Bytes of words put together, and both words of a sum of 64 bits that is made round a loop."""

from __future__ import annotations

import pytest

from tests.instruments.listing import ranges, spans

N = 0x44F3E211


@pytest.mark.parametrize(
    ("selector", "other", "value"),
    [
        ("0x7610", "0x8070605", 0x807E211),
        ("0x7632", "0x8070605", 0x80744F3),
        ("0x3340", "0x8070605", 0x44440511),
        ("0x5410", "0x8070605", 0x605E211),
        ("0x4104", "RZ", 0xE21100),
        ("0x9910", "RZ", 0xFFFFE211),
        ("0xaa21", "RZ", 0xFFFFF3E2),
        ("0xbb32", "RZ", 0x44F3),
    ],
)
def test_bytes_of_two_words(selector: str, other: str, value: int) -> None:
    code = f"""
        MOV R4, c[0x0][0x220]
        MOV R5, {other}
        PRMT R6, R4, {selector}, R5
        SHF.R.U32.HI R7, RZ, 0x10, R6
        LOP3.LUT R8, R6, 0xffff, RZ, 0xc0, !PT
        IMAD.WIDE.U32 R10, R7, 0x1, c[0x0][0x210]
        IMAD.WIDE.U32 R12, R8, 0x1, c[0x0][0x218]
        STG.E.U8 desc[UR8][R10.64], RZ
        STG.E.U8 desc[UR8][R12.64], RZ
    """
    assert ranges(code, n=N) == [(value >> 16, value >> 16, 0, 0), (value & 0xFFFF, value & 0xFFFF, 0, 0)]


@pytest.mark.parametrize("selector", ["0x1912", "0x4319", "0xba91"])
def test_signs_between_bytes_are_not_known(selector: str) -> None:
    code = f"""
        MOV R4, c[0x0][0x220]
        PRMT R6, R4, {selector}, RZ
        LOP3.LUT R8, R6, 0xffff, RZ, 0xc0, !PT
        IMAD.WIDE.U32 R12, R8, 0x1, c[0x0][0x210]
        STG.E.U8 desc[UR8][R12.64], RZ
    """
    assert ranges(code, n=N) == [(0, 0xFFFF, 0, 0)]


def test_the_lower_half_of_a_register_is_a_counter() -> None:
    """The upper half stays what it was, which nobody knows."""
    code = """
        PRMT R3, RZ, 0x7610, R3
        IADD3 R3, R3, 0xf, RZ
        LOP3.LUT R5, R3, 0x7, RZ, 0xc0, !PT
        IMAD.WIDE.U32 R10, R5, 0x4, c[0x0][0x210]
        STG.E desc[UR8][R10.64], RZ
    """
    assert ranges(code) == [(28, 31, 0, 0)]


def test_a_pair_that_steps_around_an_inner_loop() -> None:
    """Where paths met inside, its words were looked at before it was clear that they are the same on all paths."""
    code = """
        LDC.64 R10, c[0x0][0x210]
        LDC.64 R20, c[0x0][0x218]
        S2R R2, SR_TID.X
        MOV R3, RZ
        MOV R4, 0x100
        MOV R5, RZ
    again:
        MOV R6, RZ
        ISETP.NE.AND P1, PT, R7, RZ, PT
        @P1 BRA next
        IADD3 R7, R7, 0x1, RZ
    next:
        IADD3 R6, R6, 0x1, RZ
        ISETP.NE.AND P2, PT, R6, 0x4, PT
        @P2 BRA next
        @P1 BRA over
        IADD3 R7, R7, 0x1, RZ
    over:
        LEA R12, P0, R2, R10, 0x2
        LEA.HI.X R13, R2, R11, R3, 0x2, P0
        STG.E desc[UR8][R12.64], RZ
        IADD.64 R2, R2, R4
        ISETP.LT.U64.AND P0, PT, R2, R20, PT
        @P0 BRA again
        EXIT
    """
    assert spans(code, 1000) == [(0, 3327)]
