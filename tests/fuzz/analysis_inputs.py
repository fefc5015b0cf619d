"""Damaged inputs for the analysis, each made from a number alone."""

from __future__ import annotations

import random
import re
import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import zstandard

from ptxtools.image import fatbin
from tests.fuzz.instructions import odd_kernel

_TOKEN = re.compile(r"%[a-z]+\d+|(?<=[\s\[+-])\d+(?=[\];,])|\$L__\w+|(?<=\.)[a-z]+\d+(?=[\s.])|\b[a-z]+(?=\.)")
_NUMBER = re.compile(r"\b\d+\b")
_NUMBERS = ("0", "-1", "1", "31", "255", "65535", "2147483648", "4294967295", "9223372036854775808", "1" + 40 * "0")
_PIECES = (
    *("", ";", ",", "{", "}", "[", "]", "(", ")", "<", ">", "=", '"', "//", "/*", "*/", "\n", "\0", "\ud7ff"),
    *("@%p1 ", "@!%p1 bra ", "bra $L__BB0_1;", "ret;", "call (%r1), f, (%r2);", ".reg .b32 %r<999999999>;"),
    *(".local .b8 x<999999999>;", ".param .b8 p[999999999999]", ".branchtargets a, b;", "%r1", "%rd1", "0x"),
)
_STRETCHED = (
    " ",
    "\n",
    "\t",
    "/**/",
    "/* */ ",
    "//\n",
    "[1]",
    "<",
    ",",
    ":a",
    ".a",
    "::a",
    "-",
    "%",
    "0",
    "@ ",
    "x ",
    "\\",
)
_EXTREMES = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 40, (1 << 63) - 1, (1 << 64) - 1)
_ENTRY = struct.Struct("<HHIQIIHHIIIQQQ")
_MOST = 1 << 17  # bytes of a seed


class Inputs:
    """Makes input `number` of a seed. `files`: what is damaged."""

    def __init__(self, files: Sequence[Path], seed: int) -> None:
        contents = [data for file in sorted(files) if len(data := file.read_bytes()) <= _MOST]
        self._texts = [data.decode() for data in contents if data.lstrip()[:2] in (b"//", b".v")]
        self._images = [data for data in contents if data.lstrip()[:2] not in (b"//", b".v")]
        self._seed = seed

    def make(self, number: int) -> bytes:
        chance = random.Random(f"{self._seed} {number}")
        makers: tuple[Callable[[random.Random], bytes], ...] = (self._text, self._text, self._odd, self._image, deep)
        made = chance.choice(makers)(chance)
        return packed(chance, made) if chance.random() < 0.1 else made

    def _text(self, chance: random.Random) -> bytes:
        text = chance.choice(self._texts)
        for _ in range(chance.choice((1, 1, 2, 4, 16))):
            text = chance.choice(
                (exchanged, exchanged, numbered, inserted, stretched, without_part, twice, self._spliced)
            )(text, chance)
        return text.encode(errors="replace")

    def _odd(self, chance: random.Random) -> bytes:
        return odd_kernel(chance).encode()

    def _spliced(self, text: str, chance: random.Random) -> str:
        other = chance.choice(self._texts)
        return text[: chance.randrange(len(text) + 1)] + other[chance.randrange(len(other)) :]

    def _image(self, chance: random.Random) -> bytes:
        data = bytearray(chance.choice(self._images))
        for _ in range(chance.choice((1, 2, 8))):
            at = chance.randrange(min(len(data), 512)) if chance.random() < 0.5 else chance.randrange(len(data))
            size = chance.choice((1, 2, 4, 8))
            value = chance.choice(_EXTREMES) % (1 << 8 * size)
            data[at : at + size] = value.to_bytes(size, "little")
        if chance.random() < 0.2:
            del data[chance.randrange(len(data)) :]
        return bytes(data)


def exchanged(text: str, chance: random.Random) -> str:
    """A word takes another's place: what comes out is mostly PTX still."""
    words = list(_TOKEN.finditer(text))
    if not words:
        return text
    one, other = chance.choice(words), chance.choice(words)
    return text[: one.start()] + other[0] + text[one.end() :]


def numbered(text: str, chance: random.Random) -> str:
    numbers = list(_NUMBER.finditer(text))
    if not numbers:
        return text
    one = chance.choice(numbers)
    return text[: one.start()] + chance.choice(_NUMBERS) + text[one.end() :]


def inserted(text: str, chance: random.Random) -> str:
    at = chance.randrange(len(text) + 1)
    piece = chance.choice(_PIECES) * chance.choice((1, 1, 1, 3, 5000))
    return text[:at] + piece + text[at + chance.randrange(12) :]


def stretched(text: str, chance: random.Random) -> str:
    """A small piece many times, within a statement or before the text."""
    at = chance.choice((0, chance.randrange(len(text) + 1)))
    return text[:at] + chance.choice(_STRETCHED) * chance.choice((30, 1000, 20_000)) + text[at:]


def without_part(text: str, chance: random.Random) -> str:
    at = chance.randrange(len(text) + 1)
    return text[:at] + text[at + chance.choice((1, 10, 100, 1000)) :]


def twice(text: str, chance: random.Random) -> str:
    at = chance.randrange(len(text) + 1)
    part = text[at : at + chance.choice((10, 100, 1000))]
    return text[:at] + part * chance.choice((2, 2, 50)) + text[at:]


def deep(chance: random.Random) -> bytes:
    """A kernel whose values, conditions, loops or brackets depend on each other very deeply."""
    length = chance.choice((20, 60, 400, 3000))
    lines = {
        "chain": ["add.s32 %r1, %r1, %r2;"],
        "doubled": ["add.s32 %r1, %r1, %r1;"],
        "mixed": ["xor.b32 %r1, %r1, %r2; mul.lo.s32 %r2, %r1, %r2;", "and.b32 %r2, %r1, %r2; shr.u32 %r1, %r2, %r1;"],
        "conditions": ["and.pred %p1, %p1, %p2; or.pred %p2, %p1, %p2;"],
        "selected": ["setp.lt.s32 %p1, %r1, %r2; selp.b32 %r1, %r1, %r2, %p1; add.s32 %r2, %r1, %r2;"],
        "guarded": ["setp.lt.s32 %p1, %r1, %r2; @%p1 add.s32 %r1, %r1, 1;"],
        "branches": ["setp.lt.s32 %p1, %r1, {n}; @%p1 bra L{n}; add.s32 %r1, %r1, %r2; L{n}:"],
        "loops": ["M{n}: add.s32 %r1, %r1, 1; setp.lt.s32 %p1, %r1, %r2; @%p1 bra M{n};"],
        "backwards": ["N{n}: add.s32 %r1, %r1, %r2; setp.lt.s32 %p1, %r1, %r2; @%p1 bra N{half};"],
        "scopes": ["{{ .reg .b32 %r1; add.s32 %r1, %r2, {n};"],
        "stores": ["mad.lo.s32 %r1, %r1, %r2, %r1; mul.wide.s32 %rd2, %r1, {n}; st.global.u32 [%rd1+{n}], %r2;"],
    }
    chosen = lines[chance.choice(sorted(lines))]
    body = "\n".join(chance.choice(chosen).format(n=n, half=n // 2) for n in range(length))
    nested = chance.choice(("", "{" * length, "[" * length, "(" * length)) if chance.random() < 0.1 else ""
    around = chance.random() < 0.3
    return f""".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 n) {{
.reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
ld.param.u64 %rd1, [p]; ld.param.u32 %r2, [n]; mov.u32 %r1, %tid.x;
setp.lt.u32 %p1, %r1, %r2; setp.ne.s32 %p2, %r2, 7;
{"AROUND:" if around else ""}
{body}
mul.wide.s32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2; @%p1 st.global.u32 [%rd3], {nested}%r2;
{"setp.ne.s32 %p3, %r1, %r2; @%p3 bra AROUND;" if around else ""}
ret;
}}""".encode()


def packed(chance: random.Random, plain: bytes) -> bytes:
    """A fat binary with this as PTX, compressed; at times it claims another size, or is a bomb."""
    kind = chance.choice(("right", "bomb", "lz4", "sizes"))
    if kind == "bomb":
        plain = bytes(1 << 25)
    payload = zstandard.ZstdCompressor().compress(plain)
    flags, size = 0x8000, len(plain)
    if kind == "lz4":
        payload, flags = b"\x1f0\x01\x00" + b"\xff" * chance.choice((10, 100_000)) + b"\x00", 0x2000
    if kind in ("lz4", "sizes"):
        size = chance.choice((0, 1, 4096, 1 << 20, 1 << 29, 1 << 30, (1 << 64) - 1))
    padded = -(-len(payload) // 8) * 8
    fields = (1, 0x101, 64 + 8, padded, len(payload), 0, 0, 8, 80, 0, 0, flags, 0, size)
    entry = _ENTRY.pack(*fields).ljust(72, b"\0") + payload.ljust(padded, b"\0")
    return fatbin.MAGIC + struct.pack("<HHQ", 1, 16, len(entry)) + entry
