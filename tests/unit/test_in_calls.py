"""Ranges of launches inside library calls: by code and by call together."""

from __future__ import annotations

from controlplane.analysis.in_calls import refined
from ptxtools.access.template import AccessKind
from ptxtools.ranges import Range, Result

READ, WRITE, ATOMIC = AccessKind
A, C, WORK, END = 0x1000, 0x2000, 0x3000, 0x4000


def bytes_at(kind: AccessKind, begin: int, size: int, **flags: bool) -> Range:
    return Range(kind, None, None, begin, 0, size - 1, **flags)


PRODUCT = Result(
    [
        bytes_at(READ, A, 64),
        bytes_at(WRITE, C, 128, overwritten=True),
        bytes_at(READ, WORK, 256, scratch=True),
        bytes_at(WRITE, WORK, 256, scratch=True),
    ]
)


def whole(kind: AccessKind, parameter: int, base: int, begin: int = A) -> Range:
    return Range(kind, parameter, None, base, begin - base, END - base - 1, whole=True)


def test_an_allocation_as_a_whole_becomes_the_operands_in_it() -> None:
    found = refined(Result([whole(READ, 0, A + 4), whole(WRITE, 1, C)]), PRODUCT).ranges
    assert {(each.kind, each.begin, each.end, each.whole, each.scratch) for each in found} == {
        (READ, A, A + 64, False, False),
        (READ, WORK, WORK + 256, False, True),
        (WRITE, C, C + 128, False, False),
        (WRITE, WORK, WORK + 256, False, True),
    }
    assert {each.parameter for each in found if each.kind is READ} == {0}
    (output,) = [each for each in found if each.overwritten]
    assert (output.kind, output.begin, output.end) == (WRITE, C, C + 128)


def test_what_the_call_does_not_name_stays() -> None:
    variable = Range(WRITE, None, "counter", END, 0, 3)
    elsewhere = Range(READ, 2, None, END + 64, 0, 63, whole=True)
    unbounded = Range(READ, 3, None, A, 0, -1, whole=True)
    own = [variable, elsewhere, unbounded]
    assert refined(Result(own), PRODUCT).ranges == own
    unknown = Result([whole(READ, 0, A)], [(7, "a reason")])
    assert refined(unknown, PRODUCT) == unknown
    known = Result([whole(READ, 0, A)])
    assert refined(known, Result([], [(0, "a reason")])) == known


def test_c_is_not_read_when_the_call_does_not_read_it() -> None:
    own = [bytes_at(READ, C, 64), bytes_at(READ, A, 64), bytes_at(WRITE, C, 64)]
    found = refined(Result(own), PRODUCT).ranges
    assert found == [own[1], own[2], PRODUCT.ranges[1]]
    in_place = Result([*PRODUCT.ranges, bytes_at(READ, C, 16)])
    assert own[0] in refined(Result(own), in_place).ranges


def test_an_output_that_the_launch_does_not_write_is_another_launchs() -> None:
    own = [bytes_at(READ, A, 64), bytes_at(WRITE, WORK, 64), bytes_at(ATOMIC, WORK + 64, 4)]
    found = refined(Result(own), PRODUCT).ranges
    assert not any(each.overwritten for each in found)
    assert [each.scratch for each in found] == [False, True, True]


def test_what_an_earlier_launch_of_the_call_has_made_is_carried() -> None:
    later = Result([bytes_at(READ, WORK, 256, intermediate=True), bytes_at(WRITE, C, 128, intermediate=True)])
    own = [bytes_at(READ, WORK, 64), bytes_at(WRITE, C, 64), bytes_at(WRITE, END, 64)]
    assert [each.intermediate for each in refined(Result(own), later).ranges] == [True, True, False]
