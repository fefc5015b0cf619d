"""Loops: how often they run, and values that change by a step.

The iterations that have ended are a symbol k. A condition under which a loop goes on, as a form with k, bounds k, and
moved to the iteration after becomes a fact about k. Whether numbers wrap inside the loop is settled by induction:
assuming that the numbers compared do not wrap, the bound follows; that they then cannot is checked with the bound.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

from ptxtools.access.template import LoopPlace, Node, Op
from ptxtools.ranges.form import Bound, Form, Symbol, fact
from ptxtools.ranges.rewrite import writings

if TYPE_CHECKING:
    from ptxtools.ranges.evaluate import Evaluation


@dataclass(slots=True)
class _Trial:
    """A loop whose iterations are being counted. `assumed`: forms that are taken to lie between two numbers."""

    symbol: int
    assume: bool
    assumed: list[tuple[Form, int, int]] = field(default_factory=list)


class Trips:
    """The counts of all loops, made on demand."""

    def __init__(self, evaluation: Evaluation) -> None:
        self._of = evaluation
        self._counts: dict[int, Form] = {}
        self._trials: list[_Trial] = []

    def assumed(self, form: Form, low: int, high: int) -> bool:
        """Whether a form may be taken to lie between two numbers for now: it counts a loop that is on trial."""
        for trial in reversed(self._trials):
            if trial.assume and trial.symbol in form.terms:
                trial.assumed.append((form, low, high))
                return True
        return False

    def at_header(self, node: Node) -> Form:
        """The value of a LOOP node."""
        of = self._of
        place = of.template.loops[node.number]
        start, step = of.value(node.args[0]), of.value(node.args[1])
        k = self.count(node.number)
        number = of.symbols.number(step)
        if number is not None:
            return start.plus(k, _small(number, node.width))
        low, high = of.symbols.low(step), of.symbols.high(step)
        symbol = Symbol(loops=place.within | of.symbols.loops([start]))
        result = of.symbols.add(symbol)
        last = of.symbols.high(k)
        if low != -inf:
            symbol.facts.append(start.plus(k, int(low)).plus(result, -1))
            symbol.low = of.symbols.low(start) + (min(0, int(low) * last) if low and last else 0)
        if high != inf:
            symbol.facts.append(result.plus(start, -1).plus(k, -int(high)))
            symbol.high = of.symbols.high(start) + (max(0, int(high) * last) if high and last else 0)
        return result

    def count(self, number: int) -> Form:
        """The iterations of a loop that have ended, as a symbol."""
        known = self._counts.get(number)
        if known is None:
            place = self._of.template.loops[number]
            known = self._of.symbols.add(Symbol(0, inf, place.within, context=place.context))
            self._counts[number] = known
            (symbol,) = known.terms
            if not self._bound(place, number, symbol, assume=True):
                self._bound(place, number, symbol, assume=False)
        return known

    def _bound(self, place: LoopPlace, number: int, symbol: int, assume: bool) -> bool:
        """Bounds the count. False when an assumption that was made does not follow."""
        of = self._of
        trial = _Trial(symbol, assume)
        known = dict(self._counts)  # other loops counted on the way are counted again when this one is known
        self._trials.append(trial)
        of.begin_trial()
        try:
            tests = [self._tests(back, place.context) for back in place.backs]
            passes = max((self._passes(back, symbol) for back in place.backs), default=-1)
            facts = self._header_facts(place, number, symbol, tests)
            k = of.symbols.all[symbol]
            k.high = passes + 1 if passes != inf else inf
            k.facts = facts
            if self._holds(trial, place):
                return True
            k.high, k.facts = inf, []
            return False
        finally:
            of.end_trial()
            self._trials.pop()
            self._counts = known

    def _holds(self, trial: _Trial, place: LoopPlace) -> bool:
        before = self._of.facts(place.context) or []
        return all(
            low <= self._of.lower(form, before) and self._of.upper(form, before) <= high
            for form, low, high in trial.assumed
        )

    def _tests(self, context: int, header: int) -> list[tuple[int, bool]]:
        """Predicates that hold on the way from the header to an edge back to it."""
        found = []
        while context != header and context != 0:
            entry = self._of.template.contexts[context]
            if entry.predicate >= 0:
                found.append((entry.predicate, entry.truth))
            context = entry.parent
        return found

    def _passes(self, back: int, symbol: int) -> Bound:
        """The greatest count with which an edge back is taken; -1 when it never is."""
        facts = self._of.facts(back)
        if facts is None:
            return -1
        tests = self._tests(back, 0)
        ends = [self._until_equal(predicate, truth, symbol, facts) for predicate, truth in tests]
        high = self._of.upper(Form(0, {symbol: 1}), [*facts, *(each for each in ends if each is not None)])
        return max(high, -1)

    def _until_equal(self, predicate: int, truth: bool, symbol: int, facts: list[Form]) -> Form | None:
        """What holds while a loop goes on until two values are equal, if it comes to that step by step."""
        node = self._of.template.nodes[predicate]
        while node.op is Op.OPPOSITE:
            node, truth = self._of.template.nodes[node.args[0]], not truth
        if node.op is not Op.COMPARE or (node.name, truth) not in (("ne", True), ("eq", False)):
            return None
        a, b = (self._of.value(arg) for arg in node.args)
        difference = a.plus(b, -1)
        step = difference.terms.get(symbol, 0)
        if step < 0:
            step, difference = -step, difference.times(-1)
        rest = difference.plus(Form(0, {symbol: step}), -1)
        if step == 0 or self._of.symbols.loops([rest]) & self._of.symbols.all[symbol].loops - self._outer(symbol):
            return None
        written = [self._of.symbols.settled(rest), *writings(self._of.symbols, rest)]
        if not any(_is_multiple(each, step) for each in written):
            return None
        constant = [each for each in facts if symbol not in each.terms]
        return difference.moved(step) if self._of.upper(rest, constant) < step else None  # 0 then, or less

    def _outer(self, symbol: int) -> frozenset[int]:
        """The loops around the one that a symbol counts."""
        number = next(n for n, form in self._counts.items() if symbol in form.terms)
        return self._of.template.loops[number].within - {number}

    def _header_facts(
        self, place: LoopPlace, number: int, symbol: int, tests: list[list[tuple[int, bool]]]
    ) -> list[Form]:
        """Facts about the count from conditions under which every edge back is taken."""
        if not tests:
            return []
        of = self._of
        common = [test for test in tests[0] if all(test in other for other in tests[1:])]
        entries = [facts for facts in map(of.facts, place.entries) if facts is not None]
        found = []
        here = of.facts(place.context) or []
        for predicate, truth in common:
            end = self._until_equal(predicate, truth, symbol, here)
            for form in [*(of.predicates.facts(predicate, truth) or []), *([] if end is None else [end])]:
                others = [n for n in form.terms if n != symbol]
                if symbol not in form.terms or any(number in of.symbols.all[n].loops for n in others):
                    continue
                moved = form.moved(-form.terms[symbol])  # as the iteration after sees it
                first = moved.plus(Form(0, {symbol: form.terms[symbol]}), -1)
                at_first = max((of.upper(first, facts) for facts in entries), default=0)
                if at_first != inf:
                    found.append(fact(moved.moved(-max(0, int(at_first)))))
        return found


def _is_multiple(form: Form, step: int) -> bool:
    return form.constant % step == 0 and all(c % step == 0 for c in form.terms.values())


def _small(value: int, width: int) -> int:
    """The number nearest to 0 that is congruent modulo 2 to the width."""
    if not width:
        return value
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value
