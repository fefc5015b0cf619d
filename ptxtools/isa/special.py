"""The .approx functions. Errors are far below what PTX documents; special values are the documented ones."""

from __future__ import annotations

from ptxtools.isa.row import OpClass, Row, Rows, dotted
from ptxtools.isa.types import Type

GROUP = "special"
_UNARY = ("rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2")


def _row(key: str, kind: Type, count: int, value: str) -> Row:
    return Row(key, kind, (kind,) * count, value, OpClass.SPECIAL, GROUP)


def rows() -> Rows:
    for name in _UNARY:
        yield _row(f"{name}.approx.f32", Type.F32, 1, f"f32_canonical(approx_{name}(A))")
        yield _row(f"{name}.approx.ftz.f32", Type.F32, 1, f"f32_canonical(f32_flush(approx_{name}(f32_flush(A))))")
    yield _row("tanh.approx.f32", Type.F32, 1, "f32_canonical(approx_tanh(A))")
    for mode in ("approx", "full"):
        for ftz in ("", "ftz"):
            value = f"f32_flush(approx_div_{mode}(f32_flush(A), f32_flush(B)))" if ftz else f"approx_div_{mode}(A, B)"
            yield _row(dotted("div", mode, ftz, "f32"), Type.F32, 2, f"f32_canonical({value})")
    yield _row("rcp.approx.ftz.f64", Type.F64, 1, "approx_rcp_f64(A)")
    yield _row("rsqrt.approx.ftz.f64", Type.F64, 1, "approx_rsqrt_f64(A)")
    yield _row("rsqrt.approx.f64", Type.F64, 1, "f64_nan1(1.0 / f64_sqrt(A), A)")
    for kind in (Type.F16, Type.F16X2, Type.BF16, Type.BF16X2):
        yield _row(f"tanh.approx.{kind.value}", kind, 1, "approx_tanh(A)")
        if kind.element is Type.F16:
            yield _row(f"ex2.approx.{kind.value}", kind, 1, "approx_ex2(A)")
        else:
            yield _row(f"ex2.approx.ftz.{kind.value}", kind, 1, "f32_flush(approx_ex2(f32_flush(A)))")
