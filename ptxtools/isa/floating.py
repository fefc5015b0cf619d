"""IEEE arithmetic on f32 and f64: exact in every rounding direction, with flushing to zero and saturation."""

from __future__ import annotations

from collections.abc import Iterator

from ptxtools.isa.row import Form, OpClass, Rounding, Row, Rows, dotted
from ptxtools.isa.types import Type

BINARY = {"add": "A + B", "sub": "A - B", "mul": "A * B"}
_SINGLE_OR_DOUBLE = (Type.F32, Type.F64)


def finish(kind: Type, value: str, sat: str = "") -> str:
    """Applies saturation and the canonical NaN of f32 to an arithmetic expression."""
    if kind is Type.F64:
        return value
    return f"f32_saturate({value})" if sat else f"f32_canonical({value})"


def modifiers(kind: Type, *, saturating: bool = True) -> Iterator[tuple[str, str]]:
    """The (ftz, sat) suffixes that a type's arithmetic allows."""
    for ftz in ("", "ftz") if kind is Type.F32 else ("",):
        for sat in ("", "sat") if kind is Type.F32 and saturating else ("",):
            yield ftz, sat


def _row(
    key: str,
    kind: Type,
    count: int,
    value: str,
    cls: OpClass | None = None,
    rounding: Rounding = Rounding.NEAREST,
    flush: bool = False,
) -> Row:
    cls = cls or (OpClass.F32 if kind is Type.F32 else OpClass.F64)
    group = "rounded" if rounding is not Rounding.NEAREST or flush else kind.value
    return Row(key, kind, (kind,) * count, value, cls, group, rounding=rounding, flush=flush)


def _directions(*, optional: bool) -> Iterator[tuple[str, Rounding]]:
    if optional:
        yield "", Rounding.NEAREST
    yield "rn", Rounding.NEAREST
    for rounding in (Rounding.ZERO, Rounding.DOWN, Rounding.UP):
        yield rounding.value, rounding


def _sums_and_products() -> Rows:
    for kind in _SINGLE_OR_DOUBLE:
        for name, value in BINARY.items():
            if kind is Type.F64:
                value = f"f64_nan2({value}, A, B)"
            for mode, rounding in _directions(optional=True):
                for ftz, sat in modifiers(kind):
                    yield _row(
                        dotted(name, mode, ftz, sat, kind.value),
                        kind,
                        2,
                        finish(kind, value, sat),
                        rounding=rounding,
                        flush=bool(ftz),
                    )
        fused = "f32_fma(A, B, C)" if kind is Type.F32 else "f64_nan3(f64_fma(A, B, C), A, B, C)"
        for name in ("fma", "mad"):
            for mode, rounding in _directions(optional=False):
                for ftz, sat in modifiers(kind):
                    yield _row(
                        dotted(name, mode, ftz, sat, kind.value),
                        kind,
                        3,
                        finish(kind, fused, sat),
                        rounding=rounding,
                        flush=bool(ftz),
                    )


def _quotients_and_roots() -> Rows:
    for kind in _SINGLE_OR_DOUBLE:
        word = kind.value
        forms = {"div": (2, "A / B"), "rcp": (1, f"({kind.carrier})1 / A"), "sqrt": (1, f"{word}_sqrt(A)")}
        for name, (count, value) in forms.items():
            if kind is Type.F64:
                value = f"f64_nan2({value}, A, B)" if count == 2 else f"f64_nan1({value}, A)"
            for mode, rounding in _directions(optional=False):
                for ftz, _ in modifiers(kind, saturating=False):
                    yield _row(
                        dotted(name, mode, ftz, word),
                        kind,
                        count,
                        finish(kind, value),
                        OpClass.SPECIAL,
                        rounding,
                        bool(ftz),
                    )


def _signs() -> Rows:
    for kind in _SINGLE_OR_DOUBLE:
        word = kind.value
        for name in ("neg", "abs"):
            for ftz, _ in modifiers(kind, saturating=False):
                operand = "f32_flush(A)" if ftz else "A"
                value = f"{word}_{name}({operand})"
                yield _row(dotted(name, ftz, word), kind, 1, f"f32_canonical({value})" if kind is Type.F32 else value)
        yield _row(f"copysign.{word}", kind, 2, f"{word}_copysign(B, A)")
        for test in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
            yield Row(
                f"testp.{test}.{word}",
                Type.PRED,
                (kind,),
                f"{word}_is_{test}(A)",
                OpClass.INT,
                "compare",
                raw=True,
                form=Form.TEST,
            )


def _extremes() -> Rows:
    for name in ("min", "max"):
        yield _row(f"{name}.f64", Type.F64, 2, f"f64_{name}(A, B)")
        for ftz in ("", "ftz"):
            a, b, c = (f"f32_flush({x})" if ftz else x for x in "ABC")
            for nan in ("", "NaN"):
                function = f"f32_{name}_nan" if nan else f"f32_{name}"
                pair = f"{function}({a}, {b})"
                yield _row(dotted(name, ftz, nan, "f32"), Type.F32, 2, pair)
                yield _row(dotted("tsr", name + "3", ftz, nan, "f32"), Type.F32, 3, f"{function}({pair}, {c})")
                yield _row(
                    dotted(name, ftz, nan, "xorsign.abs", "f32"),
                    Type.F32,
                    2,
                    f"f32_xorsign({function}(f32_abs({a}), f32_abs({b})), A, B)",
                )


def rows() -> Rows:
    for family in (_sums_and_products, _quotients_and_roots, _signs, _extremes):
        yield from family()
