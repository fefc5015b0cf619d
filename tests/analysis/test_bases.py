"""What addresses begin with, where there is much of it: time and depth are bounded."""

from __future__ import annotations

import pytest

from ptxtools.access import bases
from ptxtools.access.bases import Bases
from ptxtools.access.template import Node, Op, Template

POINTER = Node(Op.PARAMETER, width=64)
DEPTH = 60_000


def chain(length: int) -> Template:
    """Of sums, each of the one before and a number."""
    template = Template("chain")
    template.nodes = [POINTER, Node(Op.NUMBER, number=4)]
    template.nodes += [Node(Op.ADD, (0 if each == 2 else each - 1, 1)) for each in range(2, length + 2)]
    return template


def test_a_long_chain_begins_with_its_pointer() -> None:
    assert Bases(chain(3_000)).of(3_001) == {frozenset({POINTER})}


def test_of_a_chain_that_is_too_long_nothing_is_known() -> None:
    assert Bases(chain(DEPTH)).of(DEPTH + 1) == {frozenset()}


def test_what_was_found_before_helps() -> None:
    found = Bases(chain(DEPTH))
    assert all(found.of(place) == {frozenset({POINTER})} for place in range(1_000, 30_000, 1_000))


@pytest.mark.full
def test_all_addresses_together_take_a_bounded_time() -> None:
    """Round loops inside of loops nothing is kept: every address is looked at anew."""
    template = Template("loops")
    template.nodes = [POINTER] + [Node(Op.HAVOC, (each - 1, 1_000)) for each in range(1, 1_001)]
    found = Bases(template)
    for place in range(1, 1_001):
        found.of(place)
    assert found.left >= 0
    assert bases.bases(template, 1)
