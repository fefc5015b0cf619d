"""The set of bytes that an address form describes, as first, last, stride and width."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import gcd, inf

from ptxtools.ranges.bounds import lower, upper
from ptxtools.ranges.form import Form, Symbols, fact
from ptxtools.ranges.rewrite import REWRITES, rewritten, writings

_MOST_FACTS = 24
_SPARSE = 0.95  # a stride is worth naming when fewer bytes than this share are inside


@dataclass(frozen=True, slots=True)
class Shape:
    """Bytes first to last; with a stride, only `width` of them at each multiple of it from first on. `size` of one
    access.
    """

    first: int
    last: int
    stride: int
    width: int
    size: int

    def moved(self, distance: int) -> Shape:
        return Shape(self.first + distance, self.last + distance, self.stride, self.width, self.size)


def shape(symbols: Symbols, form: Form, facts: Sequence[Form], size: int) -> Shape | None:
    """Bytes of accesses of `size` bytes at the addresses of a form; None when there is no bound."""
    written = writings(symbols, form)
    facts = [each for each in facts if symbols.high(each) > 0]  # which the symbols' bounds do not say already
    facts = [*facts, *_rewritten_facts(symbols, written, facts)]
    low = max(lower(symbols, each, facts) for each in written)
    high = min(upper(symbols, each, facts) for each in written)
    if low == -inf or high == inf:
        return None
    first, last = int(low), int(high) + size - 1
    stride, width, share = 0, 0, _SPARSE
    for each in written:
        found = _stride(symbols, each, facts, first, size)
        if found[0] and found[1] / found[0] < share:
            (stride, width), share = found, found[1] / found[0]
    if not stride or first + width - 1 >= last:
        return Shape(first, last, 0, 0, size)
    return Shape(first, last, stride, width, size)


def _rewritten_facts(symbols: Symbols, written: Sequence[Form], facts: Sequence[Form]) -> list[Form]:
    """Facts about divided values as facts about quotients: without the remainders, they can be rounded."""
    zeros = {zero.key: zero for form in written for number in form.terms for zero in symbols.all[number].zeros}
    if not zeros:
        return []
    found: list[Form] = []
    latest = list(facts)
    for _ in range(REWRITES):
        latest = [new for each in latest for zero in zeros.values() if (new := rewritten(each, zero)) is not None]
        latest = [new for each in latest for new in _rounded(symbols, each)][:_MOST_FACTS]
        found += latest
    return found


def _rounded(symbols: Symbols, each: Form) -> Iterator[Form]:
    """A fact, and what it says without its smallest terms: what is left can be divided and rounded."""
    yield each
    terms = _sorted(symbols, each)
    step, rest = 0, Form(0, each.terms)
    for count, (number, c) in enumerate(terms[:-1], start=1):
        step = gcd(step, c)
        rest = rest.plus(Form(0, {number: c}), -1)
        least = symbols.low(rest)
        if step > abs(terms[count][1]) and least != -inf:
            yield fact(Form(each.constant + int(least), dict(terms[:count])))


def _sorted(symbols: Symbols, form: Form) -> list[tuple[int, int]]:
    """Terms with the largest coefficients first, those whose symbols are numbers last."""

    def size(term: tuple[int, int]) -> int:
        symbol = symbols.all[term[0]]
        return 0 if symbol.low == symbol.high else abs(term[1])

    return sorted(form.terms.items(), key=size, reverse=True)


def _stride(symbols: Symbols, form: Form, facts: Sequence[Form], first: int, size: int) -> tuple[int, int]:
    """(stride, width) with the least share of bytes inside, (0, 0) when that is nearly all.

    The terms with the largest coefficients are taken as whole steps of their common divisor, the others as what is
    inside of a step.
    """
    terms = _sorted(symbols, form)
    best, best_share = (0, 0), _SPARSE
    step = 0
    for count, (_, coefficient) in enumerate(terms, start=1):
        step = gcd(step, coefficient)
        if count < len(terms) and abs(terms[count][1]) % step == 0:
            continue
        inner = Form(form.constant, dict(terms[count:]))
        low, high = lower(symbols, inner, facts), upper(symbols, inner, facts)
        if low == -inf or high == inf:
            continue
        width = int(high - low) + size
        if width / step < best_share and (first - int(low)) % step == 0:
            best, best_share = (step, width), width / step
    return best
