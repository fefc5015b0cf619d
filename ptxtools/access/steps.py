"""Finds induction variables: values that change by the same step in each iteration of a loop."""

from __future__ import annotations

from ptxtools.access.graph import Graph
from ptxtools.access.iterations import count_iterations
from ptxtools.access.template import Node, Op

_DEPTH = 200
_MOST_VISITS = 100_000  # of values of a kernel: after those, steps are not known


def find_steps(graph: Graph) -> None:
    """Rewrites each LOOP node to (start, step), or to HAVOC. Start is a PHI when the loop has several entries."""
    loops = [index for index, node in enumerate(graph.nodes) if node.op is Op.LOOP]
    operands = {index: graph.nodes[index].args for index in loops}
    conditions = {index: graph.nodes[index].conditions for index in loops}
    finder = _Finder(graph, operands, conditions)
    for index in loops:
        step = finder.step(index)
        node = graph.nodes[index]
        entries = len(graph.template.loops[node.number].entries)
        start = operands[index][0]
        if entries > 1:
            phi = Node(Op.PHI, operands[index][:entries], block=node.block, conditions=conditions[index][:entries])
            start = graph.fresh(phi)
        backs = operands[index][entries:]
        width = max((graph.nodes[back].width or finder.width(back, index) for back in backs), default=0)
        op, args = (Op.HAVOC, (start, *backs)) if step is None else (Op.LOOP, (start, step))
        graph.nodes[index] = node._replace(op=op, args=args, conditions=(), width=width)
    count_iterations(graph, {index: operands[index] for index in loops if index not in finder.conditional})


class _Finder:
    """Of the back edge that is followed: predicates whose value is known (`implied`), and deltas (`found`).

    Without the latter a value would be visited as often as there are paths to it through phis. `conditional`: LOOP
    nodes whose step was found with such predicates; after the last iteration, values may be something else.
    """

    def __init__(
        self, graph: Graph, operands: dict[int, tuple[int, ...]], conditions: dict[int, tuple[int, ...]]
    ) -> None:
        self.graph, self.operands, self.conditions = graph, operands, conditions
        self.known: dict[int, int | None] = {}
        self.active: set[int] = set()
        self.implied: dict[int, bool] = {}
        self.found: dict[int, int | None] = {}
        self.conditional: set[int] = set()
        self.visits = 0

    def entries(self, loop: int) -> int:
        return len(self.graph.template.loops[self.graph.nodes[loop].number].entries)

    def step(self, loop: int) -> int | None:
        """The node of the step of a LOOP node; None if it is no induction variable."""
        if loop in self.known:
            return self.known[loop]
        if loop in self.active:
            return None
        self.active.add(loop)
        outer = self.implied, self.found
        entries = self.entries(loop)
        deltas = []
        for value, condition in zip(self.operands[loop][entries:], self.conditions[loop][entries:], strict=True):
            self.implied, self.found = self.predicates(condition), {}
            deltas.append(self.delta(value, loop, self.width(self.chosen(value, loop), loop) or 64, _DEPTH))
        self.implied, self.found = outer
        self.active.discard(loop)
        step = None
        if deltas and None not in deltas:
            step = self.phi([delta for delta in deltas if delta is not None], loop)
        self.known[loop] = step
        return step

    def width(self, value: int, loop: int) -> int:
        """Bits of the sums that a value is on all paths that change the LOOP node; 0: it is none, or they differ."""
        node = self.graph.nodes[value]
        if node.op is not Op.PHI:
            return node.width if node.op in (Op.ADD, Op.SUB) else 0
        sums = (self.graph.nodes[arg] for arg in node.args if arg != loop)
        widths = {each.width if each.op in (Op.ADD, Op.SUB) else 0 for each in sums}
        return widths.pop() if len(widths) == 1 else 0

    def predicates(self, condition: int) -> dict[int, bool]:
        """Predicates that hold under a path condition."""
        found = {}
        while condition:
            entry = self.graph.template.conditions[condition]
            if entry.predicate >= 0:
                found[entry.predicate] = entry.truth
            condition = entry.parent
        return found

    def chosen(self, value: int, loop: int) -> int:
        """A value, or the side of it that a predicate chooses whose value is known on a back edge of this LOOP node."""
        node = self.graph.nodes[value]
        while node.op is Op.SELECT and node.args[0] in self.implied:
            self.conditional.add(loop)
            value = node.args[1 if self.implied[node.args[0]] else 2]
            node = self.graph.nodes[value]
        return value

    def phi(self, values: list[int], loop: int) -> int:
        if len(set(values)) == 1:
            return values[0]
        return self.graph.fresh(
            Node(Op.PHI, tuple(values), block=self.graph.nodes[loop].block, conditions=(0,) * len(values))
        )

    def delta(self, value: int, loop: int, width: int, depth: int) -> int | None:
        """value minus the LOOP node modulo 2^width, when value is that plus something else."""
        value = self.chosen(value, loop)
        if value == loop:
            return self.graph.number(0)
        if value in self.found:
            return self.found[value]
        self.visits += 1
        if depth == 0 or self.visits > _MOST_VISITS:
            return None
        found = self.found[value] = self.delta_of(value, loop, width, depth)
        return found

    def delta_of(self, value: int, loop: int, width: int, depth: int) -> int | None:
        """`delta` of another value than the LOOP node itself."""
        node = self.graph.nodes[value]
        if node.op in (Op.ADD, Op.SUB, Op.CONVERT) and node.width < width:
            return None
        if node.op is Op.CONVERT:
            return self.delta(node.args[0], loop, width, depth - 1)
        if node.op is Op.ADD:
            for one, other in (node.args, node.args[::-1]):
                inner = self.delta(one, loop, width, depth - 1)
                if inner is not None:
                    return self.sum(node, Op.ADD, inner, self.chosen(other, loop))
        elif node.op is Op.SUB:
            inner = self.delta(node.args[0], loop, width, depth - 1)
            if inner is not None:
                return self.sum(node, Op.SUB, inner, self.chosen(node.args[1], loop))
        elif node.op is Op.SELECT:
            return self.all_of(node.args[1:], loop, width, depth)
        elif node.op is Op.PHI:
            return self.all_of(node.args, loop, width, depth)
        elif node.op is Op.LOOP and node.number == self.graph.nodes[loop].number:
            return self.lagging(value, loop)
        elif node.op is Op.LOOP:
            return self.through(value, loop, width, depth)
        return None

    def sum(self, node: Node, op: Op, inner: int, other: int) -> int:
        if self.graph.number_of(inner) == 0 and op is Op.ADD:
            return other
        return self.graph.add(node._replace(op=op, args=(inner, other)))

    def all_of(self, values: tuple[int, ...], loop: int, width: int, depth: int) -> int | None:
        deltas = [self.delta(value, loop, width, depth - 1) for value in values]
        return None if None in deltas else self.phi([delta for delta in deltas if delta is not None], loop)

    def lagging(self, value: int, loop: int) -> int | None:
        """The LOOP node takes over what another of the loop had: they stay apart when they begin a step apart."""
        step = self.step(value)
        starts = self.operands[value][0], self.operands[loop][0]
        numbers = [None if each is None else self.graph.number_of(each) for each in (step, *starts)]
        if self.entries(loop) > 1 or None in numbers:
            return None
        distance, first, second = numbers
        return step if first is not None and second is not None and first - second == distance else None

    def through(self, value: int, loop: int, width: int, depth: int) -> int | None:
        """A value that an inner loop changed: what it began with, and its step as often as that loop ran."""
        entries = self.entries(value)
        start = self.all_of(self.operands[value][:entries], loop, width, depth)
        step = self.step(value)
        if start is None or step is None:
            return None
        node = self.graph.nodes[value]
        count = self.graph.add(Node(Op.INDUCTION, number=node.number, block=node.block))
        times = self.graph.add(Node(Op.MUL, (count, step), 64, block=node.block))
        return self.sum(node._replace(op=Op.ADD, width=64, number=0), Op.ADD, start, times)
