"""Binary floating-point formats in exact rational arithmetic: the reference that lane operations are tested against."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import isqrt


@dataclass(frozen=True)
class Format:
    """A format with sign, `exponent` and `fraction` bits, in that order from the top."""

    exponent: int
    fraction: int
    nan: int

    @property
    def bias(self) -> int:
        return (1 << (self.exponent - 1)) - 1

    @property
    def sign_bit(self) -> int:
        return 1 << (self.exponent + self.fraction)

    @property
    def infinity(self) -> int:
        return ((1 << self.exponent) - 1) << self.fraction

    @property
    def smallest_normal(self) -> int:
        return 1 << self.fraction


F16 = Format(5, 10, 0x7FFF)
BF16 = Format(8, 7, 0x7FFF)
F32 = Format(8, 23, 0x7FFFFFFF)
F64 = Format(11, 52, 0xFFF8000000000000)
TF32 = Format(8, 10, 0x3FFFF)
FORMATS = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64}


@dataclass(frozen=True)
class Number:
    """A decoded number. `value` is None for infinities and NaN; zeros keep their sign."""

    negative: bool
    value: Fraction | None
    nan: bool = False
    bits: int = 0

    @property
    def infinite(self) -> bool:
        return self.value is None and not self.nan

    def __neg__(self) -> Number:
        return Number(not self.negative, None if self.value is None else -self.value, self.nan, self.bits)


NAN = Number(False, None, nan=True)


def infinity(negative: bool) -> Number:
    return Number(negative, None)


def zero(negative: bool) -> Number:
    return Number(negative, Fraction(0))


def exact(value: Fraction) -> Number:
    return Number(value < 0, value)


@lru_cache(1 << 14)  # special numbers come again and again
def decode(bits: int, fmt: Format) -> Number:
    negative = bool(bits & fmt.sign_bit)
    magnitude = bits & (fmt.sign_bit - 1)
    if magnitude > fmt.infinity:
        return Number(negative, None, nan=True, bits=bits)
    if magnitude == fmt.infinity:
        return infinity(negative)
    exponent, fraction = magnitude >> fmt.fraction, magnitude & ((1 << fmt.fraction) - 1)
    if exponent:
        fraction |= 1 << fmt.fraction
    scale = max(exponent, 1) - fmt.bias - fmt.fraction
    value = Fraction(fraction << scale) if scale >= 0 else Fraction(fraction, 1 << -scale)
    return Number(negative, -value if negative else value, bits=bits)


def _quantum_exponent(value: Fraction, fmt: Format) -> int:
    """Exponent of the last place of |value| > 0 in the format, unbounded above."""
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    power = Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent)
    if power > value:
        exponent -= 1
    return max(exponent, 1 - fmt.bias) - fmt.fraction


def round_integer(value: Fraction, mode: str) -> int:
    """To an integer: mode n (nearest even), a (nearest, ties away), z, m, p."""
    below = value.numerator // value.denominator
    rest = value - below
    if rest == 0:
        return below
    if mode == "m":
        return below
    if mode == "p":
        return below + 1
    if mode == "z":
        return below + (value < 0)
    if rest != Fraction(1, 2):
        return below + (rest > Fraction(1, 2))
    if mode == "a":
        return below + (value > 0)
    return below + (below & 1)


def encode(number: Number, fmt: Format, mode: str = "n") -> int:
    """The bits of the number rounded to the format; NaN becomes the format's canonical one."""
    if number.nan:
        return fmt.nan
    sign = fmt.sign_bit if number.negative else 0
    if number.value is None:
        return sign | fmt.infinity
    if number.value == 0:
        return sign
    magnitude = abs(number.value)
    flipped = {"m": "p", "p": "m"} if number.negative else {}
    place = _quantum_exponent(magnitude, fmt)
    unit = Fraction(1 << place) if place >= 0 else Fraction(1, 1 << -place)
    count = round_integer(magnitude / unit, flipped.get(mode, mode))
    # `count` units of the binade; a carry into the next one is right as it is.
    biased = place + fmt.fraction + fmt.bias
    bits = count if biased == 1 and count < fmt.smallest_normal else ((biased - 1) << fmt.fraction) + count
    if bits >= fmt.infinity:
        toward_zero = flipped.get(mode, mode) in ("z", "m")
        bits = fmt.infinity - 1 if toward_zero else fmt.infinity
    return sign | bits


def add(a: Number, b: Number, mode: str = "n") -> Number:
    if a.nan or b.nan:
        return NAN
    if a.value is None or b.value is None:
        if a.value is None and b.value is None and a.negative != b.negative:
            return NAN
        return infinity(a.negative if a.value is None else b.negative)
    total = a.value + b.value
    if total == 0:
        if a.value == 0 and b.value == 0 and a.negative == b.negative:
            return zero(a.negative)
        return zero(mode == "m")
    return exact(total)


def multiply(a: Number, b: Number) -> Number:
    negative = a.negative != b.negative
    if a.nan or b.nan:
        return NAN
    if a.value is None or b.value is None:
        return NAN if a.value == 0 or b.value == 0 else infinity(negative)
    return Number(negative, a.value * b.value)


def divide(a: Number, b: Number) -> Number:
    negative = a.negative != b.negative
    if a.nan or b.nan or (a.infinite and b.infinite) or (a.value == 0 and b.value == 0):
        return NAN
    if a.value is None or b.value == 0:
        return infinity(negative)
    if b.value is None:
        return zero(negative)
    return Number(negative, a.value / b.value)


def square_root(a: Number) -> Number:
    """Right for rounding to any format here: an inexact root becomes a close number, same side of every boundary."""
    if a.nan or a.value == 0:
        return a
    if a.negative:
        return NAN
    if a.value is None:
        return a
    shift = 2 * max(0, 300 - (a.value.numerator.bit_length() - a.value.denominator.bit_length()) // 2)
    scaled = (a.value.numerator << shift) // a.value.denominator
    root = isqrt(scaled)
    whole = root * root == scaled and (scaled * a.value.denominator) == (a.value.numerator << shift)
    return exact(Fraction(root * 2 + (not whole), 1 << (shift // 2 + 1)))
