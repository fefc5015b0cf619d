"""Joins that only ever give one value are that value."""

from __future__ import annotations

from collections.abc import Mapping

from ptxtools.access.graph import Graph
from ptxtools.access.template import Node, Op, Template


def simplified(phis: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """What stands for each join; names that are none are values of their own."""
    graph = Graph(Template("kernel"))
    numbers: dict[str, int] = {}
    for name in [*phis, *sorted({arg for args in phis.values() for arg in args} - phis.keys())]:
        numbers[name] = graph.fresh(Node(Op.PHI if name in phis else Op.OPAQUE))
    for name, args in phis.items():
        graph.set_operands(numbers[name], [numbers[arg] for arg in args], (0,) * len(args))
    graph.simplify()
    names = {number: name for name, number in numbers.items()}
    return {name: names[graph.resolve(numbers[name])] for name in phis}


def test_a_join_of_itself_and_one_value() -> None:
    assert simplified({"a": ("x", "a"), "b": ("a", "a", "x")}) == {"a": "x", "b": "x"}


def test_phis_that_name_each_other() -> None:
    """The headers of two loops and two phi places: tid.x in CUB's histogram of digits."""
    phis = {"outer": ("x", "end"), "inner": ("outer", "middle"), "middle": ("inner", "x"), "end": ("outer", "middle")}
    assert simplified(phis) == dict.fromkeys(phis, "x")


def test_phis_inside_of_one_that_stays() -> None:
    phis = {"outer": ("x", "end", "y"), "inner": ("outer", "middle"), "middle": ("inner", "inner"), "end": ("middle",)}
    assert simplified(phis) == dict.fromkeys(phis, "outer")


def test_phis_of_two_values_stay() -> None:
    phis = {"a": ("x", "b"), "b": ("a", "y"), "c": ("b", "a")}
    assert simplified(phis) == {"a": "a", "b": "b", "c": "c"}


def test_equal_values_of_joins_that_turn_out_to_be_one() -> None:
    """x + y, made from x and from what turns out to be x; and what is made of both of them."""
    graph = Graph(Template("kernel"))
    x, y = graph.fresh(Node(Op.OPAQUE)), graph.fresh(Node(Op.OPAQUE))
    same = graph.fresh(Node(Op.PHI))
    sums = [graph.add(Node(Op.ADD, (each, y), 32)) for each in (same, x)]
    twice = [graph.add(Node(Op.NEG, (each,), 32)) for each in sums]
    graph.set_operands(same, [x, same], (0, 0))
    graph.simplify()
    assert len({graph.resolve(each) for each in sums}) == len({graph.resolve(each) for each in twice}) == 1
    assert graph.nodes[graph.resolve(twice[0])].args == (graph.resolve(sums[0]),)


def test_loaded_values_are_never_one() -> None:
    graph = Graph(Template("kernel"))
    x = graph.fresh(Node(Op.OPAQUE))
    same = graph.fresh(Node(Op.PHI))
    loads = [graph.fresh(Node(Op.LOADED, (each,), 32)) for each in (same, x)]
    graph.set_operands(same, [x, same], (0, 0))
    graph.simplify()
    assert [graph.resolve(each) for each in loads] == loads
