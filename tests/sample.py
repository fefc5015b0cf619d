"""Parametrisations of which a sample runs by default, and the rest with `-m full`."""

from __future__ import annotations

from collections.abc import Collection, Iterable
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
