"""cvt between all types, in all roundings."""

from __future__ import annotations

from collections.abc import Iterator

from ptxtools.isa.row import OPAQUE, Kind, OpClass, Part, Rounding, Row, Rows, Transfer, dotted
from ptxtools.isa.types import Type

GROUP = "convert"
_INTEGERS = (Type.U8, Type.S8, Type.U16, Type.S16, Type.U32, Type.S32, Type.U64, Type.S64)
_FLOATS = (Type.F16, Type.BF16, Type.F32, Type.F64)
_DIRECTED = (Rounding.ZERO, Rounding.DOWN, Rounding.UP)
_TO_INTEGER = {"rni": "rint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}


def _row(
    key: str,
    dst: Type,
    sources: tuple[Type, ...],
    value: str,
    transfer: Transfer = OPAQUE,
    *,
    raw: bool = False,
    rounding: Rounding = Rounding.NEAREST,
    group: str = GROUP,
) -> Row:
    return Row(key, dst, sources, value, OpClass.CONVERT, group, transfer, raw=raw, rounding=rounding)


def _limits(kind: Type) -> tuple[int, int]:
    return (-(1 << kind.bits - 1), (1 << kind.bits - 1) - 1) if kind.signed else (0, (1 << kind.bits) - 1)


def _between_integers() -> Rows:
    for dst in _INTEGERS:
        for src in _INTEGERS:
            transfer = Transfer(
                Kind.CONVERT, min(src.bits, dst.bits), src.signed if src.bits <= dst.bits else dst.signed, Part.LOW
            )
            yield _row(f"cvt.{dst.value}.{src.value}", dst, (src,), f"({dst.carrier})A", transfer, group="cvt_integer")
            if _limits(dst)[0] <= _limits(src)[0] and _limits(src)[1] <= _limits(dst)[1]:
                continue
            low, high = (f"({src.carrier}){bound}{'ull' if src is Type.U64 else ''}" for bound in _limits(dst))
            value = f"({dst.carrier})A"
            if _limits(src)[0] < _limits(dst)[0]:
                value = f"A < {low} ? ({dst.carrier}){low} : {value}"
            if _limits(src)[1] > _limits(dst)[1]:
                value = f"A > {high} ? ({dst.carrier}){high} : {value}"
            yield _row(
                f"cvt.sat.{dst.value}.{src.value}",
                dst,
                (src,),
                value,
                Transfer(Kind.CONVERT, dst.bits, dst.signed, saturate=True),
                group="cvt_integer",
            )


def _roundings() -> Iterator[tuple[str, Rounding]]:
    yield "rn", Rounding.NEAREST
    for rounding in _DIRECTED:
        yield rounding.value, rounding


def _saturations(*kinds: Type) -> tuple[str, ...]:
    """.sat does not go with bf16."""
    return ("",) if Type.BF16 in kinds else ("", "sat")


def _half(kind: Type, mode: str, exact_or_odd: str) -> str:
    """A float that holds the number, or its rounding to odd, brought to the half type's precision in a direction."""
    return exact_or_odd if mode == "rn" else f"{kind.value}_round_{mode}({exact_or_odd})"


def _saturated(kind: Type, value: str, sat: str) -> str:
    if not sat:
        return value
    return f"f64_saturate({value})" if kind is Type.F64 else f"f32_saturate({value})"


def _from_integers() -> Rows:
    for dst in _FLOATS:
        for src in _INTEGERS:
            for mode, rounding in _roundings():
                for sat in _saturations(dst):
                    key = dotted("cvt", mode, sat, dst.value, src.value)
                    if dst.half:
                        number = "(double)A" if src.bits <= 32 else f"{src.value}_to_f64_odd(A)"
                        value = _half(dst, mode, f"f32_from_f64_odd({number})")
                        yield _row(key, dst, (src,), _saturated(dst, value, sat), group="cvt_half")
                    else:
                        direct = rounding if src.bits >= (32 if dst is Type.F32 else 64) else Rounding.NEAREST
                        value = _saturated(dst, f"({dst.carrier})A", sat)
                        yield _row(
                            key, dst, (src,), value, rounding=direct, group="cvt_rounded" if direct.value else GROUP
                        )


def _to_integers() -> Rows:
    """Out of range saturates with and without .sat."""
    for src in _FLOATS:
        word = "f64" if src is Type.F64 else "f32"
        for dst in _INTEGERS:
            for mode, function in _TO_INTEGER.items():
                for ftz in ("", "ftz") if src is Type.F32 else ("",):
                    operand = "f32_flush(A)" if ftz else "A"
                    value = f"{word}_to_{dst.value}({word}_{function}({operand}))"
                    for sat in _saturations(src):
                        yield _row(
                            dotted("cvt", mode, ftz, sat, dst.value, src.value),
                            dst,
                            (src,),
                            value,
                            group="cvt_to_integer",
                        )


def _between_floats() -> Rows:
    for src in _FLOATS:
        for dst in _FLOATS:
            ftzs = ("", "ftz") if Type.F32 in (src, dst) else ("",)
            for ftz in ftzs:
                # Hardware does not flush what becomes f16.
                operand = "f32_flush(A)" if ftz and src is Type.F32 and dst is not Type.F16 else "A"
                for sat in _saturations(src, dst):
                    if src is dst or dst.bits > src.bits:
                        yield from _exact(dst, src, operand, ftz, sat)
                    if dst.bits <= src.bits and src is not dst:
                        yield from _narrowing(dst, src, operand, ftz, sat)


def _finished(dst: Type, value: str, ftz: str, sat: str, *, keeps_nan: bool = False) -> str:
    """`keeps_nan`: hardware moves the payload of a NaN instead of giving the canonical one."""
    if dst is Type.F32:
        value = f"f32_flush({value})" if ftz else value
        if not sat and not keeps_nan:
            return f"f32_canonical({value})"
    return _saturated(dst, value, sat)


def _exact(dst: Type, src: Type, operand: str, ftz: str, sat: str) -> Rows:
    """Widening, and rounding to an integer within one type."""
    value = operand
    if dst is Type.F64 and src is not Type.F64:
        value = f"(double){f'f32_canonical({operand})' if ftz else operand}"
    keeps_nan = not ftz and src in (Type.F32, Type.BF16)
    yield _row(
        dotted("cvt", ftz, sat, dst.value, src.value),
        dst,
        (src,),
        _finished(dst, value, ftz, sat, keeps_nan=keeps_nan),
        group="cvt_half",
    )
    if src is not dst:
        return
    word = "f64" if src is Type.F64 else "f32"
    for mode, function in _TO_INTEGER.items():
        whole = f"{word}_{function}({operand})"
        if src is Type.F64:
            whole = f"f64_nan1({whole}, A)"
        yield _row(
            dotted("cvt", mode, ftz, sat, dst.value, src.value),
            dst,
            (src,),
            _finished(dst, whole, ftz, sat),
            group="cvt_half",
        )


def _narrowing(dst: Type, src: Type, operand: str, ftz: str, sat: str) -> Rows:
    for mode, rounding in _roundings():
        key = dotted("cvt", mode, ftz, sat, dst.value, src.value)
        if dst is Type.F32:
            group = "cvt_rounded" if rounding.value or ftz else GROUP
            value = _finished(dst, "(float)A", "", sat, keeps_nan=True)
            yield Row(key, dst, (src,), value, OpClass.CONVERT, group, rounding=rounding, flush=bool(ftz))
            continue
        if src is Type.F64:
            value = _saturated(dst, _half(dst, mode, "f32_from_f64_odd(f64_from(A))"), sat)
            bits = f"{dst.value}_narrow({value})"
            yield _row(
                key, dst, (src,), bits if sat else f"{dst.value}_keep_nan({bits}, A)", raw=True, group="cvt_pairs"
            )
            continue
        value = _saturated(dst, _half(dst, mode, operand), sat)
        yield _row(key, dst, (src,), value, group="cvt_half")
        if src is Type.F32 and mode in ("rn", "rz") and not ftz and not sat:
            for relu in ("", "relu"):
                for finite in ("", "satfinite"):
                    if relu or finite:
                        yield _row(
                            dotted("cvt", mode, relu, finite, dst.value, src.value),
                            dst,
                            (src,),
                            _clipped(dst.value, _half(dst, mode, "A"), relu, finite),
                            group="cvt_half",
                        )


def _clipped(half: str, value: str, relu: str, finite: str) -> str:
    value = f"half_relu({value})" if relu else value
    return f"{half}_finite({value})" if finite else value


def _pairs() -> Rows:
    """Two floats into one register: a into the upper half, b into the lower."""
    for dst in (Type.F16X2, Type.BF16X2):
        half = dst.element.value
        for mode in ("rn", "rz"):
            for relu in ("", "relu"):
                for finite in ("", "satfinite"):
                    rounded = (_half(dst.element, mode, f"f32_from({x})") for x in "AB")
                    parts = (f"(uint32_t){half}_narrow({_clipped(half, x, relu, finite)})" for x in rounded)
                    yield _row(
                        dotted("cvt", mode, relu, finite, dst.value, "f32"),
                        dst,
                        (Type.F32, Type.F32),
                        " << 16 | ".join(parts),
                        raw=True,
                        group="cvt_pairs",
                    )
    for mode in ("rna", "rn", "rz"):
        for relu in ("", "relu") if mode != "rna" else ("",):
            for finite in ("", "satfinite"):
                number = "half_relu(f32_from(A))" if relu else "f32_from(A)"
                value = f"tf32_{mode}({number})"
                yield _row(
                    dotted("cvt", mode, relu, finite, "tf32", "f32"),
                    Type.B32,
                    (Type.F32,),
                    f"tf32_finite({value})" if finite else value,
                    raw=True,
                    group="cvt_pairs",
                )


def _eight_bit_floats() -> Rows:
    for kind in ("e4m3", "e5m2"):
        pair = f"{kind}x2"
        for relu in ("", "relu"):
            narrow = f"{kind}_narrow"
            x, y = ("half_relu({})" if relu else "{}",) * 2
            value = f"(uint32_t){narrow}({x.format('f32_from(A)')}) << 8 | {narrow}({y.format('f32_from(B)')})"
            yield _row(
                dotted("cvt.rn.satfinite", relu, pair, "f32"),
                Type.B16,
                (Type.F32, Type.F32),
                value,
                raw=True,
                group="cvt_pairs",
            )
            high, low = (x.format(f"f16_widen((uint16_t)({part}))") for part in ("A >> 16", "A"))
            yield _row(
                dotted("cvt.rn.satfinite", relu, pair, "f16x2"),
                Type.B16,
                (Type.F16X2,),
                f"(uint32_t){narrow}({high}) << 8 | {narrow}({low})",
                raw=True,
                group="cvt_pairs",
            )
            high, low = (f"{kind}_to_f16((uint8_t)({part}))" for part in ("A >> 8", "A"))
            if relu:
                high, low = f"f16_bits_relu({high})", f"f16_bits_relu({low})"
            yield _row(
                dotted("cvt.rn", relu, "f16x2", pair),
                Type.F16X2,
                (Type.B16,),
                f"(uint32_t){high} << 16 | {low}",
                raw=True,
                group="cvt_pairs",
            )


def _packs() -> Rows:
    """cvt.pack: two clamped numbers side by side, above them the low part of c."""
    for sign in "us":
        for bits in (16, 8, 4, 2):
            low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if sign == "s" else (0, (1 << bits) - 1)
            first, second = (
                f"((uint32_t)({x} < {low} ? {low} : {x} > {high} ? {high} : {x}) & {(1 << bits) - 1}u)" for x in "AB"
            )
            value = f"{first} << {bits} | {second}"
            if bits == 16:
                yield _row(f"cvt.pack.sat.{sign}16.s32", Type.B32, (Type.S32, Type.S32), value, group="cvt_pairs")
            else:
                yield _row(
                    f"cvt.pack.sat.{sign}{bits}.s32.b32",
                    Type.B32,
                    (Type.S32, Type.S32, Type.B32),
                    f"C << {2 * bits} | {value}",
                    group="cvt_pairs",
                )


def rows() -> Rows:
    for family in (_between_integers, _from_integers, _to_integers, _between_floats, _pairs, _eight_bit_floats, _packs):
        yield from family()
