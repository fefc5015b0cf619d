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
        return self._met(node, truth) if node.op is Op.JOIN else []

    def _combined(self, node: Node, truth: bool) -> list[Form] | None:
        """Both hold when "both" is true or "either" false. Otherwise at least one does: known when the other cannot.

        Joins come last: what is known of a way is known of what the other side compares, too.
        """
        is_join = [self._of.template.nodes[arg].op is Op.JOIN for arg in node.args]
        sides = [self.facts(arg, truth) for arg in (node.args[::-1] if is_join[0] else node.args)]
        possible = [side for side in sides if side is not None and not self._of.impossible(side, [])]
        if (node.op is Op.BOTH) == truth:
            return [each for side in possible for each in side] if len(possible) == len(sides) else None
        if not possible:
            return None
        if len(possible) == 1:
            return possible[0]
        return self._in_both(node, *possible) if any(is_join) else []

    def _in_both(self, node: Node, one: list[Form], other: list[Form]) -> list[Form]:
        """What holds on either side. Code that sets a predicate on some of its ways, and has it or a comparison go on,
        has tested on the others what it compares.
        """
        before = self._of.facts(node.context) or []
        return [each for each in one if self._of.upper(each, before + other) <= 0]

    def _met(self, node: Node, truth: bool) -> list[Form] | None:
        """Where paths met: what holds of the only way that brings this value. Most of them bring numbers."""
        if sum(self._of.template.nodes[arg].op is not Op.NUMBER for arg in node.args) > 1:
            return []
        ways, possible = self._ways(node), []
        for way, (context, arg) in enumerate(ways):
            side = self.facts(arg, truth)
            if side is not None:
                possible.append((way, self._since(node.context, context) + side))
        if len(possible) != 1:
            return [] if possible else None
        way, found = possible[0]
        return found + self._of.meetings.on_way((node.block, tuple(context for context, _ in ways)), way)

    def _ways(self, node: Node) -> list[tuple[int, int]]:
        """Context and value of each way to a meeting that can be taken."""
        ways = zip(node.contexts, node.args, strict=True)
        return [(context, arg) for context, arg in ways if self._of.facts(context) is not None]

    def _only_way(self, index: int) -> list[Form]:
        """What is known of a value that loops change from the only way to where it is from, if paths meet there.

        Their ends say it; of other values the work does not pay.
        """
        node = self._of.template.nodes[index]
        ways = self._ways(node) if node.op is Op.JOIN else []
        if len(ways) != 1:
            return []
        form = self._of.value(index)
        if not self._of.symbols.loops([form]):
            return []
        return [each for each in self._since(node.context, ways[0][0]) if self._is_about(each, form)]

    def _is_about(self, found: Form, form: Form) -> bool:
        """Whether a fact is one about a form and numbers."""
        symbols = self._of.symbols.all
        return all(number in form.terms or symbols[number].low == symbols[number].high for number in found.terms)

    def _since(self, early: int, late: int) -> list[Form]:
        """What holds in a context and not yet where it and an earlier one have parted."""
        contexts, above = self._of.template.contexts, {0}
        while early:
            above.add(early)
            early = contexts[early].parent
        common = late
        while common not in above:
            common = contexts[common].parent
        return (self._of.facts(late) or [])[len(self._of.facts(common) or []) :]

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
        found = [each for each in found if each.terms]
        known = set(map(id, self._of.facts(node.context) or []))
        return [*found, *(each for arg in node.args for each in self._only_way(arg) if id(each) not in known)]

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
