"""What a predicate's value says about numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxtools.access.template import Node, Op
from ptxtools.ranges.form import Form, fact

if TYPE_CHECKING:
    from ptxtools.ranges.evaluate import Evaluation

_WORK = 4  # to look at a predicate; those that depend on two others each, deeply, are looked at very often
_OPPOSITE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}


class Predicates:
    """`facts` gives what holds when a predicate has a value; a conclusion not drawn is a fact less, never a wrong
    one.
    """

    def __init__(self, evaluation: Evaluation) -> None:
        self._of = evaluation

    def facts(self, index: int, truth: bool) -> list[Form] | None:
        """Forms that are at most 0; None when the predicate cannot have this value."""
        node = self._of.template.nodes[index]
        self._of.symbols.spend(_WORK)
        if node.op is Op.OPPOSITE:
            return self.facts(node.args[0], not truth)
        if node.op in (Op.BOTH, Op.EITHER):
            return self._combined(node, truth)
        if node.op is Op.NUMBER:
            return [] if bool(node.number) == truth else None
        if node.op is Op.COMPARE and node.name in _OPPOSITE:
            return self._compared(node, truth)
        return []

    def _combined(self, node: Node, truth: bool) -> list[Form] | None:
        """Both hold when "both" is true or "either" false. Otherwise at least one does: known when the other cannot."""
        sides = [self.facts(arg, truth) for arg in node.args]
        possible = [side for side in sides if side is not None and not self._of.impossible(side, [])]
        if (node.op is Op.BOTH) == truth:
            return [each for side in possible for each in side] if len(possible) == len(sides) else None
        if not possible:
            return None
        return possible[0] if len(possible) == 1 else []

    def _compared(self, node: Node, truth: bool) -> list[Form] | None:
        name = node.name if truth else _OPPOSITE[node.name]
        a, b = self.operands(node)
        difference = a.plus(b, -1)
        low, high = self._of.symbols.low(difference), self._of.symbols.high(difference)
        if name == "ne":
            return self._different(difference, low == high == 0)
        found = {
            "lt": [difference.moved(1)],
            "le": [difference],
            "gt": [difference.times(-1).moved(1)],
            "ge": [difference.times(-1)],
            "eq": [difference, difference.times(-1)],
        }[name]
        found = [fact(each) for each in found]
        if any(self._of.symbols.low(each) > 0 for each in found):
            return None
        return [each for each in found if each.terms]

    def _different(self, difference: Form, equal: bool) -> list[Form] | None:
        """Not equal: at an end of its range, a difference is at least one further in."""
        if equal:
            return None
        if self._of.symbols.low(difference) == 0:
            return [difference.times(-1).moved(1)]
        if self._of.symbols.high(difference) == 0:
            return [difference.moved(1)]
        return []

    def operands(self, node: Node) -> tuple[Form, Form]:
        """Both sides as the comparison sees them. Equality does not depend on the sign."""
        a, b = node.args
        of = self._of
        if node.name not in ("eq", "ne"):
            sides = [of.viewed(arg, node.width, node.signed, node.context) for arg in node.args]
            return sides[0], sides[1]
        for signed in (True, False):
            limit = (-(1 << node.width - 1), (1 << node.width - 1) - 1) if signed else (0, (1 << node.width) - 1)
            forms = [of.value(a), of.value(b)]
            if all(limit[0] <= of.symbols.low(f) and of.symbols.high(f) <= limit[1] for f in forms):
                return forms[0], forms[1]
        return of.viewed(a, node.width, False, node.context), of.viewed(b, node.width, False, node.context)
