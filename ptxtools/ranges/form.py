"""Affine forms over symbols, and the symbols.

A form stands for a machine value of some width: it is congruent to it modulo 2 to that width. A symbol is an unknown
integer: a thread's or block's index, how many iterations of a loop have ended, or a value that no form describes.
A symbol means the latest such value at the place where a form is used. What is known of it lies in the symbol:
bounds, bits, and facts, which are forms that are at most 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import gcd, inf

Bound = int | float  # a float only when infinite
_MOST_WORK = 250_000  # terms of facts that are looked at, more or less: a second or two


class Form:
    """constant + sum of coefficient * symbol. Never changed once made."""

    __slots__ = ("constant", "terms")

    def __init__(self, constant: int = 0, terms: Mapping[int, int] | None = None) -> None:
        self.constant = constant
        self.terms: Mapping[int, int] = terms if terms is not None else {}

    def plus(self, other: Form, factor: int = 1) -> Form:
        """self + factor * other."""
        if not other.terms:
            return Form(self.constant + factor * other.constant, self.terms)
        terms = dict(self.terms)
        for symbol, coefficient in other.terms.items():
            total = terms.get(symbol, 0) + factor * coefficient
            if total:
                terms[symbol] = total
            else:
                terms.pop(symbol, None)
        return Form(self.constant + factor * other.constant, terms)

    def moved(self, distance: int) -> Form:
        return Form(self.constant + distance, self.terms) if distance else self

    def times(self, factor: int) -> Form:
        if factor == 1:
            return self
        if factor == 0:
            return ZERO
        return Form(self.constant * factor, {s: c * factor for s, c in self.terms.items()})

    @property
    def key(self) -> tuple[int, tuple[tuple[int, int], ...]]:
        return self.constant, tuple(sorted(self.terms.items()))

    def content(self) -> int:
        """The greatest common divisor of the coefficients; 0 without any."""
        return gcd(*self.terms.values()) if self.terms else 0

    def __repr__(self) -> str:
        return " + ".join([str(self.constant), *(f"{c}*s{s}" for s, c in self.terms.items())])


ZERO = Form()


@dataclass(slots=True)
class Symbol:
    """`loops`: the loops in which it takes new values. `mask`: the bits that may be set, None when not known.

    `slot`: offset of the kernel parameter whose value it is; `variable`: name of the variable whose address it is.
    `loaded`: it came from memory. `choices`: forms of which it is one. `zeros`: forms that are 0.
    `context`: where what is known of it holds; elsewhere it was not made.
    """

    low: Bound = -inf
    high: Bound = inf
    loops: frozenset[int] = frozenset()
    mask: int | None = None
    slot: int | None = None
    variable: str | None = None
    loaded: bool = False
    facts: list[Form] = field(default_factory=list)
    zeros: list[Form] = field(default_factory=list)
    choices: tuple[Form, ...] = ()
    context: int = 0


class TooMuchError(Exception):
    """An evaluation takes more work than it may."""


class Symbols:
    """All symbols of one evaluation, by number. `work`: how much it may still do."""

    def __init__(self) -> None:
        self.all: list[Symbol] = []
        self.work = _MOST_WORK

    def spend(self, work: int) -> None:
        """Errors: TooMuchError."""
        self.work -= work
        if self.work < 0:
            raise TooMuchError

    def add(self, symbol: Symbol) -> Form:
        """A form that is this symbol; a symbol of a single value is that number, unless it names a pointer."""
        if symbol.low == symbol.high and symbol.slot is None and symbol.variable is None:
            return Form(int(symbol.low))
        self.all.append(symbol)
        return Form(0, {len(self.all) - 1: 1})

    def low(self, form: Form) -> Bound:
        total: Bound = form.constant
        for number, c in form.terms.items():
            symbol = self.all[number]
            total += c * (symbol.low if c > 0 else symbol.high)
        return total

    def high(self, form: Form) -> Bound:
        total: Bound = form.constant
        for number, c in form.terms.items():
            symbol = self.all[number]
            total += c * (symbol.high if c > 0 else symbol.low)
        return total

    def number(self, form: Form) -> int | None:
        """The form's value when it has only one."""
        if not form.terms:
            return form.constant
        low, high = self.low(form), self.high(form)
        return int(low) if low == high else None

    def plain(self, form: Form) -> Form:
        """The form, or its value when it has only one: what is left of a pointer that is divided begins with none."""
        number = self.number(form)
        return form if number is None else Form(number)

    def settled(self, form: Form) -> Form:
        """The form with the number for each symbol that has only one value."""
        constant, terms = form.constant, {}
        for number, c in form.terms.items():
            symbol = self.all[number]
            if symbol.low == symbol.high:
                constant += c * int(symbol.low)
            else:
                terms[number] = c
        return Form(constant, terms)

    def loops(self, forms: Iterable[Form]) -> frozenset[int]:
        """The loops in which any of the forms takes new values."""
        found: frozenset[int] = frozenset()
        for form in forms:
            for number in form.terms:
                found |= self.all[number].loops
        return found

    def mask(self, form: Form) -> int | None:
        """The bits that may be set in a value that is never negative; None when not known."""
        if form.constant < 0:
            return None
        result = form.constant
        for number, c in form.terms.items():
            symbol = self.all[number]
            if c < 0 or c & (c - 1) or symbol.low < 0 or symbol.high == inf:
                return self._loose_mask(form)
            bits = symbol.mask if symbol.mask is not None else (1 << int(symbol.high).bit_length()) - 1
            if result & (bits * c):
                return self._loose_mask(form)
            result |= bits * c
        return result

    def _loose_mask(self, form: Form) -> int | None:
        return self.mask_between(form, self.low(form), self.high(form))

    def mask_between(self, form: Form, low: Bound, high: Bound) -> int | None:
        """From bounds, and from the powers of two that divide everything."""
        if low < 0 or high == inf:
            return None
        common = gcd(form.content(), form.constant)
        lowest = common & -common if common else 1
        return ((1 << int(high).bit_length()) - 1) & ~(lowest - 1)


def fact(form: Form) -> Form:
    """The strongest form of `form` <= 0 over integers."""
    divisor = form.content()
    if divisor <= 1:
        return form
    return Form(-(-form.constant // divisor), {s: c // divisor for s, c in form.terms.items()})
