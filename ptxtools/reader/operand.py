"""Operands of instructions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_NAME = r"[%A-Za-z_$][\w$.#]*+"
_NUMBER = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?\Z")
_REAL = re.compile(r"-?(?:0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|\d+\.\d*(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+)\Z")
_REGISTER = re.compile(rf"(!?)\s*+({_NAME})\Z")
# Up to three operands of which the first or second is in brackets: nearly all loads, stores and moves of vectors.
_BRACKET = r"(?:\[[^][{}()]*+\]|\{[^][{}()]*+\}|[^][{}(),]*+)"
_SIMPLE = re.compile(rf"\s*+({_BRACKET})\s*+,\s*+({_BRACKET})\s*+(?:,\s*+({_BRACKET})\s*+)?+")
_SUM = re.compile(rf"({_NAME})\s*+([-+])\s*+(-?\w++)\Z")


@dataclass(frozen=True, slots=True)
class Register:
    """A register, special register or variable by name; which one it is, the function's declarations say."""

    name: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Number:
    """An integer. Floating-point immediates have no value here."""

    value: int | None


@dataclass(frozen=True, slots=True)
class Symbol:
    """A variable's address plus a displacement."""

    name: str
    displacement: int


@dataclass(frozen=True, slots=True)
class Address:
    """[base + displacement]; without a base, the displacement is the address. `rest` are further parts, as in [map,
    {x, y}].
    """

    base: str | None
    displacement: int
    rest: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """Operands in braces (a vector), parentheses (of a call), or joined by a bar (two destinations)."""

    parts: tuple[Operand, ...]
    bracket: str


Operand = Register | Number | Symbol | Address | Group


def split(text: str) -> list[str]:
    """Splits at the commas that stand outside of brackets."""
    if "{" not in text and "(" not in text and "[" not in text:
        return [part.strip() for part in text.split(",")]
    if (match := _SIMPLE.fullmatch(text)) is not None:
        return [part.strip() for part in match.groups() if part is not None]
    parts, depth, start = [], 0, 0
    for index, character in enumerate(text):
        if character in "[{(":
            depth += 1
        elif character in "]})":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    parts.append(text[start:].strip())
    return parts


@lru_cache(maxsize=65536)
def parse(text: str) -> Operand:
    """Errors: ValueError when the text is no operand."""
    first = text[:1]
    if first == "[":
        return _address(text)
    if first in ("{", "("):
        if text[-1] != {"{": "}", "(": ")"}[first]:
            raise ValueError(f"'{text}' is not closed")
        inner = text[1:-1].strip()
        return Group(tuple(parse(part) for part in split(inner)) if inner else (), first)
    if "|" in text:
        return Group(tuple(parse(part.strip()) for part in text.split("|")), "|")
    if _NUMBER.match(text):
        return Number(integer(text))
    if _REAL.match(text):
        return Number(None)
    if match := _REGISTER.match(text):
        return Register(match[2], bool(match[1]))
    if match := _SUM.match(text):
        return Symbol(match[1], _signed(match[2], match[3]))
    raise ValueError(f"'{text}' is no operand")


def integer(text: str) -> int:
    """The value of an integer literal. Errors: ValueError."""
    text = text.rstrip("U")
    digits = text.lstrip("-")
    if len(digits) > 1 and digits[0] == "0" and digits.isdigit():
        value = int(digits, 8)
        return -value if text[0] == "-" else value
    return int(text, 0)


def _signed(sign: str, digits: str) -> int:
    value = integer(digits)
    return -value if sign == "-" else value


def _address(text: str) -> Address:
    if text[-1] != "]":
        raise ValueError(f"'{text}' is not closed")
    first, *rest = split(text[1:-1].strip())
    if _NUMBER.match(first):
        return Address(None, integer(first), tuple(rest))
    if match := _SUM.match(first):
        return Address(match[1], _signed(match[2], match[3]), tuple(rest))
    if not _REGISTER.match(first):
        raise ValueError(f"'{text}' is no address")
    return Address(first, 0, tuple(rest))
