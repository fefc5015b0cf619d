"""Redundant phis: sets of phis whose only operand from outside the set is one value.

In a loop whose body has joins, the header's phi and those in the body refer to each other and to nothing else but
the initial value. (Braun et al., Simple and Efficient Construction of Static Single Assignment Form, 3.2.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

Operands = Callable[[int], Iterable[int]]


def replace_same(phis: Iterable[int], operands: Operands, replace: Callable[[int, int], None]) -> None:
    """Calls `replace` with each such join and its value. `operands`: of a join, as they are after what was replaced."""
    for group in _Groups(phis, operands).found():
        outside = {arg for join in group for arg in operands(join)} - group
        if len(outside) == 1:
            (value,) = outside
            for join in group:
                replace(join, value)
        elif len(group) > 1 and outside:
            replace_same([join for join in group if group.issuperset(operands(join))], operands, replace)


class _Groups:
    """Joins that lead to each other, operands first (Tarjan's strongly connected components)."""

    def __init__(self, phis: Iterable[int], operands: Operands) -> None:
        self._operands = operands
        self._on_stack = dict.fromkeys(phis, False)
        self._stack: list[int] = []
        self._order: dict[int, int] = {}
        self._lowest: dict[int, int] = {}  # by join: the first one on the stack that it leads to, as far as seen
        self._way: list[tuple[int, Iterator[int]]] = []

    def found(self) -> Iterator[set[int]]:
        for root in self._on_stack:
            if root not in self._order:
                self._enter(root)
            while self._way:
                join, rest = self._way[-1]
                following = next((arg for arg in rest if self._is_new(arg, join)), None)
                if following is not None:
                    self._enter(following)
                    continue
                self._way.pop()
                if self._way:
                    before = self._way[-1][0]
                    self._lowest[before] = min(self._lowest[before], self._lowest[join])
                if self._lowest[join] == self._order[join]:
                    yield self._taken(join)

    def _enter(self, join: int) -> None:
        self._order[join] = self._lowest[join] = len(self._order)
        self._on_stack[join] = True
        self._stack.append(join)
        self._way.append((join, iter(self._operands(join))))

    def _is_new(self, arg: int, join: int) -> bool:
        if self._on_stack.get(arg):
            self._lowest[join] = min(self._lowest[join], self._order[arg])
        return arg in self._on_stack and arg not in self._order

    def _taken(self, join: int) -> set[int]:
        group: set[int] = set()
        while join not in group:
            each = self._stack.pop()
            self._on_stack[each] = False
            group.add(each)
        return group
