"""Parametrisations of which a sample runs by default, and the rest with `-m full`; a share of that rest."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from fractions import Fraction
from typing import Any

import pytest


def sampled(values: Iterable[Any], sample: Collection[Any]) -> list[Any]:
    """The values as parameters, those outside the sample marked `full`. A tuple stands for several parameters."""
    values = list(values)
    unknown = [each for each in sample if each not in values]
    assert not unknown, f"no such parameter: {unknown}"
    return [
        pytest.param(*(each if isinstance(each, tuple) else (each,)), marks=() if each in sample else pytest.mark.full)
        for each in values
    ]


def share(text: str) -> Fraction:
    """`1/N` or another part of a whole."""
    part = Fraction(text)
    if not 0 < part <= 1:
        raise ValueError(text)
    return part


def is_in_share(name: str, part: Fraction, seed: int) -> bool:
    """Drawn by name and seed, so that a new test changes nothing for the others."""
    digest = hashlib.sha256(f"{seed} {name}".encode()).digest()
    return Fraction(int.from_bytes(digest[:8], "big"), 1 << 64) < part
