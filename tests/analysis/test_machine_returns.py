"""Routines inside of a function are taken as called only where it is clear that they return behind the call."""

from __future__ import annotations

import pytest

from tests.instruments.listing import listed, spans

KERNEL = """
    LDC.64 R2, c[0x0][0x210]
    S2R R0, SR_TID.X
    {before}
    CALL.REL.NOINC routine
    {behind}
    IMAD.WIDE.U32 R6, R0, 0x4, R2
    LDG.E R8, desc[UR4][R6.64]
    EXIT
routine:
    LOP3.LUT R0, R0, 0x7, RZ, 0xc0, !PT
    {inside}
    RET.REL.NODEC R{returning}
"""


def test_an_address_that_is_copied_and_chosen_long_before() -> None:
    before = "HFMA2.MMA R21, -RZ, RZ, 0, 0\nIMAD.MOV.U32 R20, RZ, RZ, 0x200\n@P0 MOV R20, 0x200\n" + "NOP\n" * 26
    text = KERNEL.format(before=before, behind="", inside="MOV R4, R20\nMOV R5, RZ", returning=4)
    assert spans(text.replace("0x200", f"{0x10 * 32:#x}")) == [(0, 31)]


@pytest.mark.parametrize(
    ("before", "inside"),
    [
        ("MOV R4, 0x50", ""),
        ("MOV R4, R9", ""),
        ("MOV R4, 0x40\n@P0 MOV R4, R9", ""),
        ("MOV R4, 0x40", "IADD3 R4, R4, 0x10, RZ"),
    ],
)
def test_what_may_return_elsewhere_is_unknown(before: str, inside: str) -> None:
    template = listed(KERNEL.format(before=before, behind="", inside=inside, returning=4), 1)
    assert any("where it returns to is not clear" in each.reason for each in template.unknown)


def test_a_call_that_never_returns_is_a_jump() -> None:
    text = """
        LDC.64 R2, c[0x0][0x210]
        S2R R0, SR_TID.X
        ISETP.GE.AND P0, PT, R0, 0x8, PT
        @!P0 CALL.REL.NOINC rest
        EXIT
    rest:
        IMAD.WIDE.U32 R6, R0, 0x4, R2
        LDG.E R8, desc[UR4][R6.64]
        EXIT
    """
    assert spans(text) == [(0, 31)]


def test_a_relative_call_through_a_register_is_unknown() -> None:
    text = """
    routine:
        LDC.64 R2, c[0x0][0x210]
        LDC.64 R6, c[0x4][RZ]
        CALL.REL.NOINC R6, routine
        STG.E desc[UR4][R2.64], R8
        EXIT
    """
    assert [each.reason for each in listed(text, 1).unknown] == ["call through a register"]


NESTED = """
    LDC.64 R2, c[0x0][0x210]
    S2R R0, SR_TID.X
    MOV R4, 0x40
    CALL.REL.NOINC outer
    IMAD.WIDE.U32 R6, R0, 0x4, R2
    LDG.E R8, desc[UR4][R6.64]
    EXIT
outer:
    MOV R10, 0x90
    CALL.REL.NOINC inner
    RET.REL.NODEC R4
inner:
    LOP3.LUT R0, R0, 0x7, RZ, 0xc0, !PT
    {inside}
    RET.REL.NODEC R10
"""


def test_an_address_that_is_kept_over_a_call_inside() -> None:
    assert spans(NESTED.format(inside="MOV R5, R4")) == [(0, 31)]


@pytest.mark.parametrize("inside", ["MOV R4, R0", "@P0 IADD3 R4, R4, 0x10, RZ", "MOV R10, R9", "LDG.E.64 R4, [R2.64]"])
def test_an_address_that_a_call_inside_may_change_is_unknown(inside: str) -> None:
    template = listed(NESTED.format(inside=inside), 1)
    assert any("where it returns to is not clear" in each.reason for each in template.unknown)
