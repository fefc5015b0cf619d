"""Forms of nodes that look at bits."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING

from ptxtools.access.template import Node, Op
from ptxtools.ranges.form import Form
from ptxtools.ranges.operations import Operations

if TYPE_CHECKING:
    from ptxtools.ranges.evaluate import Evaluation


class Bits(Operations):
    """Masks, bits of two values, fields of bits."""

    def __init__(self, evaluation: Evaluation) -> None:
        super().__init__(evaluation)
        self.makers = {
            Op.AND: self._and,
            Op.OR: self._or,
            Op.XOR: self._xor,
            Op.EXTRACT: self._extract,
            Op.PACK: self._pack,
        }

    def _and(self, node: Node) -> Form:
        a, b = self._arg(node, 0), self._arg(node, 1)
        for one, other in ((a, b), (b, a)):
            number = self._number(other)
            if number is not None:
                return self._masked(node, one, number & ((1 << node.width) - 1))
        a, b = self._seen(node, 0), self._seen(node, 1)
        return self._between(0, min(self._bounds(a)[1], self._bounds(b)[1]), a, b)

    def _masked(self, node: Node, form: Form, mask: int) -> Form:
        if mask == 0:
            return Form(0)
        number = self._number(form)
        if number is not None and not form.terms:
            return Form(number & mask)
        bits = self._of.symbols.mask(form)
        if bits is not None and bits >> node.width == 0:
            if bits & ~mask == 0:
                return form
            mask &= bits
            if mask == 0:
                return Form(0)
        divide = self._of.division
        low, full = mask & -mask, (1 << node.width) - 1
        if mask == full & ~(low - 1):
            return form.plus(divide.remainder(form, low), -1)
        if bits is not None and (bits & ~mask) < low and bits >> node.width == 0:
            return form.plus(divide.remainder(form, low), -1)  # all that is cut off lies below
        count = (mask // low) & (mask // low + 1)
        if count == 0:
            return divide.remainder(divide.quotient(form, low), mask // low + 1).times(low)
        if number is not None:
            return Form(number & mask)
        return self._between(0, mask, form, mask=mask)

    def _or(self, node: Node) -> Form:
        return self._combined(node, lambda a, b: a | b, keeps=True)

    def _xor(self, node: Node) -> Form:
        return self._combined(node, lambda a, b: a ^ b, keeps=False)

    def _combined(self, node: Node, exact: Callable[[int, int], int], keeps: bool) -> Form:
        a, b = self._arg(node, 0), self._arg(node, 1)
        full = (1 << node.width) - 1
        x, y = self._number(a), self._number(b)
        if x is not None and y is not None:
            return Form(exact(x & full, y & full))
        if not keeps and full in (x if x is None else x & full, y if y is None else y & full):
            return (b if x is not None else a).times(-1).moved(-1)
        for one, number in ((a, y), (b, x)):
            # A number's low bits can fill what the other is a multiple of, whatever its sign.
            if number is not None and self._disjoint_low(one, number & full):
                return one.plus(Form(number & full))
        bits, more = self._of.symbols.mask(a), self._of.symbols.mask(b)
        if bits is None or more is None or (bits | more) >> node.width:
            a, b = self._seen(node, 0), self._seen(node, 1)
            bits, more = self._proved_mask(a, node.context), self._proved_mask(b, node.context)
        if bits is None or more is None or (bits | more) >> node.width:
            return self._between(0, full, a, b)
        if bits & more == 0:
            return a.plus(b)
        low = max(self._bounds(a)[0], self._bounds(b)[0]) if keeps else 0
        result = self._between(low, (1 << (bits | more).bit_length()) - 1, a, b, mask=bits | more)
        for number in result.terms:
            self._of.symbols.all[number].facts.append(result.plus(a, -1).plus(b, -1))
        return result

    def _proved_mask(self, form: Form, context: int) -> int | None:
        """The bits that may be set in a value that facts keep from being negative; None when not known."""
        bits = self._of.symbols.mask(form)
        facts = None if bits is not None else self._of.facts(context)
        if facts is None:
            return bits
        return self._of.symbols.mask_between(form, self._of.lower(form, facts), self._of.upper(form, facts))

    def _disjoint_low(self, form: Form, number: int) -> bool:
        """Whether the form is a multiple of a power of two above the number."""
        unit = 1 << number.bit_length()
        return form.constant % unit == 0 and all(c % unit == 0 for c in form.terms.values())

    def _extract(self, node: Node) -> Form:
        first, count = self._number(self._arg(node, 1)), self._number(self._arg(node, 2))
        value = self._arg(node, 0)
        if first is None or count is None or count > node.width:
            return self._between(-inf, inf, value)
        first, count = first & 255, count & 255
        if count == 0 or first >= node.width:
            return self._between(-inf, inf, value) if node.signed else Form(0)
        if first + count > node.width:
            if node.signed:
                return self._between(-inf, inf, value)
            count = node.width - first
        divide = self._of.division
        part = divide.remainder(divide.quotient(value, 1 << first), 1 << count)
        if node.signed:
            return self._of.view(part, count, True, node.context)
        return part

    def _pack(self, node: Node) -> Form:
        total = Form(0)
        for position, arg in enumerate(node.args):
            part = self._of.viewed(arg, node.width, False, node.context)
            total = total.plus(part, 1 << (position * node.width))
        return total
