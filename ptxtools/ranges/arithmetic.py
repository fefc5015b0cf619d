"""Forms of nodes that compute with numbers."""

from __future__ import annotations

from itertools import product
from math import inf
from typing import TYPE_CHECKING

from ptxtools.access.template import Node, Op
from ptxtools.ranges.form import Bound, Form
from ptxtools.ranges.operations import Operations

if TYPE_CHECKING:
    from ptxtools.ranges.evaluate import Evaluation


class Arithmetic(Operations):
    """Sums, products, shifts, divisions, conversions."""

    def __init__(self, evaluation: Evaluation) -> None:
        super().__init__(evaluation)
        self.makers = {
            Op.ADD: self._add,
            Op.SUB: self._sub,
            Op.NEG: self._neg,
            Op.NOT: self._not,
            Op.MUL: self._mul,
            Op.MUL_WIDE: self._mul_wide,
            Op.MUL_HIGH: self._mul_high,
            Op.SHL: self._shl,
            Op.SHR: self._shr,
            Op.DIV: self._div,
            Op.REM: self._rem,
            Op.CONVERT: self._convert,
            Op.ABS: self._abs,
        }

    # Linear operations. They need no view: congruence passes through them.

    def _add(self, node: Node) -> Form:
        a, b = self._arg(node, 0), self._arg(node, 1)
        return self._plain(a, node.width).plus(self._plain(b, node.width))

    def _plain(self, form: Form, width: int) -> Form:
        """A number as the one nearest to 0."""
        return form if form.terms or not width else Form(self._small(form.constant, width))

    def _small(self, value: int, width: int) -> int:
        """The number nearest to 0 that is congruent."""
        value &= (1 << width) - 1
        return value - (1 << width) if value >> (width - 1) else value

    def _sub(self, node: Node) -> Form:
        return self._arg(node, 0).plus(self._plain(self._arg(node, 1), node.width), -1)

    def _neg(self, node: Node) -> Form:
        return self._arg(node, 0).times(-1)

    def _not(self, node: Node) -> Form:
        return self._arg(node, 0).times(-1).moved(-1)

    def _mul(self, node: Node) -> Form:
        return self._product(node, self._arg(node, 0), self._arg(node, 1), wraps=True)

    def _mul_wide(self, node: Node) -> Form:
        return self._product(node, self._seen(node, 0), self._seen(node, 1), wraps=False)

    def _product(self, node: Node, a: Form, b: Form, wraps: bool) -> Form:
        for one, other in ((a, b), (b, a)):
            number = self._number(one)
            if number is not None:
                return other.times(self._small(number, node.width) if wraps else number)
        corners = [_times(x, y) for x, y in product(self._bounds(a), self._bounds(b))]
        return self._between(min(corners), max(corners), a, b)

    def _mul_high(self, node: Node) -> Form:
        a, b = self._seen(node, 0), self._seen(node, 1)
        return self._of.division.quotient(self._product(node, a, b, wraps=False), 1 << node.width)

    # Shifts and divisions.

    def _shl(self, node: Node) -> Form:
        amount = self._number(self._arg(node, 1))
        if amount is None:
            return self._shl_unknown(node)
        amount &= (1 << 32) - 1
        return self._arg(node, 0).times(1 << amount) if amount < node.width else Form(0)

    def _shl_unknown(self, node: Node) -> Form:
        value = self._seen(node, 0)
        amount = self._of.viewed(node.args[1], 32, False, node.context)
        low, high = self._bounds(amount)
        bottom, top = self._bounds(value)
        if not 0 <= high < node.width or bottom < 0 or top == inf:
            return self._between(-inf, inf, value, amount)
        return self._between(int(bottom) << int(max(low, 0)), int(top) << int(high), value, amount)

    def _shr(self, node: Node) -> Form:
        value = self._seen(node, 0)
        amount = self._of.viewed(node.args[1], 32, False, node.context)
        number = self._number(amount)
        if number is None:
            low, high = self._bounds(value)
            return self._between(min(0, low), max(0, high), value, amount)
        if number >= node.width and not node.signed:
            return Form(0)
        return self._quotient(value, 1 << min(number, node.width - 1))

    def _quotient(self, value: Form, divisor: int) -> Form:
        """Rounded down. Compilers divide by multiplying with a rounded reciprocal: that is undone where it is exact."""
        origin = self._of.division.origin(value)
        if origin is None:
            return self._of.division.quotient(value, divisor)
        before, first = origin
        total = first * divisor
        factor = before.content()
        if before.constant % factor == 0 and factor > 1 and total & (total - 1) == 0:
            plain = Form(before.constant // factor, {s: c // factor for s, c in before.terms.items()})
            low, high = self._bounds(plain)
            whole = -(-total // factor)
            if low >= 0 and high != inf and (factor * whole - total) * int(high) < total:
                return self._of.division.quotient(plain, whole)
        return self._of.division.quotient(value, divisor)

    def _div(self, node: Node) -> Form:
        a, b = self._seen(node, 0), self._seen(node, 1)
        low, high = self._bounds(a)
        number = self._number(b)
        if number is not None and number > 0 and low >= 0:
            return self._of.division.quotient(a, number)
        if number is not None and number > 0 and low != -inf and high != inf:
            return self._between(-(-int(low) // number), int(high) // number if high >= 0 else 0, a, b)
        if self._bounds(b)[0] <= 0 <= self._bounds(b)[1]:
            return self._between(-inf, inf, a, b)
        return self._between(min(low, -high), max(high, -low), a, b)

    def _rem(self, node: Node) -> Form:
        a, b = self._seen(node, 0), self._seen(node, 1)
        low, high = self._bounds(a)
        number = self._number(b)
        if number is not None and number > 0 and low >= 0:
            return self._of.division.remainder(a, number)
        largest = max(abs(bound) for bound in self._bounds(b))
        limit = max(largest - 1, 0)
        bottom = 0 if low >= 0 else -min(limit, -low)
        if self._bounds(b)[0] <= 0 <= self._bounds(b)[1]:
            return self._between(-inf, inf, a, b)
        return self._between(bottom, max(min(limit, high), 0), a, b)

    # Numbers.

    def _convert(self, node: Node) -> Form:
        return self._seen(node, 0)

    def _abs(self, node: Node) -> Form:
        value = self._of.viewed(node.args[0], node.width, True, node.context)
        low, high = self._bounds(value)
        if low >= 0:
            return value
        return self._between(0, max(-low, high), value)


def _times(a: Bound, b: Bound) -> Bound:
    return 0 if a == 0 or b == 0 else a * b
