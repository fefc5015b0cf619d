"""Divisions of signed words: of magnitudes, with the quotient's or the remainder's sign put back.

|a| / |b|, made negative where a and b differ in sign, is a / b rounded towards 0. |a| % |b|, made negative where a is,
is a % b. That holds modulo 2^32 for any a and any b but 0, of which neither division says anything. Apart, magnitudes
reach one further than what is divided: to that of the least number.
"""

from __future__ import annotations

from ptxtools.access.graph import Graph
from ptxtools.access.template import Node, Op
from ptxtools.machine.finder import Finder


def find_signed(graph: Graph) -> None:
    """Rewrites signed quotients and remainders to DIV and REM; those of magnitudes have been found before."""
    finder = _Finder(graph)
    found = {}
    for index, node in enumerate(graph.nodes):
        if node.op is Op.SELECT:
            division = finder.division(node)
            if division is not None:
                found[index] = division
    finder.rewrite(found, signed=True)


class _Finder(Finder):
    def division(self, node: Node) -> tuple[Op, tuple[int, int]] | None:
        """DIV or REM and (a, b) of a choice between what magnitudes give and its opposite."""
        predicate, plus, minus = node.args
        sign, is_plus = self.sign(predicate)
        if not is_plus:
            plus, minus = minus, plus
        opposite, magnitude = self.node(minus), self.node(plus)
        if sign < 0 or opposite.op is not Op.NEG or not self.same((opposite.args[0], plus)):
            return None
        if magnitude.op not in (Op.DIV, Op.REM) or magnitude.signed or magnitude.width != 32:
            return None
        a, b = (self.magnitude_of(arg) for arg in magnitude.args)
        if a < 0 or b < 0:
            return None
        if magnitude.op is Op.DIV:
            return (Op.DIV, (a, b)) if self.is_exclusive(sign, a, b) else None
        return (Op.REM, (a, b)) if self.same((sign, a)) else None

    def sign(self, predicate: int) -> tuple[int, bool]:
        """The word whose sign a predicate tells, and whether the predicate says that it is not negative; -1 if none."""
        predicate, truth = self.graph.plain(predicate)
        test = self.graph.nodes[predicate]
        is_sign = test.op is Op.COMPARE and test.width == 32 and test.signed and test.name in ("ge", "lt")
        if not is_sign or self.graph.number_of(test.args[1]) != 0:
            return -1, truth
        return self.graph.resolve(test.args[0]), (test.name == "ge") == truth

    def magnitude_of(self, index: int) -> int:
        node = self.node(index)
        return self.graph.resolve(node.args[0]) if node.op is Op.ABS and node.width == 32 else -1

    def is_exclusive(self, index: int, a: int, b: int) -> bool:
        """Whether a value is a ^ b."""
        node = self.node(index)
        if node.op is not Op.XOR or node.width != 32:
            return False
        one, other = node.args
        return (self.same((one, a)) and self.same((other, b))) or (self.same((one, b)) and self.same((other, a)))
