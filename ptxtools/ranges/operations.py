"""What makers of forms have in common, whatever the operation: operands, bounds, new symbols."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ptxtools.access.template import Node, Op
from ptxtools.ranges.form import Bound, Form, Symbol

if TYPE_CHECKING:
    from ptxtools.ranges.evaluate import Evaluation


class Operations:
    """`makers`: by operation, what gives a form congruent to a node's value modulo 2 to its width."""

    makers: dict[Op, Callable[[Node], Form]]

    def __init__(self, evaluation: Evaluation) -> None:
        self._of = evaluation

    def _arg(self, node: Node, position: int) -> Form:
        return self._of.value(node.args[position])

    def _seen(self, node: Node, position: int) -> Form:
        """The operand as the number that the instruction sees."""
        return self._of.viewed(node.args[position], node.width, node.signed, node.context)

    def _number(self, form: Form) -> int | None:
        return self._of.symbols.number(form)

    def _between(self, low: Bound, high: Bound, *sources: Form, mask: int | None = None) -> Form:
        """A new symbol with these bounds that varies where its sources do."""
        loops = self._of.symbols.loops(sources)
        return self._of.symbols.add(Symbol(low, high, loops, mask))

    def _bounds(self, form: Form) -> tuple[Bound, Bound]:
        return self._of.symbols.low(form), self._of.symbols.high(form)
