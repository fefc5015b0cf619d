"""What repeats in a program, found without markers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controlplane.graph.nodes import Node, Program, Read, Span, What, Write
from controlplane.graph.versions import dependencies
from controlplane.profile import iteration
from controlplane.profile.iteration import Recurring
from tests.graph.programs import guided, requests, tensor


def found(program: Program) -> Recurring:
    return iteration.find(dependencies(program), [node.name for node in program.nodes])


def test_requests_through_layers_of_the_same_kernels() -> None:
    """Layers differ by their weights, requests do not."""
    result = found(requests(8, 30))
    assert (result.length, len(result.starts), result.starts[0]) == (32, 8, 0)
    assert result.nodes(2) == tuple(range(64, 96))


def test_steps_that_depend_on_each_other() -> None:
    program = guided(9, 20)
    result = found(program)
    assert result.length * 9 == len(program.nodes)
    assert len(result.starts) >= 8


def test_what_comes_before_and_after_is_left_out() -> None:
    work = requests(8, 10).nodes
    setup = [Node(What.LAUNCH, f"setup {n}", 1e3, (), (Write(tensor(500 + n)),), stream="s") for n in range(37)]
    result = found(Program([*setup, *work, *(replace(node, name="end") for node in setup)]))
    assert (result.length, result.starts[0], len(result.starts)) == (12, 37, 8)


def test_equal_launches_are_told_apart_by_where_they_get_their_data() -> None:
    """Chains of 50 launches of one kernel, each chain in a buffer of its own."""
    nodes = []
    for chain in range(6):
        for step in range(50):
            reads = (Read(tensor(chain)), Read(tensor(100 + step % 4)))
            nodes.append(Node(What.LAUNCH, "step", 1e3, reads, (Write(tensor(chain)),), stream="s"))
    result = found(Program(nodes))
    assert (result.length, len(result.starts)) == (50, 6)


@pytest.mark.parametrize("count", [0, 1, 2, 20])
def test_a_program_in_which_nothing_repeats_is_one_iteration(count: int) -> None:
    nodes = [Node(What.LAUNCH, f"kernel {n}", 1e3, (), (Write(Span(n, n + 1)),), stream="s") for n in range(count)]
    result = found(Program(nodes))
    assert (result.length, result.starts, result.is_recurring) == (count, (0,), False)
