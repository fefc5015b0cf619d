"""Forms of nodes that compute."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from math import inf
from typing import TYPE_CHECKING

from ptxtools.access.template import Node, Op
from ptxtools.ranges.form import Bound, Form, Symbol, fact

if TYPE_CHECKING:
    from ptxtools.ranges.evaluate import Evaluation


class Arithmetic:
    """`value` gives a form congruent to the node's value modulo 2 to its width."""

    def __init__(self, evaluation: Evaluation) -> None:
        self._of = evaluation
        self._makers: dict[Op, Callable[[Node], Form]] = {
            Op.ADD: self._add,
            Op.SUB: self._sub,
            Op.MUL: self._mul,
            Op.MUL_WIDE: self._mul_wide,
            Op.MUL_HIGH: self._mul_high,
            Op.SHL: self._shl,
            Op.SHR: self._shr,
            Op.AND: self._and,
            Op.OR: self._or,
            Op.XOR: self._xor,
            Op.NOT: self._not,
            Op.NEG: self._neg,
            Op.ABS: self._abs,
            Op.MIN: self._min,
            Op.MAX: self._max,
            Op.DIV: self._div,
            Op.REM: self._rem,
            Op.CONVERT: self._convert,
            Op.EXTRACT: self._extract,
            Op.PACK: self._pack,
            Op.SELECT: self._select,
            Op.JOIN: self._join,
        }

    def value(self, node: Node) -> Form:
        """Errors: KeyError when the node is a predicate."""
        return self._makers[node.op](node)

    # Helpers.

    def _arg(self, node: Node, position: int) -> Form:
        return self._of.value(node.args[position])

    def _seen(self, node: Node, position: int) -> Form:
        """The operand as the number that the instruction sees."""
        return self._of.viewed(node.args[position], node.width, node.signed, node.context)

    def _number(self, form: Form) -> int | None:
        return self._of.symbols.number(form)

    def _small(self, value: int, width: int) -> int:
        """The number nearest to 0 that is congruent."""
        value &= (1 << width) - 1
        return value - (1 << width) if value >> (width - 1) else value

    def _between(self, low: Bound, high: Bound, *sources: Form, mask: int | None = None) -> Form:
        """A new symbol with these bounds that varies where its sources do."""
        loops = self._of.symbols.loops(sources)
        return self._of.symbols.add(Symbol(low, high, loops, mask))

    def _bounds(self, form: Form) -> tuple[Bound, Bound]:
        return self._of.symbols.low(form), self._of.symbols.high(form)

    # Linear operations. They need no view: congruence passes through them.

    def _add(self, node: Node) -> Form:
        a, b = self._arg(node, 0), self._arg(node, 1)
        return self._plain(a, node.width).plus(self._plain(b, node.width))

    def _plain(self, form: Form, width: int) -> Form:
        """A number as the one nearest to 0."""
        return form if form.terms or not width else Form(self._small(form.constant, width))

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
        if high >= node.width or bottom < 0 or top == inf:
            return self._between(-inf, inf, value, amount)
        return self._between(int(bottom) << int(low), int(top) << int(high), value, amount)

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

    # Bits.

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

    # Numbers.

    def _convert(self, node: Node) -> Form:
        return self._seen(node, 0)

    def _abs(self, node: Node) -> Form:
        value = self._of.viewed(node.args[0], node.width, True, node.context)
        low, high = self._bounds(value)
        if low >= 0:
            return value
        return self._between(0, max(-low, high), value)

    def _min(self, node: Node) -> Form:
        a, b = self._seen(node, 0), self._seen(node, 1)
        (low, high), (bottom, top) = self._bounds(a), self._bounds(b)
        if high <= bottom:
            return a
        if top <= low:
            return b
        result = self._between(min(low, bottom), min(high, top), a, b)
        return self._related(result, (result.plus(a, -1), result.plus(b, -1)))

    def _max(self, node: Node) -> Form:
        a, b = self._seen(node, 0), self._seen(node, 1)
        (low, high), (bottom, top) = self._bounds(a), self._bounds(b)
        if low >= top:
            return a
        if bottom >= high:
            return b
        result = self._between(max(low, bottom), max(high, top), a, b)
        return self._related(result, (a.plus(result, -1), b.plus(result, -1)))

    def _related(self, form: Form, facts: tuple[Form, ...]) -> Form:
        for number in form.terms:
            self._of.symbols.all[number].facts += facts
        return form

    # Choices.

    def _select(self, node: Node) -> Form:
        options: list[tuple[Form, list[Form]]] = []
        before = self._of.facts(node.context)
        for truth, arg in ((True, node.args[1]), (False, node.args[2])):
            facts = self._of.predicates.facts(node.args[0], truth)
            if before is None or facts is None or self._of.impossible(facts, before):
                continue
            options.append((self._of.value(arg), before + facts))
        return self._one_of(node, options)

    def _join(self, node: Node) -> Form:
        options, ways = [], []
        for arg, context in zip(node.args, node.contexts, strict=True):
            facts = self._of.facts(context)
            if facts is not None:
                options.append((self._of.value(arg), facts))
                ways.append(context)
        place, forms = (node.block, tuple(ways)), [form for form, _ in options]
        together = self._of.meetings.find(place, forms)
        if together is None:
            result = self._one_of(node, options)
            self._of.meetings.add(place, forms, result)
            return result
        result, known = together
        low, high = self._bounds_of(options)
        limits = [result.moved(-int(high))] if high != inf else []
        limits += [result.times(-1).moved(int(low))] if low != -inf else []
        self._related(known, tuple(limits))
        return result

    def _bounds_of(self, options: list[tuple[Form, list[Form]]]) -> tuple[Bound, Bound]:
        low = min(self._of.lower(form, facts) for form, facts in options)
        return low, max(self._of.upper(form, facts) for form, facts in options)

    def _one_of(self, node: Node, options: list[tuple[Form, list[Form]]]) -> Form:
        if not options:
            return Form(0)
        first = options[0][0]
        if all(form.key == first.key for form, _ in options) and not self._is_count(first, node):
            return first
        low, high = self._bounds_of(options)
        if low == high == self._of.upper(first, []) == self._of.lower(first, []):
            return first  # pointers to one place: an address keeps what it begins with
        loops = self._of.symbols.loops(form for form, _ in options) | self._of.template.block_loops[node.block]
        loaded = any(self._of.symbols.all[n].loaded for form, _ in options for n in form.terms)
        choices = self._pointers(options)
        result = self._of.symbols.add(Symbol(low, high, loops, loaded=loaded, choices=choices))
        if result.terms and not choices:
            self._related(result, (*self._apart(result, options), *self._common(result, options, node)))
        return result

    def _is_count(self, form: Form, node: Node) -> bool:
        """Whether a way to a meeting brings what a loop before it counted, and a number: its end is known there."""
        if node.op is not Op.JOIN or list(form.terms.values()) != [1]:
            return False
        return not self._of.symbols.loops([form]) <= self._of.template.block_loops[node.block]

    def _apart(self, result: Form, options: list[tuple[Form, list[Form]]]) -> tuple[Form, ...]:
        """How far the result can be from the first option, when that is bounded."""
        first = options[0][0]
        low: Bound = 0
        high: Bound = 0
        for form, facts in options[1:]:
            difference = form.plus(first, -1)
            low, high = min(low, self._of.lower(difference, facts)), max(high, self._of.upper(difference, facts))
        found = []
        if high != inf:
            found.append(result.plus(first, -1).moved(-int(high)))
        if low != -inf:
            found.append(first.plus(result, -1).moved(int(low)))
        return tuple(found)

    def _common(self, result: Form, options: list[tuple[Form, list[Form]]], node: Node) -> Iterator[Form]:
        """What is known of an option that is what a loop counted, as far as it holds of the others, too.

        Facts with something else that varies in that loop say nothing of the others.
        """
        around = self._of.template.block_loops[node.block]
        for position, (form, facts) in enumerate(options):
            if not self._is_count(form, node):
                continue
            (own,) = form.terms
            others = options[:position] + options[position + 1 :]
            for each in (*facts, *self._of.symbols.all[own].facts):
                factor = each.terms.get(own, 0)
                rest = each.plus(Form(0, {own: factor}), -1)
                if factor == 0 or not self._of.symbols.loops([rest]) <= around:
                    continue
                rest = rest.moved(-factor * form.constant)
                above = max((0, *(self._of.upper(rest.plus(other, factor), known) for other, known in others)))
                if above != inf:
                    yield fact(rest.plus(result, factor).moved(-int(above)))

    def _pointers(self, options: list[tuple[Form, list[Form]]]) -> tuple[Form, ...]:
        """The options, when they begin with different pointers."""
        symbols = self._of.symbols.all
        bases = [
            frozenset(n for n in form.terms if symbols[n].slot is not None or symbols[n].variable or symbols[n].choices)
            for form, _ in options
        ]
        return tuple(form for form, _ in options) if len(set(bases)) > 1 else ()


def _times(a: Bound, b: Bound) -> Bound:
    return 0 if a == 0 or b == 0 else a * b
