"""Makes 64-bit values of pairs of words, so that addresses get the form that PTX gives them.

Every rule is an identity modulo 2^64 over unsigned words: low + 2^32 * high. Those of sums are in `sums`. Pairs that
no rule fits stay pairs.
"""

from __future__ import annotations

from collections.abc import Callable

from ptxtools.access.graph import Graph
from ptxtools.access.template import Op
from ptxtools.machine.maker import HIGH_OF_SHIFT, LOW_OF_SHIFT, SUM, Maker
from ptxtools.machine.sums import Sums
from ptxtools.machine.words import WORD

_DEPTH = 60
_STEPS = 100_000
_BITWISE = {Op.AND, Op.OR, Op.XOR}
_PURE = {Op.NUMBER, Op.PARAMETER, Op.SPECIAL, Op.SYMBOL}

Dominates = Callable[[int, int], bool]


def replace_pairs(graph: Graph, dominates: Dominates) -> None:
    """Replaces the pairs of a graph. `dominates`: whether every path to the second block goes through the first."""
    pairs = Pairs(graph, dominates)
    index = 0
    while index < len(graph.nodes):  # rules may make further pairs
        node = graph.nodes[index]
        if node.op is Op.PACK and node.width == 32 and len(node.args) == 2:
            whole = pairs.whole(*node.args, Maker(graph, node.block, node.condition))
            if whole != index:
                graph.substitute(index, whole)
        index += 1
    pairs.cut_words()
    pairs.replace_upper_sums()
    pairs.replace_words()


class Pairs(Sums):
    """`whole` is the 64-bit value of two words."""

    def __init__(self, graph: Graph, dominates: Dominates) -> None:
        super().__init__(graph)
        self.dominates = dominates
        self.known: dict[tuple[int, int, int], int] = {}
        self.phis: dict[tuple[int, int], int] = {}  # the same in every condition
        self.depth = self.steps = 0
        self.rules = (
            self.of_halves,
            self.extended,
            self.summed,
            self.added_above,
            self.shifted,
            self.bitwise,
            self.chosen,
            self.phi,
        )

    def whole(self, low: int, high: int, make: Maker) -> int:
        low, high = self.graph.resolve(low), self.graph.resolve(high)
        key = (low, high, make.condition)
        known = self.known.get(key, self.phis.get((low, high)))
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

    def cut_words(self) -> None:
        """Makes lower words of pairs shifted to the right those of values, when the pairs are known as such; those
        that have their upper words with them have been found before.
        """
        for index in range(len(self.graph.nodes)):
            node = self.scratch(index, LOW_OF_SHIFT)
            if node is None or self.graph.resolve(index) != index:
                continue
            low, high, count = node.args
            make = Maker(self.graph, node.block, node.condition)
            whole = self.whole(low, high, make)
            if self.node(whole).op is not Op.PACK:
                self.graph.substitute(index, make.low(make.node(Op.SHR, (whole, count), 64)))

    # Halves of one value.

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

    # Shifts and bits.

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
        number &= WORD
        if a.op is Op.AND:
            number |= WORD << 32
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
            if a.condition == b.condition:
                make = Maker(self.graph, a.block, a.condition)  # where the choice is made: the same for all that use it
            sides = [self.whole(x, y, make) for x, y in zip(a.args[1:], b.args[1:], strict=True)]
        elif a.op is Op.SELECT:
            return make.select(a.args[0], self.whole(a.args[1], high, make), self.whole(a.args[2], high, make), 64)
        elif b.op is Op.SELECT:
            return make.select(b.args[0], self.whole(low, b.args[1], make), self.whole(low, b.args[2], make), 64)
        else:
            return None
        return make.select(a.args[0], sides[0], sides[1], 64)

    def phi(self, low: int, high: int, _: Maker) -> int | None:
        """A phi of each edge's pair. A word that was there before is the same on all edges. What is a word and
        its sign on each edge is that for the phi.
        """
        a, b = self.node(low), self.node(high)
        shape = a if a.op in (Op.PHI, Op.LOOP) else b
        if shape.op not in (Op.PHI, Op.LOOP) or not shape.args:
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
        self.phis[low, high] = whole
        pairs = [
            self.whole(x, y, Maker(self.graph, shape.block, condition))
            for x, y, condition in zip(*sides, shape.conditions, strict=True)
        ]
        self.graph.set_operands(whole, pairs, shape.conditions)
        signs = {self.widened(pair, side) for pair, side in zip(pairs, sides[0], strict=True)}
        if a.op is shape.op and len(signs) == 1 and (signed := signs.pop()) is not None:
            word = Maker(self.graph, shape.block, shape.condition).node(Op.CONVERT, (low,), 32, signed)
            self.graph.substitute(whole, word)
            return word
        return whole

    def widened(self, pair: int, word: int) -> bool | None:
        """Whether a pair is a word with its sign; None when it is not that word, with or without one."""
        node = self.node(pair)
        is_word = node.op is Op.CONVERT and node.width == 32 and self.graph.resolve(node.args[0]) == word
        return node.signed if is_word else None

    # Words that are taken from a value.

    def replace_words(self) -> None:
        """Takes the words of a value that changes in a loop by steps from it: alone they have steps of 32 bits."""
        for (low, high), whole in self.phis.items():
            made = self.node(whole)
            if self.node(low).op is not Op.LOOP or made.op is not Op.LOOP or self.graph.resolve(low) != low:
                continue
            entries = len(self.graph.template.loops[made.number].entries)
            if all(self.continues(arg, whole) for arg in made.args[entries:]):
                make = Maker(self.graph, made.block, made.condition)
                self.graph.substitute(low, make.low(whole))
                if self.node(high).op is Op.LOOP and self.graph.resolve(high) == high:
                    self.graph.substitute(high, make.high(whole))

    def replace_upper_sums(self) -> None:
        """Takes the upper word of a sum of two words from the whole sum: alone it has carries that nobody knows."""
        for index in range(len(self.graph.nodes)):
            node = self.scratch(index, SUM)
            if node is None or self.graph.resolve(index) != index:
                continue
            make = Maker(self.graph, node.block, node.condition)
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
        if node.op in (Op.SELECT, Op.PHI):
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
