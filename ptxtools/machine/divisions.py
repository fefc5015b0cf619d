"""Finds divisions of unsigned words, for which GPUs have no instruction.

Compilers take the reciprocal of the divisor b as a float, rounded up and then lowered, as an estimate x of 2^32 / b;
improve it by x + x * (-x * b) / 2^32; and take q = x * a / 2^32 as the first quotient. It is at most two too small:
twice, when a - q * b is b or more, q becomes q + 1. All these steps must be there for a value to be taken as a / b, or
as the remainder. What they have in common may be computed more than once (`Numbering`): the divisor's magnitude is
where the estimate of it is moved out of a loop. The quotient is then one of the nodes that its own steps have.

Divided by 0, Op.DIV and Op.REM are any value. So what is chosen between a quotient and something else, by whether the
divisor is 0, is the quotient.
"""

from __future__ import annotations

from ptxtools.access.graph import Graph
from ptxtools.access.template import Node, Op
from ptxtools.machine.finder import Finder
from ptxtools.machine.maker import ESTIMATE

_DIVISIONS = {Op.DIV, Op.REM}


def find_divisions(graph: Graph) -> None:
    """Rewrites quotients and remainders to DIV and REM."""
    finder = _Finder(graph)
    found: dict[int, tuple[Op, tuple[int, int]]] = {}
    for index, node in enumerate(graph.nodes):
        if node.op is Op.SELECT:
            division = finder.quotient(index)
            if division is not None:
                found[index] = (Op.DIV, division)
            else:
                division = finder.remainder(index)
                if division is not None:
                    found[index] = (Op.REM, division)
    finder.rewrite(found, signed=False)
    for index, node in enumerate(graph.nodes):
        if node.op is Op.SELECT and graph.resolve(index) == index and node.args:
            quotient = finder.besides_zero(index)
            if quotient is not None:
                graph.substitute(index, quotient)


class _Finder(Finder):
    def args(self, node: Node) -> list[int]:
        return [self.graph.resolve(arg) for arg in node.args]

    def quotient(self, index: int) -> tuple[int, int] | None:
        """(a, b) of a quotient that was corrected twice."""
        second = self.corrected(index)
        first = None if second is None else self.corrected(second[0])
        if second is None or first is None:
            return None
        division = self.first_quotient(first[0])
        if division is None:
            return None
        a, b = division
        rest = first[1]  # what the first correction looked at
        lowered = self.lowered(second[1])
        if lowered is None or not self.is_rest(rest, a, first[0], b):
            return None
        is_one = self.same((first[2], b), (second[2], b), (lowered[0], rest), (lowered[1], b))
        return (a, second[2]) if is_one else None

    def besides_zero(self, index: int) -> int | None:
        """The division in a choice between it, where the divisor is not 0, and something else."""
        node = self.node(index)
        predicate, is_true = self.graph.plain(node.args[0])
        test = self.graph.nodes[predicate]
        if test.op is not Op.COMPARE or test.name not in ("eq", "ne"):
            return None
        division = self.args(node)[1 if is_true is (test.name == "ne") else 2]
        divided, tested = self.node(division), self.args(test)
        if divided.op not in _DIVISIONS or divided.width != test.width:
            return None
        divisor = divided.args[1]
        is_tested = any(
            self.same((value, divisor)) and self.graph.number_of(zero) == 0 for value, zero in (tested, tested[::-1])
        )
        return division if is_tested else None

    def remainder(self, index: int) -> tuple[int, int] | None:
        """(a, b) of a remainder that was lowered twice."""
        second = self.lowered(index)
        first = None if second is None else self.lowered(second[0])
        if second is None or first is None or not self.same((first[1], second[1])):
            return None
        rest, b = first
        node = self.node(rest)
        if node.op not in (Op.ADD, Op.SUB):
            return None
        for a in self.args(node):
            for product in self.args(node):
                for factor in self.args(self.node(product)) if self.node(product).op is Op.MUL else ():
                    inner = self.node(factor)
                    q = self.graph.resolve(inner.args[0]) if inner.op is Op.NEG else factor
                    division = self.first_quotient(q)
                    if division and self.same((division[0], a), (division[1], b)) and self.is_rest(rest, a, q, b):
                        return a, b
        return None

    def corrected(self, index: int) -> tuple[int, int, int] | None:
        """(q, r, b) of: q + 1 if r >= b, else q."""
        chosen = self.choice(index)
        if chosen is None:
            return None
        more, same, r, b = chosen
        node = self.node(more)
        if node.op is not Op.ADD or self.graph.number_of(node.args[1]) != 1:
            return None
        return (same, r, b) if self.same((self.args(node)[0], same)) else None

    def lowered(self, index: int) -> tuple[int, int] | None:
        """(r, b) of: r - b if r >= b, else r."""
        chosen = self.choice(index)
        if chosen is None:
            return None
        less, same, r, b = chosen
        node = self.node(less)
        if node.op is not Op.SUB:
            return None
        one, other = self.args(node)
        return (r, b) if self.same((same, r), (one, r), (other, b)) else None

    def choice(self, index: int) -> tuple[int, int, int, int] | None:
        """(x, y, r, b) of: x if r >= b, else y; r and b unsigned."""
        node = self.node(index)
        if node.op is not Op.SELECT:
            return None
        predicate, is_true = self.graph.plain(node.args[0])
        test, (x, y) = self.graph.nodes[predicate], self.args(node)[1:] if is_true else self.args(node)[:0:-1]
        if test.op is not Op.COMPARE or test.width != 32 or test.signed:
            return None
        one, other = self.args(test)
        return {
            "ge": (x, y, one, other),
            "lt": (y, x, one, other),
            "gt": (y, x, other, one),
            "le": (x, y, other, one),
        }.get(test.name)

    def is_rest(self, index: int, a: int, q: int, b: int) -> bool:
        """Whether a value is a - q * b."""
        node = self.node(index)
        if node.op is Op.SUB:
            return self.same((self.args(node)[0], a)) and self.is_product(node.args[1], q, b)
        if node.op is not Op.ADD:
            return False
        one, other = self.args(node)
        return any(
            self.same((added, a)) and self.is_negative_product(taken, q, b)
            for added, taken in ((one, other), (other, one))
        )

    def is_product(self, index: int, q: int, b: int) -> bool:
        node = self.node(index)
        return node.op is Op.MUL and self.are(self.args(node), q, b)

    def are(self, factors: list[int], q: int, b: int) -> bool:
        """Whether two factors are these, in any order."""
        one, other = factors
        return self.same((one, q), (other, b)) or self.same((one, b), (other, q))

    def is_negative_product(self, index: int, q: int, b: int) -> bool:
        """Whether a value is -q * b or q * -b."""
        node = self.node(index)
        if node.op is Op.NEG:
            return self.is_product(node.args[0], q, b)
        if node.op is not Op.MUL:
            return False
        for factor, inverted in (self.args(node), self.args(node)[::-1]):
            inner = self.node(inverted)
            if inner.op is Op.NEG and self.are([factor, self.args(inner)[0]], q, b):
                return True
        return False

    def first_quotient(self, index: int) -> tuple[int, int] | None:
        """(a, b) of the upper word of a and the improved estimate of 2^32 / b."""
        product = self.upper(index)
        if product is None or product.op is not Op.MUL_WIDE or product.signed:
            return None
        one, other = self.args(product)
        for estimate, a in ((one, other), (other, one)):
            b = self.improved(estimate)
            if b is not None:
                return a, b
        return None

    def improved(self, index: int) -> int | None:
        """b of: the upper word of x * (-x * b) + x * 2^32."""
        total = self.upper(index)
        if total is None or total.op is not Op.ADD or total.width != 64:
            return None
        for one, other in (self.args(total), self.args(total)[::-1]):
            product, pair = self.node(one), self.node(other)
            if product.op is not Op.MUL_WIDE or product.signed or pair.op is not Op.PACK:
                continue
            low, x = self.args(pair)
            estimate = self.node(x)
            if self.graph.number_of(low) != 0 or estimate.op is not Op.UNKNOWN or estimate.name != ESTIMATE:
                continue
            b = self.graph.resolve(estimate.args[0])
            factors = self.args(product)
            for factor, error in (factors, factors[::-1]):
                if self.same((factor, x)) and self.is_negative_product(error, x, b):
                    return b
        return None

    def upper(self, index: int) -> Node | None:
        """The value of which this is the upper word."""
        node = self.node(index)
        is_upper = node.op is Op.EXTRACT and node.width == 64 and self.graph.number_of(node.args[1]) == 32
        return self.node(node.args[0]) if is_upper else None
