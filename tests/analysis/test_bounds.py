"""Bounds, divisions, strides and merged ranges against all points that conditions allow."""

from __future__ import annotations

from functools import reduce

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptxtools.access.template import Access, AccessKind, Node, Op, PathCondition, Template
from ptxtools.ranges import Launch, Range, evaluate
from tests.instruments.naive import Touched, lacking, touched

COEFFICIENTS = st.sampled_from((-8, -4, -3, -1, 0, 0, 1, 2, 4, 7, 16))
BOXES = st.lists(st.tuples(st.integers(-3, 2), st.integers(0, 5)), min_size=3, max_size=3)
FORMS = st.tuples(COEFFICIENTS, COEFFICIENTS, COEFFICIENTS, st.integers(-20, 20))
BEGIN = 1 << 40

Form = tuple[int, int, int, int]


class Point:
    """A template over three numbers, each in an interval of its own: where a thread stands."""

    def __init__(self, boxes: list[tuple[int, int]]) -> None:
        self.template = Template("point")
        x, y, z = (size + 1 for _, size in boxes)
        self.launch = Launch(b"", (1, 1, 1), (x, y, z))
        self.places = []
        for axis, (low, _) in zip("xyz", boxes, strict=True):
            place = self.add(Node(Op.SPECIAL, name=f"tid.{axis}"))
            self.places.append(self.make(Op.ADD, place, self.number(low)))

    def add(self, node: Node) -> int:
        self.template.nodes.append(node)
        return len(self.template.nodes) - 1

    def number(self, value: int) -> int:
        return self.add(Node(Op.NUMBER, number=value))

    def make(self, op: Op, *args: int, name: str = "") -> int:
        return self.add(Node(op, args, 64, signed=True, name=name, condition=len(self.template.conditions) - 1))

    def form(self, numbers: Form) -> int:
        terms = zip(numbers, self.places, strict=False)
        products = [self.make(Op.MUL, place, self.number(times)) for times, place in terms if times]
        return reduce(lambda one, other: self.make(Op.ADD, one, other), products, self.number(numbers[3]))

    def below(self, known: list[Form]) -> None:
        """From here on, these forms are at most 0."""
        for each in known:
            test = self.make(Op.COMPARE, self.form(each), self.number(0), name="le")
            self.template.conditions.append(PathCondition(len(self.template.conditions) - 1, test))

    def read(self, place: int, size: int, kind: AccessKind = AccessKind.READ) -> None:
        address = self.make(Op.ADD, place, self.number(BEGIN))
        self.template.accesses.append(Access(kind, address, 0, size, len(self.template.conditions) - 1, 1))

    def found(self) -> tuple[list[Range], Touched]:
        """What is predicted, which holds what is touched."""
        result, real = evaluate(self.template, self.launch), touched(self.template, self.launch)
        assert real.complete
        assert not result.unknown
        assert not lacking(result, real)
        return result.ranges, real


@pytest.mark.full
@settings(max_examples=100, deadline=None)
@given(BOXES, FORMS, st.lists(FORMS, max_size=3))
def test_bounds_hold_wherever_the_conditions_do(boxes: list[tuple[int, int]], wanted: Form, known: list[Form]) -> None:
    point = Point(boxes)
    point.below(known)
    point.read(point.form(wanted), 1)
    ranges, real = point.found()
    ends = real.accesses[AccessKind.READ]
    if not known:
        assert (min(each.begin for each in ranges), max(each.end for each in ranges)) == (ends[0][0], ends[-1][1])


@pytest.mark.full
@settings(max_examples=100, deadline=None)
@given(BOXES, FORMS, st.integers(1, 9), st.lists(FORMS, max_size=2), FORMS)
def test_ranges_hold_every_address_with_divided_parts(
    boxes: list[tuple[int, int]], numbers: Form, divisor: int, known: list[Form], more: Form
) -> None:
    """Addresses 24 * (value / divisor) + 3 * (value % divisor) + something else."""
    point = Point(boxes)
    point.below(known)
    value, by = point.form(numbers), point.number(divisor)
    quotient = point.make(Op.MUL, point.make(Op.DIV, value, by), point.number(24))
    remainder = point.make(Op.MUL, point.make(Op.REM, value, by), point.number(3))
    point.read(point.make(Op.ADD, point.make(Op.ADD, quotient, remainder), point.form(more)), 2)
    point.found()


@pytest.mark.full
@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(FORMS, st.sampled_from((1, 2, 4, 7)), st.sampled_from(AccessKind)), max_size=6))
def test_merged_ranges_hold_what_they_were_made_of(parts: list[tuple[Form, int, AccessKind]]) -> None:
    point = Point([(0, 3), (0, 4), (0, 2)])
    for form, size, kind in parts:
        point.read(point.form(form), size, kind)
    point.found()


def test_what_only_a_condition_bounds() -> None:
    """2 * value <= 7 says that an unsigned number of which nothing else is known is at most 3."""
    point = Point([(0, 0), (0, 5), (0, 0)])
    any_word = point.add(Node(Op.OPAQUE, width=32))
    twice = point.make(Op.MUL, any_word, point.number(2))
    test = point.make(Op.COMPARE, twice, point.number(7), name="le")
    point.template.conditions.append(PathCondition(0, test))
    point.read(point.make(Op.ADD, point.make(Op.MUL, any_word, point.number(4)), point.places[1]), 1)
    (found,) = evaluate(point.template, point.launch).touched
    assert (found.begin, found.end) == (BEGIN, BEGIN + 4 * 3 + 5 + 1)
