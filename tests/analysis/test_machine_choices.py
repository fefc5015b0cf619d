"""Values that machine code chooses, swaps or keeps by predicates keep the pointers that they begin with."""

from __future__ import annotations

from ptxtools.access.template import AccessKind, Slot, Template
from ptxtools.machine.build import build
from ptxtools.machine.cubin import Cubin, Kernel
from ptxtools.machine.disassembler import Line
from ptxtools.ranges import Launch, Result, evaluate

BASE = 0x210
FIRST, SECOND, COUNT = 0x10_0000_0000, 0x20_0000_0000, 100  # parameters at 0x210, 0x218, 0x220


def template(code: str) -> Template:
    """Of a listing: a guard, if any, an opcode, operands without spaces."""
    lines = []
    for text in code.strip().splitlines():
        words = text.split()
        guard = words.pop(0) if words[0].startswith("@") else ""
        lines.append(Line(guard, words[0], words[1] if len(words) > 1 else ""))
    slots = [Slot(index, 8 * index, 8) for index in range(3)]
    return build(Cubin(), Kernel("k", parameter_base=BASE, parameter_size=24, slots=slots), lines)


def evaluated(code: str, third: int = COUNT) -> Result:
    """Of a launch of one block of 32 threads; nothing is unknown."""
    values = b"".join(each.to_bytes(8, "little") for each in (FIRST, SECOND, third))
    found = evaluate(template(code), Launch(values, (1, 1, 1), (32, 1, 1), allocation))
    assert found.unknown == []
    return found


def touched(code: str, third: int = COUNT) -> list[tuple[int, int]]:
    """(begin, end) of each range."""
    return [(each.begin, each.end) for each in evaluated(code, third).ranges]


def allocation(address: int) -> tuple[int, int] | None:
    begin = address >> 36 << 36
    return (begin, begin + (1 << 34)) if begin else None


def test_a_word_written_under_a_predicate_and_under_its_opposite() -> None:
    code = """
        S2R R0,SR_TID.X
        ISETP.GE.AND P0,PT,R0,0x10,PT
        ULDC.64 UR4,c[0x0][0x210]
        @!P0 IMAD.U32 R4,RZ,RZ,UR4
        @P0 IMAD.U32 R4,RZ,RZ,UR4
        MOV R5,UR5
        LDG.E R6,desc[UR8][R4.64]
        EXIT
    """
    assert touched(code) == [(FIRST, FIRST + 4)]


def test_a_comparison_that_is_made_twice() -> None:
    code = """
        S2R R0,SR_TID.X
        MOV R8,0x10
        ISETP.LT.AND P0,PT,R0,R8,PT
        @P0 LDC.64 R4,c[0x0][0x210]
        ISETP.NE.AND P0,PT,R0,RZ,PT
        @P0 BRA 0x70
        NOP
        ISETP.GT.AND P1,PT,R8,R0,PT
        @P1 LDG.E R6,desc[UR8][R4.64]
        EXIT
    """
    assert touched(code) == [(FIRST, FIRST + 4)]


def test_words_that_are_swapped() -> None:
    code = """
        LDC.64 R2,c[0x0][0x210]
        S2R R0,SR_TID.X
        IMAD.WIDE.U32 R2,R0,0x4,R2
        MOV R4,R3
        MOV R5,R2
        ISETP.LT.AND P0,PT,R0,0x10,PT
        @P0 LOP3.LUT R5,R5,R4,RZ,0x3c,!PT
        @P0 LOP3.LUT R4,R5,R4,RZ,0x3c,!PT
        @P0 LOP3.LUT R5,R5,R4,RZ,0x3c,!PT
        @P0 LDG.E R6,desc[UR8][R4.64]
        EXIT
    """
    assert touched(code) == [(FIRST, FIRST + 64)]


def test_a_predicate_that_comes_back_where_paths_have_met() -> None:
    """The parameter at 0x220 is not 0, so only the first pointer is used, whatever way is taken in between."""
    code = """
        LDC R8,c[0x0][0x220]
        ISETP.NE.U32.AND P0,PT,R8,RZ,PT
        P2R R24,PR,RZ,0x1
        S2R R0,SR_TID.X
        ISETP.LT.AND P0,PT,R0,0x10,PT
        @P0 BRA 0x90
        ISETP.LT.AND P0,PT,R0,0x8,PT
        MOV R24,R24
        BRA 0x90
        ISETP.NE.AND P0,PT,R24,RZ,PT
        LDC.64 R4,c[0x0][0x218]
        @P0 LDC.64 R4,c[0x0][0x210]
        LDG.E R6,desc[UR8][R4.64]
        EXIT
    """
    assert touched(code) == [(FIRST, FIRST + 4)]


def test_the_lesser_of_two_numbers_is_no_pointer() -> None:
    """The parameter at 0x220 is a number that looks like one: the address begins with the one at 0x210."""
    code = """
        LDC.64 R2,c[0x0][0x220]
        LDC.64 R4,c[0x0][0x210]
        LDG.E.64 R6,desc[UR8][R4.64]
        ISETP.LT.U32.AND P0,PT,R2,R6,PT
        ISETP.LT.U32.AND.EX P0,PT,R3,R7,PT,P0
        SEL R8,R2,R6,P0
        SEL R9,R3,R7,P0
        IADD3 R4,P1,R4,R8,RZ
        IMAD.X R5,R5,0x1,R9,P1
        LDG.E R10,desc[UR8][R4.64]
        EXIT
    """
    begin, end = allocation(FIRST) or (0, 0)
    assert touched(code, third=SECOND + 4096)[-1] == (begin, end)
    assert touched(code) == [(FIRST, FIRST + COUNT + 4)]


def test_a_shift_of_two_words_whose_lower_one_is_multiplied() -> None:
    """An index of 24 bits: its multiples of 1024 lie so far apart, whichever of the two words they reach."""
    code = """
        LDC.64 R4,c[0x0][0x210]
        LDG.E R0,desc[UR8][R4.64]
        LOP3.LUT R0,R0,0xffffff,RZ,0xc0,!PT
        IMAD.SHL.U32 R2,R0,0x400,RZ
        SHF.L.U64.HI R3,R0,0xa,RZ
        IADD3 R4,P0,R4,R2,RZ
        IMAD.X R5,R5,0x1,R3,P0
        STG.E desc[UR8][R4.64],R6
        EXIT
    """
    (written,) = [each for each in evaluated(code).ranges if each.kind is AccessKind.WRITE]
    assert (written.begin, written.end) == (FIRST, FIRST + (0xFFFFFF << 10) + 4)
    assert (written.stride, written.width) == (1024, 4)


def test_predicates_that_are_bits_of_a_word() -> None:
    """Bit 8 says that the parameter at 0x220 is not 0; others are set and cleared besides, on one way of two."""
    code = """
        LDC R8,c[0x0][0x220]
        ISETP.NE.U32.AND P0,PT,R8,RZ,PT
        LDC R24,c[0x0][0x28]
        LOP3.LUT R24,R24,0xfffffeff,RZ,0xc0,!PT
        @P0 LOP3.LUT R24,R24,0x100,RZ,0xfc,!PT
        S2R R0,SR_TID.X
        ISETP.LT.AND P1,PT,R0,0x10,PT
        LOP3.LUT R24,R24,0xfffff7ff,RZ,0xc0,!PT
        @P1 LOP3.LUT R24,R24,0x800,RZ,0xfc,!PT
        @P1 BRA 0xb0
        LOP3.LUT R24,R24,0xfffffffe,RZ,0xc0,!PT
        LOP3.LUT P0,RZ,R24,0x100,RZ,0xc0,!PT
        @P0 LDC.64 R4,c[0x0][0x210]
        @!P0 LDC.64 R4,c[0x0][0x218]
        LDG.E R6,desc[UR8][R4.64]
        EXIT
    """
    assert touched(code) == [(FIRST, FIRST + 4)]
    assert touched(code, third=0) == [(SECOND, SECOND + 4)]
