"""What text for people is made of: lines, lines that warn, tables; times and bytes with their units.

How they look on a terminal, and in files and pipes, is up to screen.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

LINE = 118


class Warned(str):
    """A line that stands out."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Table:
    """rows: the first one is the heading. right: columns that end together."""

    rows: Sequence[tuple[str, ...]]
    right: frozenset[int]


Part: TypeAlias = str | Table


def columns(rows: Sequence[tuple[str, ...]], right: Iterable[int]) -> list[Part]:
    """A table as the one part that it is, to be put between others."""
    return [Table(rows, frozenset(right))]


def blocks(some: Iterable[Sequence[Part]]) -> list[Part]:
    """One after the other with empty lines between them; empty ones are left out."""
    found: list[Part] = []
    for block in filter(None, some):
        found += ["", *block] if found else block
    return found


def duration(ns: float | None) -> str:
    """A time with its unit; a dash for an unknown one."""
    if ns is None:
        return "-"
    for unit, size in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if abs(ns) >= size:
            return f"{ns / size:.3f} {unit}"
    return f"{ns:.0f} ns"


def many(count: int, one: str, more: str | None = None) -> str:
    """A count with its noun; more: the plural, where it is not the singular with an s."""
    return f"{count} {one if count == 1 else more or one + 's'}"


def amount(count: int) -> str:
    """Bytes with their unit."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"
