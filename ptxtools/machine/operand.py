"""Operands of machine instructions as nvdisasm writes them."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from ptxtools.reader.operand import split as split_operands

_REGISTER = re.compile(r"(U?R)(\d+|Z)((?:\.\w+)*)\Z")
_PREDICATE = re.compile(r"(U?P)(\d+|T)\Z")
_NUMBER = re.compile(r"-?(?:0x[0-9a-f]+|\d+)\Z")
_CONSTANT = re.compile(r"c\[(0x[0-9a-f]+|UR\d+)\]\[(?:(U?R(?:\d+|Z))(?:\.\w+)*)?\+?(-?0x[0-9a-f]+)?\]((?:\.\w+)*)\Z")
_HALF_ADDRESS = re.compile(r"(?:32|64|fun)@(lo|hi)\(\(?(.*?)(?: \+ (0x[0-9a-f]+)\)?)?\)\Z")
_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_DESCRIBED = re.compile(r"desc\[[^\]]*\]\[([^\]]*)\]")


class Sort(Enum):
    REGISTER = "register"
    PREDICATE = "predicate"
    NUMBER = "number"
    CONSTANT = "constant"  # of a constant bank
    ADDRESS_HALF = "address half"  # of a function or variable: `part` is lo or hi
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Operand:
    """`name`: of the register or predicate, "" when it is the one that is always 0 or true; of the symbol.

    `number`: the number, how far behind the symbol, or the offset in bank `bank` (-1: of an unknown one), to which
    register `name` is added.
    `sign`: "-", "~" or "!" before it. `part`: suffixes, as "H0_H0". `absolute`: between bars.
    """

    sort: Sort
    name: str = ""
    number: int = 0
    bank: int = 0
    sign: str = ""
    part: str = ""
    absolute: bool = False


@dataclass(frozen=True, slots=True)
class Address:
    """The sum of registers (name, suffixes) and a displacement."""

    terms: tuple[tuple[str, tuple[str, ...]], ...]
    displacement: int


def split(text: str) -> list[str]:
    """Splits at the commas that stand outside of brackets."""
    return split_operands(text) if text else []


@lru_cache(maxsize=65536)
def parse(text: str) -> Operand:
    """Whatever is not understood is of the sort OTHER."""
    text = text.replace(".reuse", "")
    sign = ""
    while text[:1] in ("-", "~", "!") and not _NUMBER.match(text):
        sign, text = text[0], text[1:]
    absolute = text[:1] == "|" and text[-1:] == "|"
    if absolute:
        text = text[1:-1]
    if match := _REGISTER.match(text):
        name = "" if match[2] == "Z" else match[1] + match[2]
        return Operand(Sort.REGISTER, name, sign=sign, part=match[3][1:], absolute=absolute)
    if match := _PREDICATE.match(text):
        return Operand(Sort.PREDICATE, "" if match[2] == "T" else match[1] + match[2], sign=sign)
    if _NUMBER.match(text):
        return Operand(Sort.NUMBER, number=int(text, 0), sign=sign)
    if match := _CONSTANT.match(text):
        base = "" if match[2] is None or match[2].endswith("Z") else match[2]
        bank = int(match[1], 16) if match[1].startswith("0x") else -1
        offset = int(match[3], 16) if match[3] else 0
        return Operand(Sort.CONSTANT, base, offset, bank, sign, match[4][1:], absolute)
    if match := _HALF_ADDRESS.match(text):
        return Operand(Sort.ADDRESS_HALF, match[2], int(match[3] or "0", 16), sign=sign, part=match[1])
    return Operand(Sort.OTHER, text, sign=sign)


def following(name: str, distance: int) -> str:
    """The register that many places on; "" stands for the one that is always 0."""
    if not name or not distance:
        return name
    prefix = name.rstrip("0123456789")
    return f"{prefix}{int(name[len(prefix) :]) + distance}"


def halves(sources: Sequence[Operand]) -> int | None:
    """The word that -0 * 0 + two halves are; None of other sums."""
    if len(sources) != 4 or any(each.sort is not Sort.REGISTER or each.name for each in sources[:2]):
        return None
    bits = 0
    for each in sources[2:]:
        text = f"{each.sign}{each.name}" if each.sort is Sort.OTHER else str(each.number)
        try:
            bits = bits << 16 | struct.unpack("<H", struct.pack("<e", float(text)))[0]
        except (ValueError, OverflowError, struct.error):
            return None
    return bits


def global_address(text: str) -> Address:
    """The address among an instruction's operands: behind a descriptor, or in brackets. Errors: ValueError."""
    described = _DESCRIBED.findall(text)
    if len(described) == 1:
        return address(described[0])
    plain = [inner for before, inner in re.findall(r"(^|[,\s])\[([^\[\]]*)\]", text) if before is not None]
    if described or len(plain) != 1:
        raise ValueError(f"'{text}' has no single address")
    return address(plain[0])


def addresses(text: str) -> list[Address]:
    """Everything in brackets that is an address. Errors: ValueError."""
    return [address(inner) for inner in _BRACKETS.findall(text)]


@lru_cache(maxsize=65536)
def address(text: str) -> Address:
    """What stands between brackets. Errors: ValueError."""
    terms: list[tuple[str, tuple[str, ...]]] = []
    displacement = 0
    for part in text.replace(".reuse", "").split("+"):
        if _NUMBER.match(part):
            displacement += int(part, 0)
        elif match := _REGISTER.match(part):
            if match[2] != "Z":
                terms.append((match[1] + match[2], tuple(match[3].split(".")[1:])))
        else:
            raise ValueError(f"'{text}' is no address")
    return Address(tuple(terms), displacement)
