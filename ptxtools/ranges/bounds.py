"""Upper bounds of forms under facts.

Any facts f <= 0 with multipliers m >= 0 bound a form: form <= form - m * f. The bound of the right side from the
symbols' own bounds is lowered step by step, each step taking away the multiple of a fact that removes one symbol.
Every intermediate result is a valid bound. A form is its constant and a multiple of what divides all its coefficients:
so the bound is rounded to that in the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import gcd, inf

from ptxtools.ranges.form import Bound, Form, Symbols

_STEPS = 12
_LARGEST_SCALE = 1 << 160

Score = tuple[int, Bound]  # how many terms are unbounded; the sum of the others


def upper(symbols: Symbols, form: Form, facts: Sequence[Form]) -> Bound:
    """The least bound found; infinite when there is none."""
    if not form.terms:
        return form.constant
    current, scale = form, 1
    score = _score(symbols, form)
    for _ in range(_STEPS):
        step = _best_step(symbols, current, scale, score, facts)
        if step is None:
            break
        current, scale, score = step
    if score[0]:
        return inf
    bound = score[1] // scale
    return bound - (bound - form.constant) % form.content()


def lower(symbols: Symbols, form: Form, facts: Sequence[Form]) -> Bound:
    return -upper(symbols, form.times(-1), facts)


def _score(symbols: Symbols, form: Form) -> Score:
    unbounded, total = 0, form.constant
    for number, c in form.terms.items():
        symbol = symbols.all[number]
        bound = symbol.high if c > 0 else symbol.low
        if bound in (inf, -inf):
            unbounded += 1
        else:
            total += c * int(bound)
    return unbounded, total


def _best_step(
    symbols: Symbols, form: Form, scale: int, score: Score, facts: Sequence[Form]
) -> tuple[Form, int, Score] | None:
    best: tuple[Form, int, Score] | None = None
    best_score, best_scale = score, scale
    terms = form.terms
    symbols.spend(1 + len(facts))
    for fact in _relevant(symbols, form, facts):
        for number, b in fact.terms.items():
            a = terms.get(number)
            if a is None or (a > 0) != (b > 0):
                continue
            common = gcd(a, b)
            factor, multiple = abs(b) // common, abs(a) // common
            candidate_scale = scale * factor
            if candidate_scale > _LARGEST_SCALE:
                continue
            candidate = form.times(factor).plus(fact, -multiple)
            symbols.spend(len(candidate.terms))
            found = _score(symbols, candidate)
            # Compares found / candidate_scale with best_score / best_scale.
            if (found[0], found[1] * best_scale) < (best_score[0], best_score[1] * candidate_scale):
                best, best_score, best_scale = (candidate, candidate_scale, found), found, candidate_scale
    return best


def _relevant(symbols: Symbols, form: Form, facts: Sequence[Form]) -> Iterable[Form]:
    yield from facts
    for number in form.terms:
        yield from symbols.all[number].facts
