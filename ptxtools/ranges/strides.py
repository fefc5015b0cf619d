"""The set of bytes that an address form describes, as first, last, stride and width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, inf

from ptxtools.ranges.bounds import lower, upper
from ptxtools.ranges.form import Form, Symbols

_REWRITES = 4
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
    low, high = lower(symbols, form, facts), upper(symbols, form, facts)
    if low == -inf or high == inf:
        return None
    first, last = int(low), int(high) + size - 1
    stride, width, share = 0, 0, _SPARSE
    for each in _writings(symbols, form):
        found = _stride(symbols, each, facts, first, size)
        if found[0] and found[1] / found[0] < share:
            (stride, width), share = found, found[1] / found[0]
    if not stride or first + width - 1 >= last:
        return Shape(first, last, 0, 0, size)
    return Shape(first, last, stride, width, size)


def _writings(symbols: Symbols, form: Form) -> list[Form]:
    """The form, and what it is with divided values written as divisor * quotient + remainder."""
    found = [form]
    for _ in range(_REWRITES):
        latest = found[-1]
        better = next(
            filter(None, (_rewritten(latest, zero) for n in latest.terms for zero in symbols.all[n].zeros)), None
        )
        if better is None:
            break
        found.append(better)
    return found


def _rewritten(form: Form, zero: Form) -> Form | None:
    """The form plus a multiple of a zero that removes what was divided, which is its first term."""
    number, coefficient = next(iter(zero.terms.items()))
    present = form.terms.get(number, 0)
    if present == 0 or present % coefficient:
        return None
    return form.plus(zero, -(present // coefficient))


def _stride(symbols: Symbols, form: Form, facts: Sequence[Form], first: int, size: int) -> tuple[int, int]:
    """(stride, width) with the least share of bytes inside, (0, 0) when that is nearly all.

    The terms with the largest coefficients are taken as whole steps of their common divisor, the others as what is
    inside of a step.
    """
    terms = sorted(form.terms.items(), key=lambda term: -abs(term[1]))
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
