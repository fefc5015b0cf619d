"""Combines sums and products of words into 64-bit ones.

A sum of words with its carries is the sum of the pairs, however low and high words are matched, if all carries of the
lower sum go into the upper one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from ptxtools.access.template import Op
from ptxtools.machine.maker import CARRY, SUM, Maker
from ptxtools.machine.words import Words


class Sums(Words, ABC):
    """Rules for pairs that are sums or products; each gives the 64-bit value, or None when it does not fit."""

    @abstractmethod
    def whole(self, low: int, high: int, make: Maker) -> int:
        """The 64-bit value of two words."""

    def summed(self, low: int, high: int, make: Maker) -> int | None:
        """Sums whose lower one carries into the upper one."""
        upper = self.scratch(high, SUM)
        if upper is None:
            return None
        highs, inverted, carries = self.parts(upper)
        found = None if inverted else self.lower_terms(self.carrying(low, carries), carries)
        if found is None:
            return None
        plus, minus = found
        total = make.number(0)
        for term, partner in self.matched(minus, self.opposites(highs, len(minus), make), make):
            total = make.subtract(total, self.whole(term, partner, make), 64)
        for term, partner in self.gathered(self.matched(plus, highs, make), make):
            total = make.add(total, self.whole(term, partner, make), 64)
        return total

    def gathered(self, pairs: list[tuple[int, int]], make: Maker) -> list[tuple[int, int]]:
        """Upper words that are left over, or are what a product lacks, with the product's upper word."""
        zero = make.number(0)
        for position, (low, high) in enumerate(pairs):
            value, part = self.half(low)
            if part or self.half(high) != (value, 1) or self.factors(value)[0] is None:
                continue
            found = []
            for number, (below, above) in enumerate(pairs):
                is_alone = self.graph.number_of(below) == 0
                if number != position and (is_alone or self.product(value, self.terms(above), make) is not None):
                    high = make.add(high, above)
                    above = zero
                found.append((below, above))
            found[position] = (low, high)
            return found
        return pairs

    def lower_terms(self, low: int, carries: Sequence[int]) -> tuple[list[int], list[int]] | None:
        """What a lower sum adds and subtracts; None unless these are all its carries.

        A sum among its terms that carries into the same upper word counts with its own terms.
        """
        plus: list[int] = []
        minus: list[int] = []
        left = {each: self.carried(each) for each in carries}
        pending = [low] if len(left) == len(carries) else []
        while pending:
            total = pending.pop()
            node = self.scratch(total, SUM)
            terms, negated, into = self.parts(node) if node is not None else ([], 0, [-1])
            own = [each for each, source in left.items() if source == total]
            most = max(len(terms) - 1, negated.bit_count())  # -b is ~b + 1: with a one carry, with a and -c two
            if into or len(terms) > 3 or not self.all_carries(total, own, most):
                return None
            left = {each: source for each, source in left.items() if source != total}
            for number, term in enumerate(terms):
                if negated >> number & 1:
                    minus.append(term)
                else:
                    (pending if term in left.values() and term not in pending else plus).append(term)
        return None if left or not plus + minus else (plus, minus)

    def carrying(self, low: int, carries: Sequence[int]) -> int:
        """The sum that a carry comes from, when the word is that sum, made a second time without a carry."""
        whole = self.carried(carries[0]) if carries else -1
        if whole < 0 or self.scratch(low, SUM) is not None:
            return low
        terms, negated, into = self.parts(self.node(whole))
        added = [each for number, term in enumerate(terms) for each in self.terms(term, bool(negated >> number & 1))]
        return whole if not into and self.total(added) == self.total(self.terms(low)) else low

    def all_carries(self, low: int, carries: Sequence[int], most: int) -> bool:
        """Whether these are all carries that a sum can have."""
        found = set()
        for index in carries:
            node = self.scratch(index, CARRY)
            if node is None or self.graph.resolve(node.args[0]) != low:
                return False
            found.add(node.number)
        return len(found) == len(carries) == most

    def opposites(self, words: list[int], count: int, make: Maker) -> list[int]:
        """Takes so many words away, those that are inverted first and then numbers; and gives them inverted."""
        found: list[int] = []
        for op in (Op.NOT, Op.NUMBER):
            for word in [each for each in words if self.node(each).op is op]:
                if len(found) < count:
                    words.remove(word)
                    found.append(self.inverse(word, make))
        return found + [make.number(-1)] * (count - len(found))

    def inverse(self, index: int, make: Maker) -> int:
        node = self.node(index)
        return node.args[0] if node.op is Op.NOT else make.inverse(index)

    def matched(self, lows: list[int], highs: list[int], make: Maker) -> list[tuple[int, int]]:
        """Words that belong together; those left over are with 0."""
        lows, highs, found = list(lows), list(highs), []
        while lows and highs:
            low, high = max(((a, b) for a in lows for b in highs), key=lambda pair: self.closeness(*pair))
            lows.remove(low)
            highs.remove(high)
            found.append((low, high))
        zero = make.number(0)
        return [*found, *((low, zero) for low in lows), *((zero, high) for high in highs)]

    def added_above(self, low: int, high: int, make: Maker) -> int | None:
        """The lower word of a value, and its upper word with something added."""
        value, part = self.half(low)
        if value < 0 or part:
            return None
        terms = self.terms(high)
        own = next((each for each in terms if self.half(each[0]) == (value, 1) and not each[1]), None)
        if own is None:
            return None
        terms.remove(own)
        product = self.product(value, terms, make)
        if product is not None:
            return product
        total = make.number(0)
        for term, minus in terms:
            total = make.subtract(total, term) if minus else make.add(total, term)
        return make.add(value, make.shift_left(total, 32, 64), 64)

    def product(self, value: int, terms: Sequence[tuple[int, bool]], make: Maker) -> int | None:
        """a * b of 64 bits: al * bl in full, and ah * bl and al * bh in the upper word."""
        node, addend = self.factors(value)
        if node is None:
            return None
        a, b = (self.graph.resolve(arg) for arg in node.args)
        above = {a: make.number(0), b: make.number(0)}
        for term, minus in terms:
            factors = self.node(term)
            if minus or factors.op is not Op.MUL:
                return None
            x, y = (self.graph.resolve(arg) for arg in factors.args)
            for one, other in ((x, y), (y, x)):
                partner = next((each for each in (a, b) if self.same(each, one)), None)
                if partner is not None:
                    opposite = b if partner == a else a
                    above[opposite] = make.add(above[opposite], other)
                    break
            else:
                return None
        sides = [self.whole(each, above[each], make) for each in (a, b)]
        total = make.multiply(sides[0], sides[1], 64)
        return total if addend is None else make.add(total, addend, 64)
