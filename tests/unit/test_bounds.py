"""Bounds, divisions and shapes against all points that the facts allow."""

from __future__ import annotations

from itertools import product
from math import inf

from hypothesis import given, settings
from hypothesis import strategies as st

from ptxtools.access.template import AccessKind
from ptxtools.ranges.bounds import lower, upper
from ptxtools.ranges.divide import Division
from ptxtools.ranges.form import Form, Symbol, Symbols, fact
from ptxtools.ranges.launch import Range
from ptxtools.ranges.merge import merged
from ptxtools.ranges.strides import shape

COEFFICIENTS = st.sampled_from((-8, -4, -3, -1, 0, 0, 1, 2, 4, 7, 16))
BOXES = st.lists(st.tuples(st.integers(-3, 2), st.integers(0, 5)), min_size=3, max_size=3)
FORMS = st.tuples(COEFFICIENTS, COEFFICIENTS, COEFFICIENTS, st.integers(-20, 20))


def form(numbers: tuple[int, int, int, int]) -> Form:
    return Form(numbers[3], {n: c for n, c in enumerate(numbers[:3]) if c})


def value(each: Form, point: tuple[int, ...]) -> int:
    return each.constant + sum(c * point[n] for n, c in each.terms.items())


def world(boxes: list[tuple[int, int]]) -> tuple[Symbols, list[tuple[int, ...]]]:
    symbols = Symbols()
    symbols.all = [Symbol(low, low + size) for low, size in boxes]
    return symbols, list(product(*(range(low, low + size + 1) for low, size in boxes)))


@settings(max_examples=80, deadline=None)
@given(BOXES, FORMS, st.lists(FORMS, max_size=3))
def test_bounds_hold_wherever_the_facts_do(
    boxes: list[tuple[int, int]], numbers: tuple[int, int, int, int], known: list[tuple[int, int, int, int]]
) -> None:
    symbols, points = world(boxes)
    facts = [fact(form(each)) for each in known]
    allowed = [point for point in points if all(value(form(each), point) <= 0 for each in known)]
    wanted = form(numbers)
    for point in allowed:
        assert lower(symbols, wanted, facts) <= value(wanted, point) <= upper(symbols, wanted, facts)


@settings(max_examples=80, deadline=None)
@given(BOXES, FORMS, st.integers(1, 9), st.lists(FORMS, max_size=2), FORMS)
def test_shapes_hold_every_address_with_divided_parts(
    boxes: list[tuple[int, int]],
    numbers: tuple[int, int, int, int],
    divisor: int,
    known: list[tuple[int, int, int, int]],
    more: tuple[int, int, int, int],
) -> None:
    """Addresses 24 * (value / divisor) + 3 * (value % divisor) + something else."""
    symbols, points = world(boxes)
    division = Division(symbols)
    divided = form(numbers)
    quotient, remainder = division.quotient(divided, divisor), division.remainder(divided, divisor)
    address = quotient.times(24).plus(remainder, 3).plus(form(more))
    facts = [fact(form(each)) for each in known]
    found = shape(symbols, address, facts, 2)
    assert found is not None
    for point in points:
        if any(value(form(each), point) > 0 for each in known):
            continue
        number = value(divided, point)
        at = 24 * (number // divisor) + 3 * (number % divisor) + value(form(more), point)
        assert found.first <= at
        assert at + 1 <= found.last
        if found.stride:
            assert (at - found.first) % found.stride + 2 <= found.width


def test_no_bound_is_infinite() -> None:
    symbols = Symbols()
    symbols.all = [Symbol(0, inf), Symbol(0, 5)]
    wanted = Form(0, {0: 4, 1: 1})
    assert upper(symbols, wanted, []) == inf
    assert upper(symbols, wanted, [fact(Form(-7, {0: 2}))]) == 17


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 60), st.integers(0, 5), st.sampled_from((0, 8, 12)), st.integers(1, 7)), max_size=6
    )
)
def test_merged_ranges_hold_what_they_were_made_of(parts: list[tuple[int, int, int, int]]) -> None:
    ranges = [
        Range(AccessKind.READ, 0, None, 0, first, first + count * stride + width - 1, stride, width if stride else 0)
        for first, count, stride, width in parts
    ]
    together = covered(merged(ranges))
    assert covered(ranges) <= together


def covered(ranges: list[Range]) -> set[int]:
    found: set[int] = set()
    for each in ranges:
        for byte in range(each.first, each.last + 1):
            if not each.stride or (byte - each.first) % each.stride < each.width:
                found.add(byte)
    return found
