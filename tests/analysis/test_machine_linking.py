"""Functions of the file that a kernel calls are taken as routines of it, where it is clear that they return to it."""

from __future__ import annotations

import pytest

from ptxtools.access.template import Template
from tests.instruments.listing import listed

KERNEL = """
    LDC.64 R2, c[0x0][0x210]
    S2R R0, SR_TID.X
    MOV R20, 32@lo(({function} + {low}))
    MOV R21, 32@hi(({function} + {high}))
    CALL.ABS.NOINC {called}
    IMAD.WIDE.U32 R6, R0, 0x4, R2
    LDG.E R8, desc[UR4][R6.64]
    EXIT
"""
MASK = """
    @!P0 BRA over
    LOP3.LUT R0, R0, 0x7, RZ, 0xc0, !PT
    RET.ABS.NODEC R20 0x0
over:
    LOP3.LUT R0, R0, 0x3, RZ, 0xc0, !PT
    RET.ABS.NODEC R20 0x0
"""


def called(inside: str, **changes: str) -> Template:
    names = {"function": "kernel", "low": "0x50", "high": "0x50", "called": "mask", **changes}
    return listed(KERNEL.format(**names), 1, {"mask": inside})


def test_what_a_function_computes_is_known_behind_its_call() -> None:
    template = called(MASK)
    assert not template.unknown
    assert len(template.accesses) == 1


def test_what_a_function_touches_belongs_to_the_kernel() -> None:
    template = called("STG.E desc[UR4][R2.64], R0" + MASK)
    assert [each.kind.value for each in template.accesses] == ["write", "read"]


@pytest.mark.parametrize(
    ("inside", "changes"),
    [
        (MASK, {"low": "0x60"}),
        (MASK, {"high": "0x60"}),
        (MASK, {"function": "mask"}),
        (MASK.replace("R20", "R2"), {}),
        (MASK.replace("ABS", "REL"), {}),
        ("MOV R20, R0" + MASK, {}),
        ("IADD3 R21, R21, 0x1, RZ" + MASK, {}),
    ],
)
def test_what_may_return_elsewhere_is_unknown(inside: str, changes: dict[str, str]) -> None:
    assert any("where it returns to is not clear" in each.reason for each in called(inside, **changes).unknown)


def test_an_offset_in_the_kernel_is_no_address() -> None:
    text = KERNEL.replace("32@lo(({function} + {low}))", "0x50").replace("32@hi(({function} + {high}))", "RZ")
    template = listed(text.format(called="mask"), 1, {"mask": MASK})
    assert any("where it returns to is not clear" in each.reason for each in template.unknown)


@pytest.mark.parametrize("called_name", ["vprintf", "kernel"])
def test_others_are_unknown(called_name: str) -> None:
    assert [each.reason for each in called(MASK, called=called_name).unknown] == [f"call of {called_name}"]


def test_a_function_with_constants_of_its_own_is_unknown() -> None:
    assert [each.reason for each in called("MOV R0, c[0x2][0x0]" + MASK).unknown] == ["call of mask"]
