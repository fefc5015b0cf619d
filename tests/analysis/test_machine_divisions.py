"""Divisions, for which machine code has no instruction."""

from __future__ import annotations

import pytest

from ptxtools.access.template import Op
from tests.instruments.listing import P, result, template


def touched(code: str, n: int = 0) -> list[tuple[int, int]]:
    """(begin, end) of each range."""
    return [(each.begin, each.end) for each in result(code, n).ranges]


@pytest.mark.parametrize("lowered", ["IMAD.IADD R4, R4, 0x1, -R5", "IADD3 R4, -R5, R4, RZ"])
def test_a_division_by_the_reciprocal(lowered: str) -> None:
    """n / blocks, where what the estimate lacks is multiplied by the divisor that was made negative before."""
    code = f"""
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
        @P0 {lowered}
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


SIGNED = """
    LDC.64 R2, c[0x0][0x210]
    LDC R4, c[0x0][0x220]
    LDG.E R5, desc[UR8][R2.64]
    IABS R6, R4
    I2F.RP R7, R6
    MUFU.RCP R7, R7
    VIADD R8, R7, 0xffffffe
    F2I.FTZ.U32.TRUNC.NTZ R9, R8
    MOV R8, RZ
    IMAD.MOV R10, RZ, RZ, -R9
    IMAD R10, R10, R6, RZ
    IMAD.HI.U32 R9, R9, R10, R8
    IABS R11, R5
    IMAD.HI.U32 R12, R9, R11, RZ
    IMAD.MOV R13, RZ, RZ, -R12
    IMAD R11, R6, R13, R11
    ISETP.GE.U32.AND P0, PT, R11, R6, PT
    @P0 IMAD.IADD R11, R11, 0x1, -R6
    @P0 VIADD R12, R12, 0x1
    ISETP.GE.U32.AND P1, PT, R11, R6, PT
"""


@pytest.mark.parametrize("sign", ["LOP3.LUT R14, R5, R4, RZ, 0x3c, !PT", "LOP3.LUT R14, R4, R5, RZ, 0x3c, !PT"])
def test_a_division_of_signed_words(sign: str) -> None:
    """A loaded word / n. The least word's magnitude has no positive one of the same."""
    code = f"""{SIGNED} {sign}
        @P1 VIADD R12, R12, 0x1
        ISETP.GE.AND P2, PT, R14, RZ, PT
        @!P2 IMAD.MOV R12, RZ, RZ, -R12
        IMAD.WIDE R16, R12, 0x4, R2
        STG.E desc[UR8][R16.64], RZ
    """
    assert touched(code, n=1 << 28) == [(P, P + 4), (P - 32, P + 32)]
    assert touched(code.replace("@!P2", "@P2"), n=1 << 28) == [(P, P + 4), (P - 32, P + 36)]


def test_a_remainder_of_signed_words() -> None:
    code = f"""{SIGNED}
        @P1 IMAD.IADD R11, R11, 0x1, -R6
        ISETP.GE.AND P2, PT, R5, RZ, PT
        @!P2 IMAD.MOV R11, RZ, RZ, -R11
        IMAD.WIDE R16, R11, 0x4, R2
        STG.E desc[UR8][R16.64], RZ
    """
    assert touched(code, n=10) == [(P, P + 4), (P - 36, P + 40)]
    assert [node.op for node in template(code).nodes if node.signed and node.op in (Op.DIV, Op.REM)] == [Op.REM]
