"""What machine instructions compute, in kernels written as nvdisasm would write them."""

from __future__ import annotations

import pytest

from ptxtools.access.template import Op
from tests.instruments.listing import SPAN_BYTES, listed, spans


def test_low_words_compared_the_other_way_round() -> None:
    """ptxas compares `limit <= i` in the low words and `i >= limit` in the high ones."""
    text = """
        LDC.64 R2, c[0x0][0x218]
        LDC.64 R4, c[0x0][0x210]
        S2R R0, SR_TID.X
        MOV R1, RZ
        ISETP.LE.U32.AND P0, PT, R2, R0, PT
        ISETP.GE.U32.AND.EX P0, PT, R1, R3, PT, P0
        @P0 EXIT
        LEA R6, P1, R0, R4, 0x2
        LEA.HI.X R7, R0, R5, R1, 0x2, P1
        LDG.E R8, desc[UR4][R6.64]
        EXIT
    """
    assert spans(text, 10) == [(0, 39)]


@pytest.mark.parametrize(("lane", "last"), [("RZ", 39), ("R0", 255)])
def test_what_lane_0_hands_to_the_others(lane: str, last: int) -> None:
    text = f"""
        LDC.64 R2, c[0x0][0x210]
        LDC R4, c[0x0][0x218]
        S2R R0, SR_TID.X
        SHFL.IDX PT, R5, R4, {lane}, 0x1f
        ISETP.GE.AND P0, PT, R0, R5, PT
        IMAD.WIDE.U32 R6, R0, 0x4, R2
        @!P0 LDG.E R8, desc[UR4][R6.64]
        EXIT
    """
    assert spans(text, 10) == [(0, last)]


def test_a_predicate_kept_as_a_bit_of_a_register() -> None:
    """Cleared and set under the predicate, then carried round a loop that keeps another one in the next bit."""
    text = """
        LDC.64 R2, c[0x0][0x210]
        LDC R4, c[0x0][0x218]
        S2R R0, SR_TID.X
        ISETP.LT.AND P0, PT, R0, R4, PT
        MOV R6, RZ
        LOP3.LUT R5, R5, 0xfffffff7, RZ, 0xc0, !PT
        @P0 LOP3.LUT R5, R5, 0x8, RZ, 0xfc, !PT
    again:
        ISETP.GT.AND P1, PT, R6, R0, PT
        LOP3.LUT R5, R5, 0xfffffffb, RZ, 0xc0, !PT
        @P1 LOP3.LUT R5, R5, 0x4, RZ, 0xfc, !PT
        IADD3 R6, R6, 0x1, RZ
        ISETP.LT.AND P1, PT, R6, 0x5, PT
        @P1 BRA again
        LOP3.LUT P2, RZ, R5, 0x8, RZ, 0xc0, !PT
        @P2 IMAD.WIDE.U32 R8, R0, 0x4, R2
        @P2 LDG.E R10, desc[UR4][R8.64]
        EXIT
    """
    assert spans(text, 10) == [(0, 39)]


def test_a_number_below_0_that_is_chosen() -> None:
    """CUB's bin of a sample, or -1 for none: 0xffffffff is not the other end of the world."""
    text = """
        LDC.64 R2, c[0x0][0x210]
        S2R R0, SR_TID.X
        LDS R4, [R0.X4]
        ISETP.NE.AND P0, PT, R4, RZ, PT
        SEL R5, R0, 0xffffffff, P0
        ISETP.GE.AND P1, PT, R5, RZ, PT
        IMAD.WIDE R6, R5, 0x4, R2
        @P1 LDG.E R8, desc[UR4][R6.64]
        EXIT
    """
    assert spans(text) == [(0, 255)]


def test_two_sums_that_carry_into_one_word() -> None:
    text = """
        LDC.64 R2, c[0x0][0x210]
        S2R R0, SR_TID.X
        IMAD.WIDE.U32 R4, R0, 0x4, RZ
        IADD3 R6, P0, R4, R2, RZ
        IADD3 R6, P1, R6, 0x40, RZ
        IADD3.X R7, R3, R5, RZ, P1, P0
        LDG.E R8, desc[UR4][R6.64]
        EXIT
    """
    assert spans(text) == [(64, 319)]


def test_the_upper_word_of_a_product_that_is_added_with_others() -> None:
    """Thread times a negative pitch of 64 bits, plus two numbers: three words meet in the upper sum."""
    text = """
        LDC.64 R2, c[0x0][0x210]
        LDC.64 R4, c[0x0][0x218]
        LDC.64 R6, c[0x0][0x220]
        S2R R0, SR_TID.X
        IMAD R10, R0, R5, RZ
        IMAD.WIDE.U32 R8, R0, R4, R2
        IADD3 R8, P0, R6, R8, RZ
        IADD3.X R9, R7, R9, R10, P0, !PT
        LDG.E R12, desc[UR4][R8.64]
        EXIT
    """
    assert spans(text, (1 << 64) - 64, 8192) == [(8192 - 63 * 64, 8192 + 3)]


@pytest.mark.parametrize(
    "to_float",
    [
        "I2F.U32.RP R4, R10\nMUFU.RCP R4, R4",
        "UI2F.U32.RP UR9, UR8\nMUFU.RCP R4, UR9",
        "I2FP.F32.U32 R4, R10\nMUFU.RCP R4, R4",
    ],
)
@pytest.mark.parametrize(
    "product", ["IMAD.MOV R9, RZ, RZ, -R10\nIMAD R9, R9, R3, RZ", "IADD3 R9, -R3, RZ, RZ\nIMAD R9, R9, R10, RZ"]
)
def test_quotients_of_which_either_factor_is_negated(product: str, to_float: str) -> None:
    """The estimate of the reciprocal is improved with -divisor * estimate or divisor * -estimate."""
    text = f"""
        LDC.64 R12, c[0x0][0x210]
        LDC R10, c[0x0][0x218]
        R2UR UR8, R10
        S2R R7, SR_TID.X
        {to_float}
        IADD3 R3, R4, 0xffffffe, RZ
        F2I.FTZ.U32.TRUNC.NTZ R3, R3
        MOV R2, RZ
        {product}
        IMAD.HI.U32 R2, R3, R9, R2
        IMAD.HI.U32 R4, R2, R7, RZ
        IMAD.MOV R2, RZ, RZ, -R4
        IMAD R7, R10, R2, R7
        ISETP.GE.U32.AND P0, PT, R7, R10, PT
        @P0 IADD3 R7, R7, -R10, RZ
        @P0 IADD3 R4, R4, 0x1, RZ
        ISETP.GE.U32.AND P1, PT, R7, R10, PT
        @P1 IADD3 R4, R4, 0x1, RZ
        IMAD.WIDE.U32 R6, R4, 0x4, R12
        LDG.E R8, desc[UR4][R6.64]
        EXIT
    """
    assert spans(text, 16) == [(0, 15)]


def test_high_words_compared_behind_a_branch() -> None:
    """ptxas compares the low words early, and the high ones where the result is needed."""
    text = """
        LDC.64 R2, c[0x0][0x218]
        LDC.64 R4, c[0x0][0x210]
        S2R R0, SR_TID.X
        ISETP.LT.U32.AND P0, PT, R0, R2, PT
        ISETP.NE.AND P2, PT, R0, 0x3, PT
        @P2 BRA behind
        STS [R0], R0
    behind:
        ISETP.LT.U32.AND.EX P0, PT, RZ, R3, PT, P0
        @!P0 EXIT
        IMAD.WIDE.U32 R6, R0, 0x4, R4
        LDG.E R8, desc[UR4][R6.64]
        EXIT
    """
    assert spans(text, 10) == [(0, 39)]


@pytest.mark.parametrize(("choice", "last"), [("PT", 4 * 99 + 3), ("!PT", 4 * 255 + 3)])
def test_the_least_and_the_greatest_of_two_pairs(choice: str, last: int) -> None:
    """As sm_120 finds it: the whole pair is written."""
    text = f"""
        LDC.64 R2, c[0x0][0x210]
        LDC.64 R4, c[0x0][0x220]
        MOV R8, 0xff
        MOV R9, RZ
        MOV R7, 0x7fff
        IMNMX.S64 PT, PT, R6, R8, R4, {choice}, !PT
        LEA R10, P0, R6, R2, 0x2
        LEA.HI.X R11, R6, R3, R7, 0x2, P0
        STG.E desc[UR4][R10.64], RZ
    """
    assert spans(text, 0, 99) == [(last - 3, last)]


def test_least_of_pairs_with_what_is_not_understood() -> None:
    text = """
        LDC.64 R2, c[0x0][0x210]
        LDC.64 R4, c[0x0][0x218]
        IMNMX.U64 PT, PT, R8, R4, R4, PT, PT
        IADD.64 R10, R2, R8
        LDG.E.U8 R12, desc[UR4][R10.64]
        EXIT
    """
    assert spans(text, 40) == [(0, SPAN_BYTES - 1)]


def test_a_sum_is_widened_where_the_access_has_its_guard() -> None:
    """Where a thread's index is below the number, what is subtracted wraps; but nothing is read there."""
    text = """
        LDC.64 R2, c[0x0][0x210]
        LDC R4, c[0x0][0x218]
        S2R R0, SR_TID.X
        ISETP.GE.U32.AND P0, PT, R0, R4, PT
        @P0 IADD3 R5, R0, -R4, RZ
        @P0 IADD3 R6, P1, R5, R2, RZ
        @P0 IADD3.X R7, R3, RZ, RZ, P1, !PT
        @P0 LDG.E.U8 R8, desc[UR4][R6.64]
        EXIT
    """
    assert spans(text, 10) == [(0, 53)]


def test_a_pair_that_is_shifted_to_the_right_behind_a_phi() -> None:
    """The pair is one value, and so is what it is shifted to."""
    text = """
        LDC.64 R2, c[0x0][0x210]
        LDC.64 R4, c[0x0][0x218]
        S2R R0, SR_TID.X
        ISETP.GE.U32.AND P0, PT, R0, 0x20, PT
        @P0 BRA other
        IMAD.WIDE.U32 R6, R0, 0x100000, R4
        BRA behind
    other:
        IMAD.WIDE.U32 R6, R0, 0x200000, R4
    behind:
        SHF.R.U64 R8, R6, 0x14, R7
        SHF.R.U32.HI R9, RZ, 0x14, R7
        IADD3 R10, P0, R8, R2, RZ
        IADD3.X R11, R9, R3, RZ, P0, !PT
        LDG.E.U8 R12, desc[UR4][R10.64]
        EXIT
    """
    template = listed(text, 2)
    waiting, ops = [template.accesses[0].address], set()
    while waiting:
        node = template.nodes[waiting.pop()]
        ops.add((node.op, node.width))
        waiting += node.args
    assert (Op.SHR, 64) in ops
    assert not {op for op, _ in ops} & {Op.PACK, Op.EXTRACT}
