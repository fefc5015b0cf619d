"""Makes 64-bit values of pairs of words, so that addresses get the form that PTX gives them.

Every rule is an identity modulo 2^64 over unsigned words: low + 2^32 * high. A sum of words with its carries, for
instance, is the sum of the pairs, however low and high words are matched, if all carries of the lower sum go into the
upper one. Pairs that no rule fits stay pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ptxtools.access.graph import Graph
from ptxtools.access.template import Node, Op
from ptxtools.machine.maker import CARRY, HIGH_OF_SHIFT, LOW_OF_SHIFT, SUM, Maker
from ptxtools.machine.numbering import Numbering

_WORD = (1 << 32) - 1
_DEPTH = 60
_STEPS = 100_000
_BITWISE = {Op.AND, Op.OR, Op.XOR}
_PURE = {Op.NUMBER, Op.PARAMETER, Op.SPECIAL, Op.SYMBOL}

Dominates = Callable[[int, int], bool]


def join(graph: Graph, dominates: Dominates) -> None:
    """Replaces the pairs of a graph. `dominates`: whether every way to the second block leads through the first."""
    pairs = Pairs(graph, dominates)
    index = 0
    while index < len(graph.nodes):  # rules may make further pairs
        node = graph.nodes[index]
        if node.op is Op.PACK and node.width == 32 and len(node.args) == 2:
            whole = pairs.whole(*node.args, Maker(graph, node.block, node.context))
            if whole != index:
                graph.substitute(index, whole)
        elif node.op is Op.UNKNOWN and node.name == LOW_OF_SHIFT:
            pairs.cut(index, node)
        index += 1
    pairs.replace_upper_sums()
    pairs.replace_words()


class Pairs:
    """`whole` is the 64-bit value of two words."""

    def __init__(self, graph: Graph, dominates: Dominates) -> None:
        self.graph, self.dominates = graph, dominates
        self.numbers = Numbering(graph)
        self.known: dict[tuple[int, int, int], int] = {}
        self.meetings: dict[tuple[int, int], int] = {}  # the same in every context
        self.depth = self.steps = 0
        self.rules = (
            self.of_halves,
            self.extended,
            self.summed,
            self.added_above,
            self.shifted,
            self.bitwise,
            self.chosen,
            self.met,
        )

    def node(self, index: int) -> Node:
        return self.graph.nodes[self.graph.resolve(index)]

    def whole(self, low: int, high: int, make: Maker) -> int:
        low, high = self.graph.resolve(low), self.graph.resolve(high)
        key = (low, high, make.context)
        known = self.known.get(key, self.meetings.get((low, high)))
        if known is not None:
            return self.graph.resolve(known)
        self.steps += 1
        plain = make.pack(low, high)
        if self.depth > _DEPTH or self.steps > _STEPS or make.of(plain) is not None:
            return plain
        self.depth += 1
        found = plain
        for rule in self.rules:
            result = rule(low, high, make)
            if result is not None:
                found = result
                break
        self.depth -= 1
        self.known[key] = found
        return found

    def cut(self, index: int, node: Node) -> None:
        """Makes the lower word of a pair shifted to the right that of its value, when the pair is known as one."""
        low, high, count = node.args
        make = Maker(self.graph, node.block, node.context)
        whole = self.whole(low, high, make)
        if self.node(whole).op is not Op.PACK:
            self.graph.substitute(index, make.low(make.node(Op.SHR, (whole, count), 64)))

    # Halves of one value.

    def half(self, index: int) -> tuple[int, int]:
        """(value, 0 or 1) when a node is the lower or upper word of a value; otherwise (-1, 0)."""
        node = self.node(index)
        if node.op is Op.EXTRACT and node.width == 64 and self.graph.number_of(node.args[2]) == 32:
            return self.graph.resolve(node.args[0]), 1 if self.graph.number_of(node.args[1]) == 32 else 0
        return -1, 0

    def of_halves(self, low: int, high: int, _: Maker) -> int | None:
        (one, first), (other, second) = self.half(low), self.half(high)
        if one >= 0 and one == other and (first, second) == (0, 1):
            return one
        a, b = self.node(low), self.node(high)
        if a.op is b.op is Op.PARAMETER and a.width == b.width == 32 and b.number == a.number + 4:
            return self.graph.add(a._replace(width=64, signed=False))
        return None

    def extended(self, low: int, high: int, make: Maker) -> int | None:
        """The upper word is 0 or repeats the sign."""
        if self.graph.number_of(high) == 0:
            return make.node(Op.CONVERT, (low,), 32)
        sign = self.sign_of(high)
        if sign < 0:
            return None
        node = self.node(low)
        shifted = node.op is Op.SHR and node.signed and self.graph.resolve(node.args[0]) == sign
        return make.node(Op.CONVERT, (low,), 32, True) if sign == low or shifted else None

    def sign_of(self, index: int) -> int:
        """The word whose sign a word repeats; -1 when it is no such word."""
        node = self.node(index)
        if node.op is Op.SHR and node.signed and node.width == 32 and self.graph.number_of(node.args[1]) == 31:
            return self.graph.resolve(node.args[0])
        return -1

    # Sums.

    def scratch(self, index: int, name: str) -> Node | None:
        node = self.node(index)
        return node if node.op is Op.UNKNOWN and node.name == name else None

    def parts(self, node: Node) -> tuple[list[int], int, list[int]]:
        """Terms of a sum with carries, which of them are negated, and what is carried in."""
        count = node.number >> 8
        args = [self.graph.resolve(arg) for arg in node.args]
        return args[:count], node.number & 255, args[count:]

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

    def carried(self, index: int) -> int:
        """The sum that a predicate is a carry of; -1 of others."""
        node = self.scratch(index, CARRY)
        return -1 if node is None else self.graph.resolve(node.args[0])

    def carrying(self, low: int, carries: Sequence[int]) -> int:
        """The sum that a carry comes from, when the word is that sum, made a second time without a carry."""
        whole = self.carried(carries[0]) if carries else -1
        if whole < 0 or self.scratch(low, SUM) is not None:
            return low
        terms, negated, into = self.parts(self.node(whole))
        added = [each for number, term in enumerate(terms) for each in self.terms(term, bool(negated >> number & 1))]
        return whole if not into and self.total(added) == self.total(self.terms(low)) else low

    def total(self, terms: Sequence[tuple[int, bool]]) -> tuple[int, list[tuple[int, bool]]]:
        """The numbers among words that are added up as one number, and the other words, as value numbers in order."""
        number, others = 0, []
        for index, minus in terms:
            value = self.graph.number_of(index)
            if value is None:
                others.append((self.numbers.of(index), minus))
            else:
                number += -value if minus else value
        return number & _WORD, sorted(others)

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

    def closeness(self, low: int, high: int) -> int:
        """How much two words look like one value's. Any match is right; a good one is simple."""
        a, b = self.node(low), self.node(high)
        (one, first), (other, second) = self.half(low), self.half(high)
        if one >= 0 and one == other and first < second:
            return 10
        if a.op is b.op is Op.PARAMETER and b.number == a.number + 4:
            return 10
        if self.sign_of(high) == low or self.belong(low, high):
            return 9
        if a.op is b.op and a.op in (Op.JOIN, Op.LOOP) and a.block == b.block:
            return 7
        if a.op is b.op is Op.SELECT and a.args[0] == b.args[0]:
            return 7
        if a.op is b.op is Op.NUMBER:
            return 6
        return 1 if b.op is Op.NUMBER else 0

    def belong(self, low: int, high: int) -> bool:
        """Whether one was computed with the other."""
        a, b = self.node(low), self.node(high)
        if b.op is Op.UNKNOWN and b.name == HIGH_OF_SHIFT:
            return self.moved(a)[0] == self.graph.resolve(b.args[0])
        if a.op is b.op is Op.UNKNOWN and a.name == b.name == SUM:
            return any(self.scratch(each, CARRY) is not None and low in self.node(each).args for each in b.args)
        value, part = self.half(low)
        if value >= 0 and part == 0:
            return any(self.half(term) == (value, 1) for term, _ in self.terms(high))
        if b.op is Op.SHR:
            moved, count = self.moved(a)
            return moved == self.graph.resolve(b.args[0]) and self.graph.number_of(b.args[1]) == 32 - count
        return False

    def terms(self, index: int, minus: bool = False) -> list[tuple[int, bool]]:
        """Words that are added up in a word, and which are subtracted."""
        found: list[tuple[int, bool]] = []
        pending = [(index, minus)]
        while pending and len(found) < 8:
            each, minus = pending.pop()
            node = self.node(each)
            if node.op in (Op.ADD, Op.SUB) and node.width == 32:
                pending += [(node.args[0], minus), (node.args[1], minus ^ (node.op is Op.SUB))]
            else:
                found.append((self.graph.resolve(each), minus))
        return [*found, *pending]

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

    def factors(self, value: int) -> tuple[Node | None, int | None]:
        """The product of two unsigned words in a value, and what is added to it."""
        node = self.node(value)
        if node.op is Op.ADD:
            for one, other in (node.args, node.args[::-1]):
                if self.node(one).op is Op.MUL_WIDE and not self.node(one).signed:
                    return self.node(one), other
        return (node, None) if node.op is Op.MUL_WIDE and not node.signed else (None, None)

    def same(self, a: int, b: int) -> bool:
        x, y = self.graph.number_of(a), self.graph.number_of(b)
        return a == b or (x is not None and y is not None and (x - y) & _WORD == 0)

    # Shifts and bits.

    def moved(self, node: Node) -> tuple[int, int]:
        """(value, count) of a word that is another one shifted to the left; (-1, 0) of others."""
        number = self.graph.number_of(node.args[1]) if node.op in (Op.SHL, Op.MUL) and node.width == 32 else None
        if node.op is Op.MUL and number is not None:
            number = number.bit_length() - 1 if number > 0 and number.bit_count() == 1 else None
        return (-1, 0) if number is None else (self.graph.resolve(node.args[0]), number)

    def shifted(self, low: int, high: int, make: Maker) -> int | None:
        a, b = self.node(low), self.node(high)
        moved, count = self.moved(a)
        if b.op is Op.UNKNOWN and b.name == HIGH_OF_SHIFT:
            if count >= 0 and (moved, count) == (self.graph.resolve(b.args[0]), self.graph.number_of(b.args[2])):
                return make.shift_left(self.whole(moved, b.args[1], make), count, 64)
        elif b.op is Op.SHR and self.belong(low, high):
            return make.shift_left(make.node(Op.CONVERT, (moved,), 32, b.signed), count, 64)
        if a.op is Op.UNKNOWN and a.name == LOW_OF_SHIFT and b.op is Op.SHR and b.args == (a.args[1], a.args[2]):
            whole = self.whole(a.args[0], a.args[1], make)
            return make.node(Op.SHR, (whole, a.args[2]), 64, b.signed)
        return None

    def bitwise(self, low: int, high: int, make: Maker) -> int | None:
        a, b = self.node(low), self.node(high)
        if a.op is b.op is Op.NOT:
            return make.inverse(self.whole(a.args[0], b.args[0], make), 64)
        if a.op is b.op and a.op in _BITWISE:
            pairs = self.matched(list(a.args), list(b.args), make)
            if len(pairs) == 2:
                return make.node(a.op, (self.whole(*pairs[0], make), self.whole(*pairs[1], make)), 64)
        number = self.graph.number_of(a.args[1]) if a.op in _BITWISE else None
        if number is None or b.op in _BITWISE:
            return None
        number &= _WORD
        if a.op is Op.AND:
            number |= _WORD << 32
            cut = self.cut_out(self.whole(a.args[0], high, make), number, make)
            if cut is not None:
                return cut
        return make.node(a.op, (self.whole(a.args[0], high, make), make.number(number)), 64)

    def cut_out(self, whole: int, mask: int, make: Maker) -> int | None:
        """A value without a run of bits in its middle, as a difference: so a pointer stays in it."""
        gone = ~mask & (1 << 64) - 1
        first, count = (gone & -gone).bit_length() - 1, gone.bit_count()
        if first <= 0 or gone >> first != (1 << count) - 1:
            return None
        args = (whole, make.number(first), make.number(count))
        return make.subtract(whole, make.shift_left(make.node(Op.EXTRACT, args, 64), first, 64), 64)

    # Choices.

    def chosen(self, low: int, high: int, make: Maker) -> int | None:
        a, b = self.node(low), self.node(high)
        if a.op is b.op is Op.SELECT and a.args[0] == b.args[0]:
            if a.context == b.context:
                make = Maker(self.graph, a.block, a.context)  # where the choice is made: the same for all that use it
            sides = [self.whole(x, y, make) for x, y in zip(a.args[1:], b.args[1:], strict=True)]
        elif a.op is Op.SELECT:
            return make.select(a.args[0], self.whole(a.args[1], high, make), self.whole(a.args[2], high, make), 64)
        elif b.op is Op.SELECT:
            return make.select(b.args[0], self.whole(low, b.args[1], make), self.whole(low, b.args[2], make), 64)
        else:
            return None
        return make.select(a.args[0], sides[0], sides[1], 64)

    def met(self, low: int, high: int, _: Maker) -> int | None:
        """Where paths meet: each path's pair. A word that was there before is the same on all of them."""
        a, b = self.node(low), self.node(high)
        shape = a if a.op in (Op.JOIN, Op.LOOP) else b
        if shape.op not in (Op.JOIN, Op.LOOP) or not shape.args:
            return None
        sides: list[tuple[int, ...]] = []
        for index, node in ((low, a), (high, b)):
            if node.op is shape.op and node.block == shape.block and len(node.args) == len(shape.args):
                sides.append(node.args)
            elif self.is_before(index, shape.block):
                sides.append((index,) * len(shape.args))
            else:
                return None
        whole = self.graph.fresh(shape._replace(args=()))
        self.meetings[low, high] = whole
        pairs = [
            self.whole(x, y, Maker(self.graph, shape.block, context))
            for x, y, context in zip(*sides, shape.contexts, strict=True)
        ]
        self.graph.set_operands(whole, pairs, shape.contexts)
        return whole

    def replace_words(self) -> None:
        """Takes the words of a value that changes in a loop by steps from it: alone they have steps of 32 bits."""
        for (low, high), whole in self.meetings.items():
            made = self.node(whole)
            if self.node(low).op is not Op.LOOP or made.op is not Op.LOOP or self.graph.resolve(low) != low:
                continue
            entries = len(self.graph.template.loops[made.number].entries)
            if all(self.continues(arg, whole) for arg in made.args[entries:]):
                make = Maker(self.graph, made.block, made.context)
                self.graph.substitute(low, make.low(whole))
                if self.node(high).op is Op.LOOP and self.graph.resolve(high) == high:
                    self.graph.substitute(high, make.high(whole))

    def replace_upper_sums(self) -> None:
        """Takes the upper word of a sum of two words from the whole sum: alone it has carries that nobody knows."""
        for index in range(len(self.graph.nodes)):
            node = self.scratch(index, SUM)
            if node is None or self.graph.resolve(index) != index:
                continue
            make = Maker(self.graph, node.block, node.context)
            for low in dict.fromkeys(map(self.carried, self.parts(node)[2])):
                whole = self.summed(low, index, make) if low >= 0 else None
                if whole is not None:
                    self.graph.substitute(index, make.high(whole))
                    break

    def continues(self, value: int, whole: int, depth: int = 16) -> bool:
        """Whether a value is another with something added to it."""
        value = self.graph.resolve(value)
        node = self.graph.nodes[value]
        if value == whole or depth == 0:
            return value == whole
        if node.op is Op.ADD:
            return any(self.continues(arg, whole, depth - 1) for arg in node.args)
        if node.op in (Op.SUB, Op.LOOP):
            return self.continues(node.args[0], whole, depth - 1)
        if node.op in (Op.SELECT, Op.JOIN):
            return all(self.continues(arg, whole, depth - 1) for arg in node.args[1 if node.op is Op.SELECT else 0 :])
        return False

    def is_before(self, index: int, block: int, depth: int = 8) -> bool:
        """Whether a value is there whenever the block begins, and does not change until it is left."""
        node = self.node(index)
        if node.op in _PURE:
            return True
        if node.op in (Op.UNKNOWN, Op.EXTRACT) and node.args:
            return depth > 0 and all(self.is_before(arg, block, depth - 1) for arg in node.args)
        return node.block != block and self.dominates(node.block, block)
