"""Redundant phis: sets of phis whose only operand from outside the set is one value.

In a loop whose body has phis, the header's phi and those in the body refer to each other and to nothing else but
the initial value. (Braun et al., Simple and Efficient Construction of Static Single Assignment Form, 3.2.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

Operands = Callable[[int], Iterable[int]]


def replace_same(phis: Iterable[int], operands: Operands, replace: Callable[[int, int], None]) -> None:
    """Calls `replace` with each such phi and its value. `operands`: of a phi, as they are after what was replaced."""
    for group in _Groups(phis, operands).found():
        outside = {arg for phi in group for arg in operands(phi)} - group
        if len(outside) == 1:
            (value,) = outside
            for phi in group:
                replace(phi, value)
        elif len(group) > 1 and outside:
            replace_same([phi for phi in group if group.issuperset(operands(phi))], operands, replace)


class _Groups:
    """Phis that lead to each other, operands first (Tarjan's strongly connected components)."""

    def __init__(self, phis: Iterable[int], operands: Operands) -> None:
        self._operands = operands
        self._on_stack = dict.fromkeys(phis, False)
        self._stack: list[int] = []
        self._order: dict[int, int] = {}
        self._lowest: dict[int, int] = {}  # by phi: the first one on the stack that it leads to, as far as seen
        self._path: list[tuple[int, Iterator[int]]] = []

    def found(self) -> Iterator[set[int]]:
        for root in self._on_stack:
            if root not in self._order:
                self._enter(root)
            while self._path:
                phi, rest = self._path[-1]
                following = next((arg for arg in rest if self._is_new(arg, phi)), None)
                if following is not None:
                    self._enter(following)
                    continue
                self._path.pop()
                if self._path:
                    before = self._path[-1][0]
                    self._lowest[before] = min(self._lowest[before], self._lowest[phi])
                if self._lowest[phi] == self._order[phi]:
                    yield self._taken(phi)

    def _enter(self, phi: int) -> None:
        self._order[phi] = self._lowest[phi] = len(self._order)
        self._on_stack[phi] = True
        self._stack.append(phi)
        self._path.append((phi, iter(self._operands(phi))))

    def _is_new(self, arg: int, phi: int) -> bool:
        if self._on_stack.get(arg):
            self._lowest[phi] = min(self._lowest[phi], self._order[arg])
        return arg in self._on_stack and arg not in self._order

    def _taken(self, phi: int) -> set[int]:
        group: set[int] = set()
        while phi not in group:
            each = self._stack.pop()
            self._on_stack[each] = False
            group.add(each)
        return group
