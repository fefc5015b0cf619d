"""Comparisons: setp and set, on every type, with a boolean combination where one is written."""

from __future__ import annotations

from collections.abc import Iterator

from ptxtools.isa.row import Form, Kind, OpClass, Row, Rows, Transfer, dotted
from ptxtools.isa.types import Type

_SIGN = {
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "lo": "<",
    "ls": "<=",
    "hi": ">",
    "hs": ">=",
}
_ORDERED = ("eq", "ne", "lt", "le", "gt", "ge")
_COMBINE = ("", "and", "or", "xor")
_BITS = (Type.B16, Type.B32, Type.B64)
_UNSIGNED = (Type.U16, Type.U32, Type.U64)
_SIGNED = (Type.S16, Type.S32, Type.S64)
_WORDS = (*_BITS, *_UNSIGNED, *_SIGNED)
_NUMBERS = (Type.F32, Type.F64, Type.F16, Type.BF16)


def _integer_tests(kind: Type) -> Iterator[tuple[str, str]]:
    """The comparisons that a type allows. eq and ne are the same on all types of a width."""
    names: tuple[str, ...] = ("eq", "ne") if kind in _BITS else _ORDERED
    if kind in _UNSIGNED:
        names += ("lo", "ls", "hi", "hs")
    for name in names:
        yield name, f"A {_SIGN[name]} B"


def _number_tests() -> Iterator[tuple[str, str]]:
    """Ordered tests are false on NaN, unordered ones (..u) true."""
    opposite = {"eq": "ne", "ne": "eq", "lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}
    for name in _ORDERED:
        ordered = "(A < B) | (A > B)" if name == "ne" else f"A {_SIGN[name]} B"
        yield name, ordered
        unordered = "!((A < B) | (A > B))" if name == "eq" else f"!(A {_SIGN[opposite[name]]} B)"
        yield name + "u", unordered
    yield "num", "(A == A) & (B == B)"
    yield "nan", "(A != A) | (B != B)"


def _tests(kind: Type) -> Iterator[tuple[str, str, str]]:
    """(comparison, ftz suffix, condition) of every spelling for the type."""
    if not kind.floating:
        for name, test in _integer_tests(kind):
            yield name, "", test
        return
    for name, test in _number_tests():
        yield name, "", test
        if kind in (Type.F32, Type.F16, Type.F16X2):
            flush = f"{kind.element.value}_flush"
            yield name, "ftz", test.replace("A", f"{flush}(A)").replace("B", f"{flush}(B)")


def _spellings(first: str, kinds: tuple[Type, ...], results: tuple[Type, ...]) -> Rows:
    form = Form.TEST if first == "setp" else Form.SET
    for kind in kinds:
        for name, ftz, test in _tests(kind):
            for result in results:
                for combine in _COMBINE:
                    key = dotted(first, name, combine, ftz, "" if form is Form.TEST else result.value, kind.value)
                    transfer = Transfer(Kind.COMPARE, kind.bits, kind.signed, detail=dotted(name, combine))
                    sources = (kind, kind, Type.PRED) if combine else (kind, kind)
                    yield Row(key, result, sources, test, OpClass.INT, "compare", transfer, form=form, combine=combine)


def rows() -> Rows:
    """setp on packed halves has two results: the low halves' and, in the second predicate, the high halves'."""
    yield from _spellings("setp", (*_WORDS, *_NUMBERS, Type.F16X2, Type.BF16X2), (Type.PRED,))
    yield from _spellings("set", (*_WORDS, *_NUMBERS), (Type.U32, Type.S32))
    yield from _spellings("set", (*_WORDS, Type.F32, Type.F64), (Type.F32,))
    for half in (Type.F16, Type.BF16):
        yield from _spellings("set", (half,), (half, Type.U16, Type.S16))
        packed = Type(f"{half.value}x2")
        for name, ftz, test in _tests(packed):
            yield Row(
                dotted("set", name, ftz, packed.value, packed.value),
                packed,
                (packed, packed),
                f"({test}) ? 1.0f : 0.0f",
                OpClass.INT,
                "half",
            )
