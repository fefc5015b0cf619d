"""Values that go together where paths meet: of a counter and a pointer that both went on, one is known by the other.

Each is one of several forms, by the way that was taken. If each way's form of the one is the same multiple of its form
of the other plus the same form, that holds of what comes out, and one symbol does for both.

What such a form is made of was made before the paths met, on every way, or else it would be in none of the ways' forms.
So nothing of it is computed again before the value that came out is: the latter's symbol and the others go together
wherever it is used. That does not hold where one of the others is used: facts lie with the symbol that came out alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from ptxtools.ranges.form import ZERO, Form

_MOST = 4  # values of one meeting that others are compared with

Place = tuple[int, tuple[int, ...]]  # a block, and the contexts of the ways into it that can be taken


class Meetings:
    """What came out where paths met. `begin_trial`, `end_trial`: what is found in between is forgotten.

    Facts about a symbol stay with it: so none that was made before a trial gets any.
    """

    def __init__(self) -> None:
        self._known: list[dict[Place, list[tuple[Sequence[Form], Form]]]] = [{}]

    def begin_trial(self) -> None:
        self._known.append({})

    def end_trial(self) -> None:
        self._known.pop()

    def add(self, place: Place, options: Sequence[Form], result: Form) -> None:
        """Keeps the symbol that options became; of a form that is one of them nothing is kept."""
        known = self._known[-1].setdefault(place, [])
        is_new = len(result.terms) == 1 and all(result.key != each.key for each in options)
        if is_new and _is_place(place) and len(known) < _MOST:
            known.append((options, result))

    def find(self, place: Place, options: Sequence[Form]) -> tuple[Form, Form] | None:
        """What options become that go with others, and the symbol of these; None when they go with none."""
        for others, result in self._known[-1].get(place, ()):
            factor = _factor(options, others)
            if factor:
                return options[0].plus(others[0], -factor).plus(result, factor), result
        return None

    def on_way(self, place: Place, way: int) -> list[Form]:
        """What is known of all that came out by one of the ways: forms that are at most 0."""
        found = []
        for trial in reversed(self._known):
            for options, result in trial.get(place, ()):
                apart = result.plus(options[way], -1)
                found += [apart, apart.times(-1)]
        return found


def _is_place(place: Place) -> bool:
    """Whether each way is known by its context: steps of loops join what comes from anywhere."""
    ways = place[1]
    return 0 not in ways and len(set(ways)) == len(ways)


def _factor(options: Sequence[Form], others: Sequence[Form]) -> int:
    """The multiple of the others' differences that the options' are; 0 when there is none."""
    factor = 0
    for one, other in zip(options[1:], others[1:], strict=True):
        apart, by = one.plus(options[0], -1), other.plus(others[0], -1)
        if apart.key == by.key == ZERO.key:
            continue
        factor = factor or _quotient(apart, by)
        if not factor or apart.key != by.times(factor).key:
            return 0
    return factor


def _quotient(apart: Form, by: Form) -> int:
    """By the first term, or the number, of what is divided by; 0 when that is 0 or leaves a rest."""
    symbol, divisor = next(iter(by.terms.items()), (-1, by.constant))
    dividend = apart.constant if symbol < 0 else apart.terms.get(symbol, 0)
    quotient, rest = divmod(dividend, divisor) if divisor else (0, 0)
    return 0 if rest else quotient
