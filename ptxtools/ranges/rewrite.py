"""The same form in other words: divided values as divisor * quotient + remainder."""

from __future__ import annotations

from ptxtools.ranges.form import Form, Symbols

REWRITES = 4  # one after the other


def writings(symbols: Symbols, form: Form) -> list[Form]:
    """The form, and what it is with divided values written as divisor * quotient + remainder.

    Of several such steps the one that leaves the fewest terms: not what the order says in which symbols were made.
    """
    found = [form]
    for _ in range(REWRITES):
        latest = found[-1]
        better = min(
            filter(None, (rewritten(latest, zero) for n in latest.terms for zero in symbols.all[n].zeros)),
            key=lambda form: len(form.terms),
            default=None,
        )
        if better is None:
            break
        found.append(better)
    return found


def rewritten(form: Form, zero: Form) -> Form | None:
    """The form plus a multiple of a zero that removes what was divided, which is its first term."""
    number, coefficient = next(iter(zero.terms.items()))
    present = form.terms.get(number, 0)
    if present == 0 or present % coefficient:
        return None
    return form.plus(zero, -(present // coefficient))
