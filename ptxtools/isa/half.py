"""f16 and bf16 arithmetic, single and packed.

Every result is rounded once: operands are exact in f32, fused products and bf16 products in f64.
"""

from __future__ import annotations

from ptxtools.isa.row import OpClass, Row, Rows, dotted
from ptxtools.isa.types import Type

GROUP = "half"
_KINDS = (Type.F16, Type.F16X2, Type.BF16, Type.BF16X2)


def _row(key: str, kind: Type, count: int, value: str) -> Row:
    return Row(key, kind, (kind,) * count, value, OpClass.F16, GROUP)


def _flushed(value: str, count: int) -> str:
    for name in "ABC"[:count]:
        value = value.replace(name, f"f16_flush({name})")
    return f"f16_flush_rounded({value})"


def _arithmetic(kind: Type) -> Rows:
    word = kind.value
    f16 = kind.element is Type.F16
    product = "A * B" if f16 else "f32_from_f64_odd((double)A * (double)B)"
    for name, value in {"add": "A + B", "sub": "A - B", "mul": product}.items():
        for mode in ("", "rn"):
            for ftz in ("", "ftz") if f16 else ("",):
                for sat in ("", "sat") if f16 else ("",):
                    result = _flushed(value, 2) if ftz else value
                    yield _row(
                        dotted(name, mode, ftz, sat, word), kind, 2, f"f32_saturate({result})" if sat else result
                    )
    for ftz in ("", "ftz") if f16 else ("",):
        fused = f"{kind.element.value}_fma(A, B, C)"
        result = _flushed(fused, 3) if ftz else fused
        yield _row(dotted("fma.rn", ftz, word), kind, 3, result)
        yield _row(dotted("fma.rn", ftz, "relu", word), kind, 3, f"half_relu({result})")
        if f16:
            yield _row(dotted("fma.rn", ftz, "sat", word), kind, 3, f"f32_saturate({result})")


def _signs(kind: Type) -> Rows:
    for name in ("neg", "abs"):
        yield _row(f"{name}.{kind.value}", kind, 1, f"f32_{name}(A)")
        if kind.element is Type.F16:
            yield _row(f"{name}.ftz.{kind.value}", kind, 1, f"f32_{name}(f16_flush(A))")


def _extremes(kind: Type) -> Rows:
    for name in ("min", "max"):
        for ftz in ("", "ftz") if kind.element is Type.F16 else ("",):
            a, b = ("f16_flush(A)", "f16_flush(B)") if ftz else ("A", "B")
            for nan in ("", "NaN"):
                function = f"f32_{name}_nan" if nan else f"f32_{name}"
                yield _row(dotted(name, ftz, nan, kind.value), kind, 2, f"{function}({a}, {b})")
                yield _row(
                    dotted(name, ftz, nan, "xorsign.abs", kind.value),
                    kind,
                    2,
                    f"f32_xorsign({function}(f32_abs({a}), f32_abs({b})), A, B)",
                )


def rows() -> Rows:
    for kind in _KINDS:
        for family in (_arithmetic, _signs, _extremes):
            yield from family(kind)
