"""Spilled predicates: kept as bits of a register when there are too few predicate registers.

ptxas clears a bit, sets it again where the predicate holds, and tests it later, perhaps after other branches and
loops: `R & 8 != 0` is then that predicate. Or it puts all predicates into one word (P2R). A word's sign may hold one,
too.
"""

from __future__ import annotations

from ptxtools.access.graph import Graph
from ptxtools.access.template import Node, Op
from ptxtools.machine.maker import PREDICATES, Maker

_WORD = (1 << 32) - 1
_MOST = 2000  # nodes that are looked at for one bit
_PHIS = {Op.PHI, Op.LOOP}

_Key = tuple[int, int]  # a node and the bits of it that are looked at


def restore(graph: Graph) -> None:
    """Rewrites comparisons of such bits with 0."""
    saved = _Saved(graph)
    for index in range(len(graph.nodes)):
        node = graph.nodes[index]
        if node.op is Op.COMPARE and node.width == 32 and node.name in ("eq", "ne"):
            found = saved.tested(node)
            if found is not None:
                graph.substitute(index, found)


class _Saved:
    """`set_in` is the predicate that any of some bits of a value is 1. `kept`: keys of which that can be said."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.kept: set[_Key] = set()
        self.known: dict[_Key, int] = {}

    def tested(self, node: Node) -> int | None:
        """The predicate that a comparison makes of bits, when it can be said."""
        value, zero = (self.graph.resolve(arg) for arg in node.args)
        if self.graph.number_of(zero) != 0 or self.graph.nodes[value].op is Op.NUMBER:
            return None
        make = Maker(self.graph, node.block, node.condition)
        if not self.are_kept((value, _WORD)):
            return None
        found = self.set_in((value, _WORD), make)
        return found if node.name == "ne" else make.opposite(found)

    def are_kept(self, key: _Key) -> bool:
        """Whether all that these bits come from are numbers and predicates, or not defined at all."""
        seen: set[_Key] = set()
        pending = [key]
        has_predicate = False
        while pending:
            each = pending.pop()
            if each in seen or each in self.kept:
                has_predicate |= each in self.kept
                continue
            seen.add(each)
            sources = self.sources(each)
            if sources is None or len(seen) > _MOST:
                return False
            node = self.graph.nodes[each[0]]
            has_predicate |= node.op in (Op.UNKNOWN, Op.SELECT, Op.SHR)
            pending += sources
        if has_predicate:
            self.kept |= seen
        return has_predicate

    def sources(self, key: _Key) -> list[_Key] | None:
        """What these bits are made of; None when that is not only bits of others."""
        index, mask = key
        node = self.graph.nodes[index]
        if node.op is Op.NUMBER or (node.op is Op.OPAQUE and mask & mask - 1 == 0):
            return []
        if (node.op is Op.UNKNOWN and node.name == PREDICATES) or self.is_sign(node):
            return []
        if node.op in (Op.AND, Op.OR) and node.width == 32:
            return self.combined(node, mask)
        if node.op in _PHIS or node.op is Op.SELECT:
            args = node.args[1:] if node.op is Op.SELECT else node.args
            return [(self.graph.resolve(arg), mask) for arg in args] or None
        return None

    def combined(self, node: Node, mask: int) -> list[_Key] | None:
        """Of AND and OR with a number, and of OR."""
        value, number = self.with_number(node)
        if number is None:
            return [(self.graph.resolve(arg), mask) for arg in node.args] if node.op is Op.OR else None
        if node.op is Op.AND:
            return [(value, mask & number)] if mask & number else []
        return [] if mask & number else [(value, mask)]

    def is_sign(self, node: Node) -> bool:
        """Whether it is 1 when a word is negative, else 0."""
        return node.op is Op.SHR and node.width == 32 and not node.signed and self.graph.number_of(node.args[1]) == 31

    def with_number(self, node: Node) -> tuple[int, int | None]:
        a, b = (self.graph.resolve(arg) for arg in node.args)
        x, y = self.graph.number_of(a), self.graph.number_of(b)
        value, number = (a, y) if y is not None else (b, x)
        return value, None if number is None else number & _WORD

    def set_in(self, key: _Key, make: Maker) -> int:
        """The predicate that one of the bits is 1, of bits that are kept."""
        known = self.known.get(key)
        if known is None:
            known = self.known[key] = self.made(key, make)
        return self.graph.resolve(known)

    def made(self, key: _Key, make: Maker) -> int:
        index, mask = key
        node = self.graph.nodes[index]
        if node.op in (Op.AND, Op.OR):
            parts = [self.set_in(source, make) for source in self.sources(key) or ()]
            if len(parts) == 2:
                return make.either(*parts)
            return parts[0] if parts else make.number(int(node.op is Op.OR))
        if self.is_sign(node):
            below = Node(Op.COMPARE, (node.args[0], make.number(0)), 32, True, name="lt", block=node.block)
            return self.graph.add(below._replace(condition=node.condition)) if mask & 1 else make.number(0)
        if node.op is Op.SELECT:
            return self.chosen(node, mask)
        if node.op in _PHIS:
            return self.phi(key, node)
        found = make.bits(index, mask)
        return make.bit(index, mask.bit_length() - 1) if found is None else found

    def chosen(self, node: Node, mask: int) -> int:
        make = Maker(self.graph, node.block, node.condition)
        predicate = self.graph.resolve(node.args[0])
        yes, no = (self.set_in((self.graph.resolve(arg), mask), make) for arg in node.args[1:])
        if yes == no:
            return yes
        if make.of(yes) == 1 or make.of(no) == 0:
            return make.either(predicate, no) if make.of(yes) == 1 else make.both(predicate, yes)
        if make.of(yes) == 0 or make.of(no) == 1:
            opposite = make.opposite(predicate)
            return make.both(opposite, no) if make.of(yes) == 0 else make.either(opposite, yes)
        return make.either(make.both(predicate, yes), make.both(make.opposite(predicate), no))

    def phi(self, key: _Key, node: Node) -> int:
        """A phi of each edge's predicate."""
        index = self.graph.fresh(node._replace(args=(), width=1))
        self.known[key] = index
        args = [
            self.set_in((self.graph.resolve(arg), key[1]), Maker(self.graph, node.block, condition))
            for arg, condition in zip(node.args, node.conditions, strict=True)
        ]
        self.graph.set_operands(index, args, node.conditions)
        return index
