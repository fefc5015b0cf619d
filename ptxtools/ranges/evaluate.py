"""Values of a template's nodes for one launch, as forms.

Sound by construction: a form is congruent to the machine's value; where an instruction looks at the number itself,
the form is `viewed` as that width and sign, which needs proof that it lies in between, or gives a new symbol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

from ptxtools.access.bases import Bases
from ptxtools.access.template import PREDICATES, Node, Op, Template
from ptxtools.access.values import WINDOW
from ptxtools.ranges import bounds
from ptxtools.ranges.arithmetic import Arithmetic
from ptxtools.ranges.bits import Bits
from ptxtools.ranges.choices import Choices
from ptxtools.ranges.divide import Division
from ptxtools.ranges.form import Bound, Form, Symbol, Symbols
from ptxtools.ranges.loops import Trips
from ptxtools.ranges.meetings import Meetings
from ptxtools.ranges.predicates import Predicates

_AXES = {"x": 0, "y": 1, "z": 2}


class Evaluation:
    """Everything about one launch that is known so far. Values are made on demand and kept.

    While the iterations of a loop are being counted, what is computed is kept apart (`begin_trial`, `end_trial`): it
    was found without knowing how often the loop runs.
    """

    def __init__(
        self,
        template: Template,
        parameters: bytes,
        grid: Sequence[int],
        block: Sequence[int],
        variables: Mapping[str, int],
    ) -> None:
        self.template = template
        self.parameters = parameters
        self.grid, self.block = grid, block
        self.variables = variables
        self.bases = Bases(template)
        self.symbols = Symbols()
        self.division = Division(self.symbols)
        self.trips = Trips(self)
        self.predicates = Predicates(self)
        self.meetings = Meetings()
        self._makers = {op: make for sort in (Arithmetic, Bits, Choices) for op, make in sort(self).makers.items()}
        self._values: list[dict[int, Form]] = [{}]
        self._active: list[set[int]] = [set()]
        self._facts: list[dict[int, list[Form] | None]] = [{0: []}]
        self._marks: list[int] = []
        self._views: dict[tuple[object, int, bool], Form] = {}
        self._shared: dict[object, Form] = {}

    # Values.

    def value(self, index: int) -> Form:
        """The form of a node."""
        for known in reversed(self._values):
            if index in known:
                return known[index]
        node = self.template.nodes[index]
        if index in self._active[-1]:
            return self.opaque(node)
        self._active[-1].add(index)
        self.symbols.spend(2)
        form = self._compute(node)
        self._active[-1].discard(index)
        self._values[-1][index] = form
        return form

    def begin_trial(self) -> None:
        self._values.append({})
        self._active.append(set())
        self._facts.append({})
        self._marks.append(self.division.mark())
        self.meetings.begin_trial()

    def end_trial(self) -> None:
        self.division.forget(self._marks.pop())
        self.meetings.end_trial()
        self._values.pop()
        self._active.pop()
        self._facts.pop()

    def _compute(self, node: Node) -> Form:
        if node.op is Op.NUMBER:
            return Form(node.number)
        if node.op is Op.PARAMETER:
            return self._parameter(node)
        if node.op is Op.SPECIAL:
            return self._special(node.name)
        if node.op is Op.SYMBOL:
            return self._variable(node.name)
        if node.op in (Op.LOADED, Op.OPAQUE) or node.op in PREDICATES:  # which no sound code uses as numbers
            return self.opaque(node)
        if node.op is Op.LOOP:
            return self.trips.at_header(node)
        if node.op is Op.CHANGED:
            return self._changed(node)
        if node.op is Op.COUNT:
            return self.trips.count(node.number)
        return self._makers[node.op](node)

    def _changed(self, node: Node) -> Form:
        sources = (each for arg in node.args for way in self.bases.of(arg) for each in way)
        loaded = any(each.op is Op.LOADED and each.width == 64 for each in sources)
        return self.symbols.add(Symbol(loops=self.template.loops[node.number].within, loaded=loaded))

    def _parameter(self, node: Node) -> Form:
        size = node.width // 8
        raw = self.parameters[node.number : node.number + size]
        if len(raw) < size:
            return self.opaque(node)
        value = int.from_bytes(raw, "little", signed=node.signed)
        if size < 8:
            return Form(value)
        return self.shared(("slot", node.number), Symbol(value, value, slot=node.number))

    def _special(self, name: str) -> Form:
        base, _, axis = name.partition(".")
        if axis in _AXES:
            count = {"tid": self.block, "ctaid": self.grid, "ntid": self.block, "nctaid": self.grid}.get(base)
            if count is not None:
                size = count[_AXES[axis]]
                return Form(size) if base[0] == "n" else self.shared(name, Symbol(0, size - 1))
        threads = self.block[0] * self.block[1] * self.block[2]
        if name == "laneid":
            return self._lane(threads)
        return self.symbols.add(Symbol(loops=frozenset(range(len(self.template.loops)))))

    def _lane(self, threads: int) -> Form:
        if self.block[1] == self.block[2] == 1:
            return self.division.remainder(self._special("tid.x"), 32)
        return self.shared("laneid", Symbol(0, min(31, threads - 1), mask=31))

    def _variable(self, name: str) -> Form:
        address = self.variables.get(name)
        bits = 32 if name in self.template.private and name != WINDOW else 64
        low, high = (0, (1 << bits) - 1) if address is None else (address, address)
        return self.shared(("variable", name), Symbol(low, high, variable=name))

    def shared(self, key: object, symbol: Symbol) -> Form:
        """The one symbol of this key."""
        known = self._shared.get(key)
        if known is None:
            known = self._shared[key] = self.symbols.add(symbol)
        return known

    def opaque(self, node: Node) -> Form:
        """A new symbol for a node of which nothing is known but its width."""
        low: Bound = -inf
        high: Bound = inf
        if node.op in (Op.LOADED, Op.OPAQUE, Op.PARAMETER) and node.width:
            low, high = limits(node.width, node.signed)
        loaded = node.op is Op.LOADED
        return self.symbols.add(Symbol(low, high, self.template.block_loops[node.block], loaded=loaded))

    # Numbers.

    def viewed(self, index: int, width: int, signed: bool, context: int) -> Form:
        """A node's value as a number of that width and sign."""
        return self.view(self.value(index), width, signed, context)

    def view(self, form: Form, width: int, signed: bool, context: int) -> Form:
        """A form that equals the number that a machine sees in a value of that width and sign."""
        low, high = limits(width, signed)
        bottom, top = self.symbols.low(form), self.symbols.high(form)
        if low <= bottom and top <= high:
            return form
        key = (form.key, width, signed)
        known = self._views.get(key)
        if known is not None:
            return known
        fitted = self._fitted(form, bottom, top, width, low, high)
        if fitted is None:
            facts = self.facts(context)
            if facts is not None:
                bottom, top = self.lower(form, facts), self.upper(form, facts)
                fitted = self._fitted(form, bottom, top, width, low, high)
            if fitted is not None:
                return fitted  # holds in this context only
        if fitted is None and self.trips.assumed(form, low, high):
            return form
        if fitted is None:
            loaded = any(self.symbols.all[n].loaded for n in form.terms)
            fitted = self.symbols.add(Symbol(low, high, self.symbols.loops([form]), loaded=loaded))
        self._views[key] = fitted
        return fitted

    def _fitted(self, form: Form, bottom: Bound, top: Bound, width: int, low: int, high: int) -> Form | None:
        if bottom == -inf or top == inf:
            return None
        turns = (int(bottom) - low) >> width
        if int(top) - (turns << width) <= high:
            return form.moved(-(turns << width))
        return None

    def upper(self, form: Form, facts: Sequence[Form]) -> Bound:
        return bounds.upper(self.symbols, form, facts)

    def lower(self, form: Form, facts: Sequence[Form]) -> Bound:
        return bounds.lower(self.symbols, form, facts)

    # Conditions.

    def above(self, context: int) -> set[int]:
        """The contexts that hold where this one does."""
        found = {0}
        while context:
            found.add(context)
            context = self.template.contexts[context].parent
        return found

    def facts(self, context: int) -> list[Form] | None:
        """What holds in a context; None when the launch never gets there."""
        for known in reversed(self._facts):
            if context in known:
                return known[context]
        entry = self.template.contexts[context]
        before = self.facts(entry.parent)
        if before is None or entry.predicate < 0:
            return before
        self._facts[-1][context] = before  # while the predicate is being looked at
        found = self.predicates.facts(entry.predicate, entry.truth)
        if found is not None:
            found = None if self.impossible(found, before) else before + found
        self._facts[-1][context] = found
        return found

    def impossible(self, found: Sequence[Form], before: Sequence[Form]) -> bool:
        """Whether a fact cannot hold."""
        return any(self.lower(each, before) > 0 for each in found)


def limits(width: int, signed: bool) -> tuple[int, int]:
    """The least and the greatest number of a width and sign."""
    return (-(1 << width - 1), (1 << width - 1) - 1) if signed else (0, (1 << width) - 1)
