"""Words of the stack are registers of their own, unless something else may write them."""

from __future__ import annotations

import pytest

from ptxtools.machine.instruction import Branch, MachineInstruction
from ptxtools.machine.stack import find_slots
from ptxtools.reader.body import Body
from ptxtools.reader.instruction import Instruction
from tests.instruments.listing import spans

BEGIN = "IADD3 R1,R1,-0x20,RZ"


def slots(*code: str) -> list[list[str]]:
    """What each load and store of the stack is of. "BRA n" goes to instruction n."""
    instructions: list[Instruction] = []
    for text in code:
        opcode, _, operands = text.partition(" ")
        if opcode == "BRA":
            instructions.append(Branch("bra", operands, "P0", False, 0))
        else:
            instructions.append(MachineInstruction(opcode, operands, "", False, 0))
    body = Body(instructions, {str(number): number for number in range(len(code))})
    find_slots(body)
    return [each.slots for each in instructions if isinstance(each, MachineInstruction) and each.base in ("LDL", "STL")]


def test_words_at_fixed_places() -> None:
    assert slots(BEGIN, "STL [R1+0x8],R5", "STL.64 [R1+0x10],R6", "LDL.LU R7,[R1+0x8]", "LDL R9,[R1+0x14]") == [
        ["[2]"],
        ["[4]", "[5]"],
        ["[2]"],
        ["[5]"],
    ]


def test_parts_of_words_are_written_but_not_known() -> None:
    store = MachineInstruction("STL.S16", "[R1+0x6],R5", "", False, 0)
    find_slots(Body([store]))
    assert (store.written, store.slots) == (["[1]"], [])
    across = MachineInstruction("STL", "[R1+0x6],R5", "", False, 0)
    find_slots(Body([across]))
    assert (across.written, across.slots) == (["[1]", "[2]"], [])


@pytest.mark.parametrize(
    "other",
    [
        "STL [R7],R8",
        "STL [R1+R7+0x8],R8",
        "STL [R1+0x10],R1",
        "LDL R1,[R1+0x8]",
        "IADD3 R1,R1,0x20,RZ",
    ],
)
def test_nothing_is_known_when_other_places_may_be_written(other: str) -> None:
    assert not any(slots(BEGIN, "STL [R1+0x8],R5", other, "LDL R7,[R1+0x8]"))


def test_the_address_of_the_stack_in_other_hands() -> None:
    taken = "IADD3 R4,R1,0x10,RZ"
    assert not any(slots(BEGIN, taken, "STL [R1+0x8],R5", "ST.E [R4.64],R6"))
    assert all(slots(BEGIN, "STL [R1+0x8],R5", "ST.E [R4.64],R6"))
    assert slots(BEGIN, taken, "STL [R1+0x8],R5", "LDL R6,[R4]") == [["[2]"], []]


def test_a_loop_that_moves_the_stack() -> None:
    assert not any(slots(BEGIN, "STL [R1+0x8],R5", "BRA 0", "LDL R7,[R1+0x8]"))
    assert all(slots(BEGIN, "STL [R1+0x8],R5", "BRA 1", "LDL R7,[R1+0x8]"))


def test_an_address_that_had_no_room_in_registers() -> None:
    """With a shift by a number that a register holds, of the bits that a mask takes from a word."""
    text = """
        LDC R1, c[0x0][0x28]
        LDC.64 R2, c[0x0][0x210]
        IADD3 R1, R1, -0x10, RZ
        STL.64 [R1+0x8], R2
        MOV R12, 0x2
        S2R R0, SR_TID.X
        LOP3.LUT R10, R0, 0x7, RZ, 0xe2, !PT
        SHF.L.U32 R10, R10, R12, RZ
        LDL.LU.64 R4, [R1+0x8]
        IADD3 R6, P0, R4, R10, RZ
        IADD3.X R7, RZ, R5, RZ, P0, !PT
        LDG.E R8, desc[UR4][R6.64]
        EXIT
    """
    assert spans(text) == [(0, 31)]
