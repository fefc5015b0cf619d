"""Forms of nodes that are one of several values: by which is less, by a predicate, by the way that was taken."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import TYPE_CHECKING

from ptxtools.access.template import Node, Op
from ptxtools.ranges.form import Bound, Form, Symbol, fact
from ptxtools.ranges.operations import Operations

if TYPE_CHECKING:
    from ptxtools.ranges.evaluate import Evaluation


class Choices(Operations):
    """An option is a form, with what is known where it is taken."""

    def __init__(self, evaluation: Evaluation) -> None:
        super().__init__(evaluation)
        self.makers = {
            Op.MIN: self._min,
            Op.MAX: self._max,
            Op.SELECT: self._select,
            Op.JOIN: self._join,
        }

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
        result = self._of.symbols.add(Symbol(low, high, loops, loaded=loaded, choices=choices, context=node.context))
        if result.terms and not choices:
            self._related(result, (*self._apart(result, options, node), *self._common(result, options, node)))
        return result

    def _is_count(self, form: Form, node: Node) -> bool:
        """Whether a way to a meeting brings what a loop before it counted, and a number: its end is known there."""
        if node.op is not Op.JOIN or list(form.terms.values()) != [1]:
            return False
        return not self._of.symbols.loops([form]) <= self._of.template.block_loops[node.block]

    def _is_made(self, form: Form, context: int) -> bool:
        """Whether what is known of a form, and of what that is made of, holds wherever a context does.

        What another way makes may not be anything here that would agree with all that is known of it.
        """
        all_symbols, above = self._of.symbols.all, self._of.above(context)
        for number in form.terms:
            symbol = all_symbols[number]
            if symbol.context not in above:
                return False
            if any(all_symbols[n].context not in above for each in symbol.facts for n in each.terms):
                return False
        return True

    def _apart(self, result: Form, options: list[tuple[Form, list[Form]]], node: Node) -> tuple[Form, ...]:
        """How far the result can be from the first option, when that is bounded."""
        first = options[0][0]
        if not self._is_made(first, node.context):
            return ()
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
                if factor == 0 or not self._of.symbols.loops([rest]) <= around or not self._is_made(rest, node.context):
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
