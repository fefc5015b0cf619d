"""Where threads that wait for each other go on."""

from __future__ import annotations

from ptxtools.access.template import AccessKind
from ptxtools.machine.barriers import joins
from ptxtools.machine.disassembler import Line
from tests.instruments.listing import result


def test_a_register_that_was_kept_in_another_one() -> None:
    lines = [
        Line("", "BSSY", "B0,0x100"),
        Line("", "BSSY.RECONVERGENT", "B1,0x200"),
        Line("", "BSSY", "B2,0x300"),
        Line("", "BMOV.32.CLEAR", "R4,B0"),
        Line("", "BMOV.32", "B1,R4"),
    ]
    assert joins(lines) == {"B0": {16}, "B1": {32, 16}, "B2": {48}}


def test_one_that_is_kept_in_turn() -> None:
    lines = [
        Line("", "BSSY", "B0,0x100"),
        Line("", "BMOV.32.CLEAR", "R4,B0"),
        Line("", "BMOV.32", "B1,R4"),
        Line("", "BMOV.32.CLEAR", "R5,B1"),
        Line("", "BMOV.32", "B2,R5"),
    ]
    assert joins(lines) == {"B0": {16}, "B1": {16}, "B2": {16}}


CODE = """
    S2R R3, SR_TID.X
    IMAD.WIDE.U32 R6, R3, 0x4, c[0x0][0x210]
    ISETP.EQ.U32.AND P1, PT, RZ, c[0x0][0x220], PT
    @P1 BRA rare
    BSSY B1, behind
    BMOV.32.CLEAR R10, B1
    LDG.E R8, desc[UR4][R6.64]
    ISETP.GE.AND P0, PT, R8, RZ, PT
    @P0 BRA wait
    FADD R9, R8, R8
wait: BMOV.32 B0, R10
    BSYNC B0
behind: EXIT
rare: BSSY B0, last
    BSYNC B0
last: STG.E desc[UR4][R6.64], RZ
"""


def test_threads_go_on_behind_a_wait_on_what_was_kept() -> None:
    assert [each.kind for each in result(CODE, n=1).ranges] == [AccessKind.READ]
    assert [each.kind for each in result(CODE, n=0).ranges] == [AccessKind.WRITE]


def test_threads_go_on_anywhere_where_it_is_not_clear_what_they_wait_for() -> None:
    """Of a register that was not kept, no place is behind the wait."""
    other = CODE.replace("R10, B1", "R10, B2")
    assert {each.kind for each in result(other, n=1).ranges} == {AccessKind.READ, AccessKind.WRITE}
