"""Live-outs of a loop that may not have run at all: their initial value, plus their step for each iteration.

Compilers rotate loops: they test before the loop and at its end. After it two paths join. On the one around the loop, a
value is the initial one; on the one out of it, the last iteration's. All such values of a loop and a phi's block use
one iteration count, which is 0 on the first path and the loop's trip count on the other: so what is known of one of
them is known of all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ptxtools.access.graph import Graph
from ptxtools.access.numbering import Numbering
from ptxtools.access.template import Node, Op

_INVARIANT = {  # the same in every iteration when their operands are
    *(Op.ADD, Op.SUB, Op.NEG, Op.NOT, Op.MUL, Op.MUL_WIDE, Op.SHL, Op.SHR, Op.AND, Op.OR, Op.XOR),
    *(Op.CONVERT, Op.EXTRACT, Op.PACK, Op.MIN, Op.MAX, Op.DIV, Op.REM),
}
_STEPS = {Op.ADD, Op.SUB}
_DEPTH = 16
_MOST_NODES = 256

_Parts = dict[int, int]  # of a value: by the number of another value, what is added to that one to make it


@dataclass(frozen=True, slots=True)
class _Stepping:
    """A LOOP node that begins with `start`, and is `after` once an iteration has ended."""

    node: int
    start: int
    after: int


def count_iterations(graph: Graph, loops: Mapping[int, tuple[int, ...]]) -> None:
    """Rewrites such phis. `loops`: the operands that LOOP nodes had before their steps were found."""
    turns = _Iterations(graph)
    for each in _stepping(graph, loops):
        for operand in (each.node, each.after):
            turns.by_operand.setdefault(turns.numbers.of(operand), []).append(each)
    for index in range(len(graph.nodes)):
        if graph.nodes[index].op is Op.PHI:
            turns.count(index)


def _stepping(graph: Graph, loops: Mapping[int, tuple[int, ...]]) -> Iterator[_Stepping]:
    """Induction variables of loops with one entry and one back edge."""
    for index, operands in loops.items():
        node = graph.nodes[index]
        if node.op is not Op.LOOP or len(operands) != 2 or graph.nodes[operands[1]].op not in _STEPS:
            continue
        if node.width and _is_constant(graph, node.args[1], node.number):
            yield _Stepping(index, node.args[0], operands[1])


def _is_constant(graph: Graph, index: int, loop: int) -> bool:
    """Whether a value is the same in all iterations of a loop."""
    pending, seen = [index], set[int]()
    while pending and len(seen) < _MOST_NODES:
        each = pending.pop()
        if each in seen:
            continue
        seen.add(each)
        node = graph.nodes[each]
        if node.op in _INVARIANT:
            pending += node.args
        elif loop in graph.template.block_loops[node.block] or (node.op is Op.INDUCTION and node.number == loop):
            return False
    return not pending


class _Iterations:
    """`by_operand`: values of loops by what they are in the loop and at its end.

    Values are told by their numbers: what the loop begins with is often computed again on the path around it.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.numbers = Numbering(graph)
        self.by_operand: dict[int, list[_Stepping]] = {}

    def count(self, index: int) -> None:
        """Rewrites a phi when it is one of these."""
        node = self.graph.nodes[index]
        for width in (64, 32):
            sums = [self.parts(arg, width) for arg in node.args]
            steppings = (each for parts in sums for part in parts for each in self.by_operand.get(part, ()))
            for stepping in dict.fromkeys(steppings):
                loop = self.graph.nodes[stepping.node]
                if loop.width == width and loop.number not in self.graph.template.block_loops[node.block]:
                    found = self.turns(sums, stepping, width)
                    if found is not None:
                        self.graph.nodes[index] = self.counted(node, stepping, *found)
                        return

    def parts(self, index: int, width: int) -> _Parts:
        """The value itself, and others that it is with a number added."""
        found, total = {self.numbers.of(index): 0}, 0
        while (node := self.graph.nodes[index]).op is Op.ADD and node.width == width and len(found) < _DEPTH:
            number = self.graph.number_of(node.args[1])
            if number is None:
                break
            index, total = node.args[0], total + number
            found[self.numbers.of(index)] = total
        return found

    def turns(self, sums: list[_Parts], stepping: _Stepping, width: int) -> tuple[list[int], int] | None:
        """How often the loop ran on each path (0; 1 and 2: what it counted, and one more), and what is added to all."""
        start = self.parts(stepping.start, width)
        paths: list[dict[int, int]] = []  # by path: from what is added to how often the loop ran
        for parts in sums:
            begun = {added - start[part]: 0 for part, added in parts.items() if part in start}
            ends = enumerate(map(self.numbers.of, (stepping.node, stepping.after)), 1)
            paths.append({**begun, **{parts[part]: turn for turn, part in ends if part in parts}})
        common = [added for added in paths[0] if all(added in path for path in paths)]
        if not common:
            return None
        found = [path[common[0]] for path in paths]
        return (found, common[0]) if len(set(found)) > 1 else None

    def counted(self, node: Node, stepping: _Stepping, turns: list[int], added: int) -> Node:
        """The beginning and a multiple of the step, and what is added to all."""
        graph, loop = self.graph, self.graph.nodes[stepping.node]
        count = graph.add(Node(Op.INDUCTION, number=loop.number, block=loop.block))
        after = graph.add(Node(Op.ADD, (count, graph.number(1)), 64, block=loop.block))
        times = (graph.number(0), count, after)
        paths = graph.add(node._replace(args=tuple(times[turn] for turn in turns)))
        made = node._replace(op=Op.ADD, width=loop.width, conditions=())
        total = graph.add(made._replace(op=Op.MUL, args=(paths, loop.args[1])))
        if added:
            total = graph.add(made._replace(args=(total, graph.number(added))))
        return made._replace(args=(loop.args[0], total))
