"""Quotients and remainders by a number as symbols with value = divisor * quotient + remainder among their facts."""

from __future__ import annotations

from math import inf

from ptxtools.ranges.form import Form, Symbol, Symbols

_Key = tuple[int, tuple[tuple[int, int], ...], int]


class Division:
    """Floor division; equal questions get equal answers."""

    def __init__(self, symbols: Symbols) -> None:
        self._symbols = symbols
        self._known: dict[_Key, tuple[Form, Form]] = {}
        self._origin: dict[int, tuple[Form, int]] = {}  # quotient's symbol: what was divided, by what

    def quotient(self, form: Form, divisor: int) -> Form:
        """The value divided by a positive number, rounded down. A quotient divided again is a quotient by the
        product.
        """
        if len(form.terms) == 1 and form.constant == 0:
            ((number, c),) = form.terms.items()
            if c == 1 and number in self._origin:
                form, first = self._origin[number]
                divisor *= first
        return self._both(form, divisor)[0]

    def remainder(self, form: Form, divisor: int) -> Form:
        """What rounding down leaves: at least 0 and below the divisor."""
        return self._both(form, divisor)[1]

    def origin(self, form: Form) -> tuple[Form, int] | None:
        """(value, divisor) of a form that is nothing but a quotient."""
        if len(form.terms) != 1 or form.constant != 0:
            return None
        ((number, c),) = form.terms.items()
        return self._origin.get(number) if c == 1 else None

    def mark(self) -> int:
        """How many answers are known; for `forget`."""
        return len(self._known)

    def forget(self, mark: int) -> None:
        """Forgets the answers given since the mark: their bounds were those of a trial."""
        while len(self._known) > mark:
            self._known.popitem()

    def _both(self, form: Form, divisor: int) -> tuple[Form, Form]:
        if divisor == 1:
            return form, Form(0)
        whole, rest = _split(form, divisor)
        low, high = self._symbols.low(rest), self._symbols.high(rest)
        if low >= 0 and high < divisor:
            return whole, rest
        quotient, remainder = self._symbol(rest, divisor)
        return quotient.plus(whole), remainder

    def _symbol(self, form: Form, divisor: int) -> tuple[Form, Form]:
        key = (*form.key, divisor)
        known = self._known.get(key)
        if known is not None:
            return known
        low, high = self._symbols.low(form), self._symbols.high(form)
        loops = self._symbols.loops([form])
        bottom = low // divisor if low != -inf else -inf
        top = high // divisor if high != inf else inf
        quotient = self._symbols.add(Symbol(bottom, top, loops))
        if not quotient.terms:
            remainder = self._symbols.plain(form.plus(quotient, -divisor))
        else:
            power = divisor & (divisor - 1) == 0
            remainder = self._symbols.add(Symbol(0, divisor - 1, loops, mask=divisor - 1 if power else None))
            rest = form.plus(quotient, -divisor).plus(remainder, -1)
            for each in (quotient, remainder):
                for number in each.terms:
                    self._symbols.all[number].facts += [rest, rest.times(-1)]
                    self._symbols.all[number].zeros.append(rest)
            for number in quotient.terms:
                self._origin[number] = (form, divisor)
        self._known[key] = quotient, remainder
        return quotient, remainder


def _split(form: Form, divisor: int) -> tuple[Form, Form]:
    """form = divisor * first + second, the coefficients of the second being smaller than the divisor."""
    whole, rest = {}, {}
    for symbol, c in form.terms.items():
        times = c // divisor if c >= 0 else -(-c // divisor)
        if times:
            whole[symbol] = times
        if c != times * divisor:
            rest[symbol] = c - times * divisor
    return Form(form.constant // divisor, whole), Form(form.constant % divisor, rest)
