"""Rows of a table at indices from memory, which a test keeps inside: as ptxas writes PyTorch's embeddings."""

from __future__ import annotations

import pytest

from tests.instruments.listing import P, result

ROW = 1024
INDEX = """
    S2R R18, SR_CTAID.X
    LDC.64 R2, c[0x0][0x218]
    IMAD.WIDE.U32 R2, R18, 0x8, R2
    LDG.E.64 R2, desc[UR36][R2.64]
    LDC.64 R6, c[0x0][0x220]
    ISETP.GE.U32.AND P0, PT, R2, R6, PT
    ISETP.GE.AND.EX P0, PT, R3, R7, PT, P0
    SHF.R.U32.HI R8, RZ, 0x1f, R3
    SEL R0, RZ, 0x1, !P0
    LOP3.LUT P0, RZ, R0, R8, RZ, 0xfc, !PT
    @!P0 BRA fine
    EXIT
"""
# The offset in the row is kept in two registers, and widened with its sign.
COPY = f"""
    fine: S2R R0, SR_TID.X
    LDC.64 R20, c[0x0][0x228]
    IMAD.SHL.U32 R5, R0, 0x10, RZ
    SHF.R.S32.HI R10, RZ, 0x1f, R5
    ISETP.GE.U32.AND P0, PT, R5, R20, PT
    ISETP.GE.AND.EX P0, PT, R10, R21, PT, P0
    @P0 EXIT
    IMAD.MOV.U32 R13, RZ, RZ, R5
    IMAD.MOV.U32 R0, RZ, RZ, R5
    LDC R11, c[0x0][0x0]
    LDC.64 R22, c[0x0][0x210]
    again: IMAD.WIDE.U32 R14, R2, {ROW:#x}, R22
    IMAD R16, R3, {ROW:#x}, RZ
    IADD3 R15, R15, R16, RZ
    IADD3 R14, P0, R14, R13, RZ
    IADD3.X R15, R15, R10, RZ, P0, !PT
    LDG.E.128 R24, desc[UR36][R14.64]
    IMAD R13, R11, 0x10, R0
    IMAD.MOV.U32 R0, RZ, RZ, R13
    ISETP.GE.U32.AND P0, PT, R13, R20, PT
    SHF.R.S32.HI R10, RZ, 0x1f, R13
    ISETP.GE.AND.EX P0, PT, R10, R21, PT, P0
    @!P0 BRA again
"""


@pytest.mark.parametrize(("rows", "used"), [(5, ROW), (1, ROW), (3, 528)])
def test_the_rows_that_the_test_lets_through_are_read(rows: int, used: int) -> None:
    touched = [(each.begin, each.end) for each in result(INDEX + COPY, rows, used, block=32).ranges if each.base == P]
    begin, end = min(begin for begin, _ in touched), max(end for _, end in touched)
    assert (begin, end) == (P, P + ROW * (rows - 1) + used)


def test_without_the_lower_end_rows_are_anywhere() -> None:
    """An index that may be negative."""
    code = INDEX.replace("LOP3.LUT P0, RZ, R0, R8, RZ, 0xfc, !PT", "ISETP.NE.AND P0, PT, R0, RZ, PT")
    assert any(each.whole and each.base == P for each in result(code + COPY, 5, ROW, block=32).ranges)
