"""An independent model of PTX's lane-wise instructions, on bit patterns, in exact arithmetic.

`expected(opcode, operands)` reads the opcode itself, as the PTX manual describes it; it shares nothing with the
semantics table. Where the manual leaves a result open (NaN payloads, division by zero), it follows sm_90 hardware.
The .approx functions are not here: tests compare them with bounds.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from fractions import Fraction

import exact_numbers as exact
from exact_numbers import FORMATS, Format, Number

_INTEGER = {f"{s}{n}": (n, s == "s") for s in "bus" for n in (8, 16, 32, 64)}
_NUMERIC = {*_INTEGER, *FORMATS, "pred", "f16x2", "bf16x2", "u16x2", "s16x2"}


class NotModelledError(Exception):
    """The opcode has no exact meaning here."""


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def read(value: int, kind: str) -> int:
    """The integer that a register of the type holds."""
    bits, is_signed = _INTEGER[kind]
    return signed(value, bits) if is_signed else value & ((1 << bits) - 1)


def clamp(value: int, kind: str) -> int:
    bits, is_signed = _INTEGER[kind]
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed else (0, (1 << bits) - 1)
    return max(low, min(high, value))


def wrap(value: int, kind: str) -> int:
    return value & ((1 << _INTEGER[kind][0]) - 1)


def _flush(number: Number, fmt: Format) -> Number:
    smallest = Fraction(1, 1 << (fmt.bias - 1))
    if number.value is not None and abs(number.value) < smallest:
        return exact.zero(number.negative)
    return number


def _flush_bits(bits: int, fmt: Format) -> int:
    return bits if bits & fmt.infinity else bits & fmt.sign_bit


def _flush_tiny(number: Number, fmt: Format, mode: str) -> Number:
    """Tininess is found after rounding with an unlimited exponent."""
    if number.value is None or number.value == 0:
        return number
    wide = Format(fmt.exponent + 4, fmt.fraction, 0)
    rounded = exact.decode(exact.encode(number, wide, mode), wide)
    return number if _flush(rounded, fmt) is rounded else exact.zero(number.negative)


def _saturate(bits: int, fmt: Format) -> int:
    number = exact.decode(bits, fmt)
    if number.nan or number.negative or number.value == 0:
        return 0
    one = exact.encode(exact.exact(Fraction(1)), fmt)
    return min(bits, one)


def _relu(bits: int, fmt: Format) -> int:
    number = exact.decode(bits, fmt)
    return fmt.nan if number.nan else 0 if number.negative else bits


def _mode(parts: Sequence[str]) -> str:
    for part in parts:
        if part in ("rn", "rz", "rm", "rp"):
            return part[1]
    return "n"


def _finish(bits: int, parts: Sequence[str], fmt: Format) -> int:
    if "ftz" in parts:
        bits = _flush_bits(bits, fmt)
    if "sat" in parts:
        bits = _saturate(bits, fmt)
    return _relu(bits, fmt) if "relu" in parts else bits


def _nan_of(operands: Sequence[int], fmt: Format) -> int:
    """f64 keeps the first NaN's payload, quiet; the others are canonical."""
    if fmt is exact.F64:
        for bits in operands:
            if exact.decode(bits, fmt).nan:
                return bits | 1 << 51
    return fmt.nan


def _arithmetic(name: str, parts: Sequence[str], operands: Sequence[int], fmt: Format) -> int:
    numbers = [exact.decode(bits, fmt) for bits in operands]
    if "ftz" in parts:
        numbers = [_flush(number, fmt) for number in numbers]
    mode = _mode(parts)
    a = numbers[0]
    if name in ("add", "sub"):
        result = exact.add(a, -numbers[1] if name == "sub" else numbers[1], mode)
    elif name == "mul":
        result = exact.multiply(a, numbers[1])
    elif name in ("fma", "mad"):
        result = exact.add(exact.multiply(a, numbers[1]), numbers[2], mode)
    elif name == "div":
        result = exact.divide(a, numbers[1])
    elif name == "rcp":
        result = exact.divide(exact.exact(Fraction(1)), a)
    else:
        result = exact.square_root(a)
    if "ftz" in parts:
        result = _flush_tiny(result, fmt, mode)
    return _finish(_nan_of(operands, fmt) if result.nan else exact.encode(result, fmt, mode), parts, fmt)


def _order(bits: int, fmt: Format) -> int:
    """Ascending with the number; -0 below +0."""
    magnitude = bits & (fmt.sign_bit - 1)
    return -magnitude - 1 if bits & fmt.sign_bit else magnitude


def _extreme(name: str, parts: Sequence[str], operands: Sequence[int], fmt: Format) -> int:
    if "ftz" in parts:
        operands = [_flush_bits(bits, fmt) for bits in operands]
    sign = 0
    if "xorsign" in parts:
        sign = (operands[0] ^ operands[1]) & fmt.sign_bit
        operands = [bits & ~fmt.sign_bit for bits in operands]
    numbers = [bits for bits in operands if not exact.decode(bits, fmt).nan]
    if not numbers or ("NaN" in parts and len(numbers) < len(operands)):
        if fmt is exact.F64:
            return _nan_of(operands, fmt)
        return fmt.nan
    best = (min if name == "min" else max)(numbers, key=lambda bits: _order(bits, fmt))
    return best | sign


_COMPARE: dict[str, Callable[[Fraction | int, Fraction | int], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "lo": operator.lt,
    "ls": operator.le,
    "hi": operator.gt,
    "hs": operator.ge,
}


def compare(test: str, a: int, b: int, kind: str, *, ftz: bool = False) -> bool:
    if kind in _INTEGER:
        return _COMPARE[test](read(a, kind), read(b, kind))
    fmt = FORMATS[kind]
    x, y = exact.decode(a, fmt), exact.decode(b, fmt)
    if ftz:
        x, y = _flush(x, fmt), _flush(y, fmt)
    unordered = x.nan or y.nan
    if test in ("num", "nan"):
        return unordered == (test == "nan")
    if unordered:
        return test.endswith("u")
    huge = Fraction(1 << 2000)
    left, right = ((-huge if n.negative else huge) if n.value is None else n.value for n in (x, y))
    return _COMPARE[test[:2]](left, right)


def _combine(how: str, a: bool, b: int) -> bool:
    return {"and": a and bool(b), "or": a or bool(b), "xor": a != bool(b), "": a}[how]


def _comparison(parts: Sequence[str], operands: Sequence[int]) -> tuple[int, int | None]:
    test, kind = parts[1], parts[-1]
    how = next((part for part in parts[2:] if part in ("and", "or", "xor")), "")
    ftz = "ftz" in parts
    other = operands[2] if how else 0
    if kind in ("f16x2", "bf16x2"):
        half = kind[:-2]
        results = [compare(test, operands[0] >> s & 0xFFFF, operands[1] >> s & 0xFFFF, half, ftz=ftz) for s in (0, 16)]
        if parts[0] == "setp":
            return int(_combine(how, results[0], other)), int(_combine(how, results[1], other))
        one = exact.encode(exact.exact(Fraction(1)), FORMATS[half])
        return (one if results[0] else 0) | (one if results[1] else 0) << 16, None
    true = compare(test, operands[0], operands[1], kind, ftz=ftz)
    if parts[0] == "setp":
        return int(_combine(how, true, other)), int(_combine(how, not true, other))
    result = parts[-2]
    one = exact.encode(exact.exact(Fraction(1)), FORMATS[result]) if result in FORMATS else wrap(-1, result)
    return one if _combine(how, true, other) else 0, None


def _integer(name: str, parts: Sequence[str], kind: str, operands: Sequence[int]) -> int:
    bits, _ = _INTEGER[kind]
    a = read(operands[0], kind)
    rest = [read(x, kind) for x in operands[1:]]
    b = rest[0] if rest else 0
    if name in ("add", "sub"):
        total = a + b if name == "add" else a - b
        return wrap(clamp(total, kind) if "sat" in parts else total, kind)
    if name in ("mul", "mad"):
        product = a * b
        wide = kind[0] + str(bits * 2)
        if "wide" in parts:
            addend = operands[2] if name == "mad" else 0
            return (product + addend) & ((1 << bits * 2) - 1) if wide else 0
        part = product >> bits if "hi" in parts else product
        total = part + (rest[1] if name == "mad" else 0)
        return wrap(clamp(total, kind) if "sat" in parts else total, kind)
    if name in ("mul24", "mad24"):
        x, y = (signed(v, 24) if kind == "s32" else v & 0xFFFFFF for v in (operands[0], operands[1]))
        part = signed(x * y >> (16 if "hi" in parts else 0), 32)
        total = part + (rest[1] if name == "mad24" else 0)
        return wrap(clamp(total, kind) if "sat" in parts else total, kind)
    if name in ("div", "rem"):
        if b == 0:
            return wrap(-1, kind)
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return wrap(quotient if name == "div" else a - quotient * b, kind)
    if name == "sad":
        return wrap(rest[1] + abs(a - b), kind)
    if name == "neg":
        return wrap(-a, kind)
    if name == "abs":
        return wrap(abs(a), kind)
    best = min(a, b) if name == "min" else max(a, b)
    return wrap(max(best, 0) if "relu" in parts else best, kind)


def _bit_field(name: str, parts: Sequence[str], kind: str, operands: Sequence[int]) -> int:
    bits, is_signed = _INTEGER[kind]
    ones = (1 << bits) - 1
    a = operands[0] & ones
    if name == "popc":
        return a.bit_count()
    if name == "clz":
        return bits - a.bit_length()
    if name == "brev":
        return int(f"{a:0{bits}b}"[::-1], 2)
    if name == "bfind":
        value = ~a & ones if is_signed and a >> (bits - 1) else a
        if value == 0:
            return 0xFFFFFFFF
        position = value.bit_length() - 1
        return bits - 1 - position if "shiftamt" in parts else position
    if name == "bfe":
        position, length = (x & 255 if bits == 32 else x for x in operands[1:])
        sign = a >> min(position + length - 1, bits - 1) & 1 if is_signed and length else 0
        result = 0
        for i in range(bits):
            inside = i < length and position + i < bits
            result |= (a >> (position + i) & 1 if inside else sign) << i
        return result
    if name == "bfi":
        b = operands[1] & ones
        position, length = (x & 255 if bits == 32 else x for x in operands[2:])
        for i in range(min(length, bits)):
            if position + i < bits:
                at = 1 << (position + i)
                b = (b & ~at) | (at if a >> i & 1 else 0)
        return b
    if name == "bmsk":
        position, length = operands[0], operands[1]
        if "wrap" in parts:
            position, length = position & 31, length & 31
        return ((1 << min(length, 64)) - 1 << min(position, 64)) & 0xFFFFFFFF
    if name == "szext":
        count = operands[1] & 31 if "wrap" in parts else min(operands[1], 32)
        if count == 0:
            return 0
        low = a & ((1 << count) - 1)
        return wrap(signed(low, count), "u32") if is_signed else low
    base, offset = operands[1], signed(operands[2], 32)
    if base > 31:
        return 0xFFFFFFFF
    if offset == 0:
        return base if a >> base & 1 else 0xFFFFFFFF
    positions = range(base, 32) if offset > 0 else range(base, -1, -1)
    found = [p for p in positions if a >> p & 1]
    return found[abs(offset) - 1] if abs(offset) <= len(found) else 0xFFFFFFFF


def _dot(parts: Sequence[str], operands: Sequence[int]) -> int:
    a, b, c = operands
    left, right = parts[-2], parts[-1]
    if parts[0] == "dp4a":
        pairs = [(a >> n, b >> n, 8) for n in (0, 8, 16, 24)]
    else:
        high = 16 if "hi" in parts else 0
        pairs = [(a, b >> high, 16), (a >> 16, b >> high + 8, 16)]
    total = c
    for x, y, width in pairs:
        x, y = x & ((1 << width) - 1), y & 255
        total += (signed(x, width) if left == "s32" else x) * (signed(y, 8) if right == "s32" else y)
    return total & 0xFFFFFFFF


def _packed_distance(parts: Sequence[str], operands: Sequence[int]) -> int:
    a, b, c = operands
    bits = 32 // int(parts[0][-1])
    mask = (1 << bits) - 1
    distances = [abs((a >> n & mask) - (b >> n & mask)) for n in range(0, 32, bits)]
    if parts[-1] == "add":
        return (c + sum(distances)) & 0xFFFFFFFF
    return sum(distance << n * bits for n, distance in enumerate(distances))


def _shift(name: str, parts: Sequence[str], kind: str, operands: Sequence[int]) -> int:
    if name == "shf":
        a, b, c = operands
        count = c & 31 if "wrap" in parts else min(c, 32)
        both = b << 32 | a
        return (both << count >> 32 if "l" in parts else both >> count) & 0xFFFFFFFF
    bits, _ = _INTEGER[kind]
    count = min(operands[1], bits)
    return wrap(operands[0] << count, kind) if name == "shl" else wrap(read(operands[0], kind) >> count, kind)


def _permute(parts: Sequence[str], operands: Sequence[int]) -> int:
    a, b, c = operands
    low = c & 3
    choices = {
        "f4e": [low + n for n in range(4)],
        "b4e": [(low - n) & 7 for n in range(4)],
        "rc8": [low] * 4,
        "ecl": [max(n, low) for n in range(4)],
        "ecr": [min(n, low) for n in range(4)],
        "rc16": [2, 3, 2, 3] if c & 1 else [0, 1, 0, 1],
    }
    picks = choices[parts[-1]] if parts[-1] in choices else [c >> 4 * n & 15 for n in range(4)]
    data = (b << 32 | a).to_bytes(8, "little")
    out = [(0xFF if data[p & 7] & 0x80 else 0) if p & 8 else data[p & 7] for p in picks]
    return int.from_bytes(bytes(out), "little")


def _lop3(a: int, b: int, c: int, table: int) -> int:
    return sum((table >> ((a >> n & 1) << 2 | (b >> n & 1) << 1 | c >> n & 1) & 1) << n for n in range(32))


def _to_integer(number: Number, kind: str, mode: str, source: str) -> int:
    bits, _ = _INTEGER[kind]
    if number.nan:
        return 1 << (bits - 1) if source == "f64" or bits == 64 else 0
    if number.value is None:
        return wrap(clamp(-(1 << 70) if number.negative else 1 << 70, kind), kind)
    return wrap(clamp(exact.round_integer(number.value, mode), kind), kind)


def _limit(bits: int, fmt: Format) -> int:
    magnitude = bits & (fmt.sign_bit - 1)
    return (bits & fmt.sign_bit) | (fmt.infinity - 1) if magnitude == fmt.infinity else bits


def _narrow_clipped(bits: int, source: Format, fmt: Format, parts: Sequence[str], mode: str) -> int:
    """cvt from f32 with .relu and .satfinite."""
    result = exact.encode(exact.decode(bits, source), fmt, mode)
    if "satfinite" in parts:
        result = _limit(result, fmt)
    return _relu(result, fmt) if "relu" in parts else result


def _float8(bits: int, source: Format, kind: str, relu: bool) -> int:
    number = exact.decode(bits, source)
    if number.nan:
        return 0x7F
    if relu and number.negative:
        return 0
    sign, largest = 0x80 if number.negative else 0, 0x7E if kind == "e4m3" else 0x7B
    fmt = Format(4, 3, 0x7F) if kind == "e4m3" else Format(5, 2, 0x7F)
    if number.value is None or abs(number.value) > (448 if kind == "e4m3" else 57344):
        return sign | largest
    # e4m3 uses the exponent that others keep for infinity: round with one more exponent bit and take the bias back.
    wide = Format(fmt.exponent + 1, fmt.fraction, 0)
    if abs(number.value) >= Fraction(1, 1 << (fmt.bias - 1)):
        code = exact.encode(exact.Number(False, abs(number.value)), wide) - (wide.bias - fmt.bias << fmt.fraction)
    else:
        code = exact.encode(exact.Number(False, abs(number.value)), fmt)
    return sign | min(code, largest)


def _from_float8(code: int, kind: str) -> int:
    sign, magnitude = (code & 0x80) << 8, code & 0x7F
    if kind == "e5m2":
        return 0x7FFF if magnitude > 0x7C else code << 8
    if magnitude == 0x7F:
        return 0x7FFF
    exponent, fraction = magnitude >> 3, magnitude & 7
    value = Fraction(fraction | (8 if exponent else 0)) * Fraction(2) ** (max(exponent, 1) - 10)
    return sign | exact.encode(exact.Number(False, value), exact.F16)


def _convert(parts: Sequence[str], operands: Sequence[int]) -> int:
    if parts[1] == "pack":
        return _convert_pack(parts, operands)
    dst, src = parts[-2], parts[-1]
    relu = "relu" in parts
    mode = next((p[1] for p in parts if p in ("rni", "rzi", "rmi", "rpi", "rn", "rz", "rm", "rp")), "n")
    a = operands[0]
    if dst in ("f16x2", "bf16x2") and src == "f32":
        fmt = FORMATS[dst[:-2]]
        high, low = (_narrow_clipped(x, exact.F32, fmt, parts, mode) for x in operands)
        return high << 16 | low
    if dst in ("e4m3x2", "e5m2x2"):
        pair = operands if src == "f32" else (a >> 16, a & 0xFFFF)
        fmt = exact.F32 if src == "f32" else exact.F16
        return _float8(pair[0], fmt, dst[:4], relu) << 8 | _float8(pair[1], fmt, dst[:4], relu)
    if src in ("e4m3x2", "e5m2x2"):
        high, low = (_from_float8(code, src[:4]) for code in (a >> 8 & 255, a & 255))
        return (_relu(high, exact.F16) << 16 | _relu(low, exact.F16)) if relu else high << 16 | low
    if dst == "tf32":
        mode = "a" if "rna" in parts else mode
        number = exact.decode(a, exact.F32)
        if number.nan:
            result = 0x7FFFE000 if "rna" not in parts else a + 0x1000 & 0xFFFFE000
        elif relu and number.negative:
            result = 0
        else:
            result = exact.encode(number, exact.TF32, mode) << 13
        return result - 0x2000 if "satfinite" in parts and result & 0x7FFFFFFF >= 0x7F800000 else result
    if src in _INTEGER:
        value = read(a, src)
        if dst in _INTEGER:
            bits = 16 if dst in ("u8", "s8") else 0
            result = clamp(value, dst) if "sat" in parts else read(value, dst)
            return result & (0xFFFF if bits else (1 << _INTEGER[dst][0]) - 1)
        return _finish(exact.encode(exact.Number(value < 0, Fraction(value)), FORMATS[dst], mode), parts, FORMATS[dst])
    number = exact.decode(a, FORMATS[src])
    if "ftz" in parts and src == "f32" and dst != "f16":
        number = _flush(number, exact.F32)
    if dst in _INTEGER:
        result = _to_integer(number, dst, mode, src)
        return wrap(read(result, dst), "u16") if dst in ("u8", "s8") else result
    fmt = FORMATS[dst]
    if any(p in ("rni", "rzi", "rmi", "rpi") for p in parts) and number.value is not None:
        number = Number(number.negative, Fraction(exact.round_integer(number.value, mode)))
    if relu or "satfinite" in parts:
        return _narrow_clipped(a, FORMATS[src], fmt, parts, mode)
    if number.nan and "sat" not in parts:
        return _converted_nan(a, src, dst, parts)
    if "ftz" in parts and (dst, src) == ("f32", "f64"):
        number = _flush_tiny(number, fmt, mode)
    result = exact.encode(number, fmt, mode)
    flush = ["ftz"] if "ftz" in parts and dst == "f32" else []
    return _finish(result, [*flush, *(["sat"] if "sat" in parts else [])], fmt)


def _converted_nan(bits: int, src: str, dst: str, parts: Sequence[str]) -> int:
    """f64 keeps sign and upper payload both ways, f32 from bf16; flushing and the rest give the canonical NaN."""
    fmt, source = FORMATS[dst], FORMATS[src]
    rounds = any(p in ("rni", "rzi", "rmi", "rpi") for p in parts)
    if src == dst and src in ("f32", "f64") and not rounds and "ftz" not in parts:
        return bits
    if dst == "f64" and "ftz" in parts:
        bits, source = exact.F32.nan, exact.F32
    elif "f64" not in (src, dst) and ((src, dst) != ("bf16", "f32") or "ftz" in parts):
        return fmt.nan
    payload = bits & ((1 << source.fraction) - 1)
    shift = fmt.fraction - source.fraction
    payload = payload << shift if shift >= 0 else payload >> -shift
    quiet = 0 if (src, dst) == ("bf16", "f32") else 1 << (fmt.fraction - 1)
    return (fmt.sign_bit if bits & source.sign_bit else 0) | fmt.infinity | quiet | payload


def _convert_pack(parts: Sequence[str], operands: Sequence[int]) -> int:
    sign, bits = parts[3][0], int(parts[3][1:])
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if sign == "s" else (0, (1 << bits) - 1)
    a, b = (max(low, min(high, signed(x, 32))) & ((1 << bits) - 1) for x in operands[:2])
    above = operands[2] << 2 * bits if len(operands) > 2 else 0
    return (above | a << bits | b) & 0xFFFFFFFF


def _internal(parts: Sequence[str], operands: Sequence[int]) -> int:
    """The decoder's own: tsr.*"""
    name = parts[1]
    if name in ("min3", "max3"):
        return _extreme(name[:3], parts, operands, exact.F32)
    if name == "pack":
        width = int(parts[3].split("x")[0][1:])
        return sum((x & ((1 << width) - 1)) << width * n for n, x in enumerate(operands))
    if name == "unpack":
        width = int(parts[3][1:])
        return operands[0] >> width * int(parts[4]) & ((1 << width) - 1)
    to, source = int(parts[2][1:]), int(parts[3][1:])
    value = operands[0] & ((1 << min(to, source)) - 1)
    return signed(value, source) & ((1 << to) - 1) if name == "sext" else value


def _carry(parts: Sequence[str], kind: str, operands: Sequence[int]) -> tuple[int, int | None]:
    bits, _ = _INTEGER[kind]
    ones = (1 << bits) - 1
    name = parts[0]
    base = name.removesuffix("c") if name != "sub" else name
    x = [value & ones for value in operands]
    if base == "mad":
        a, b = (read(v, kind) for v in operands[:2])
        product = (a * b >> bits if "hi" in parts else a * b) & ones
        total = product + x[2] + (operands[3] if name == "madc" else 0)
        carry = total >> bits
    elif base == "add":
        total = x[0] + x[1] + (operands[2] if name == "addc" else 0)
        carry = total >> bits
    else:
        total = x[0] - x[1] - (operands[2] if name == "subc" else 0)
        carry = int(total < 0)
    return total & ones, carry if "cc" in parts else None


def _packed_integers(name: str, parts: Sequence[str], a: int, b: int) -> int:
    result = 0
    for shift in (0, 16):
        x, y = (v >> shift & 0xFFFF for v in (a, b))
        if parts[-1] == "s16x2" and name != "add":
            x, y = signed(x, 16), signed(y, 16)
        value = x + y if name == "add" else min(x, y) if name == "min" else max(x, y)
        value = max(value, 0) if "relu" in parts else value
        result |= (value & 0xFFFF) << shift
    return result


def _bits_only(name: str, kind: str, operands: Sequence[int]) -> int:
    width = {"pred": 1, "f16": 16, "bf16": 16, "f32": 32, "f16x2": 32, "bf16x2": 32, "f64": 64}.get(kind) or _INTEGER[
        kind
    ][0]
    a, b = operands[0], operands[-1]
    result = {"and": a & b, "or": a | b, "xor": a ^ b, "not": ~a, "cnot": int(a == 0), "mov": a}[name]
    return result & ((1 << width) - 1)


def _floating(name: str, parts: Sequence[str], operands: Sequence[int], fmt: Format) -> int:
    if name in ("neg", "abs"):
        bits = _flush_bits(operands[0], fmt) if "ftz" in parts else operands[0]
        if exact.decode(bits, fmt).nan:
            return _nan_of(operands, fmt)
        return bits ^ fmt.sign_bit if name == "neg" else bits & ~fmt.sign_bit
    if name == "copysign":
        return (operands[1] & ~fmt.sign_bit) | (operands[0] & fmt.sign_bit)
    if name in ("min", "max"):
        return _extreme(name, parts, operands, fmt)
    return _arithmetic(name, parts, operands, fmt)


def _property(test: str, bits: int, fmt: Format) -> int:
    number = exact.decode(bits, fmt)
    subnormal = number.value is not None and number.value != 0 and not bits & fmt.infinity
    finite = number.value is not None
    return int(
        {
            "finite": finite,
            "infinite": number.infinite,
            "number": not number.nan,
            "notanumber": number.nan,
            "normal": finite and not subnormal,
            "subnormal": subnormal,
        }[test]
    )


def expected(opcode: str, operands: Sequence[int]) -> tuple[int, int | None]:
    """(result, second result or None) for one lane; raises NotModelledError."""
    parts = opcode.split(".")
    name, kind = parts[0], parts[-1]
    if "approx" in parts or "full" in parts:
        raise NotModelledError(opcode)
    if name == "tsr":
        return _internal(parts, operands), None
    if name in ("setp", "set"):
        return _comparison(parts, operands)
    if "cc" in parts or name in ("addc", "subc", "madc"):
        return _carry(parts, kind, operands)
    if name == "testp":
        bits = _property(parts[1], operands[0], FORMATS[kind])
        return bits, 1 - bits
    if name == "cvt":
        return _convert(parts, operands), None
    if name == "lop3":
        result = _lop3(operands[0], operands[1], operands[2], operands[3])
        if parts[1] == "b32":
            return result, None
        return result, int((result != 0) or bool(operands[4])) if parts[1] == "or" else int(
            (result != 0) and bool(operands[4])
        )
    if name == "prmt":
        return _permute(parts, operands), None
    if name in ("selp", "slct"):
        return _select(parts, operands), None
    if name in ("dp4a", "dp2a"):
        return _dot(parts, operands), None
    if name.startswith("vabsdiff"):
        return _packed_distance(parts, operands), None
    if name == "vshr":
        return (operands[0] >> min(operands[1], 32)) + operands[2] & 0xFFFFFFFF, None
    if name in ("shl", "shr", "shf"):
        return _shift(name, parts, kind, operands), None
    if name in ("and", "or", "xor", "not", "cnot", "mov"):
        return _bits_only(name, kind, operands), None
    if kind in ("u16x2", "s16x2"):
        return _packed_integers(name, parts, operands[0], operands[1]), None
    if kind in ("f16x2", "bf16x2"):
        fmt = FORMATS[kind[:-2]]
        low, high = (_floating(name, parts, [x >> s & 0xFFFF for x in operands], fmt) for s in (0, 16))
        return high << 16 | low, None
    if kind in FORMATS:
        return _floating(name, parts, operands, FORMATS[kind]), None
    if name in ("popc", "clz", "brev", "bfind", "bfe", "bfi", "bmsk", "szext", "fns"):
        return _bit_field(name, parts, kind, operands), None
    return _integer(name, parts, kind, operands), None


def _select(parts: Sequence[str], operands: Sequence[int]) -> int:
    a, b, c = operands
    if parts[0] == "selp":
        return a if c else b
    if parts[-1] == "s32":
        return a if signed(c, 32) >= 0 else b
    number = exact.decode(c, exact.F32)
    if "ftz" in parts:
        number = _flush(number, exact.F32)
    return a if not number.nan and (number.value == 0 or not number.negative) else b
