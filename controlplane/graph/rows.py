"""Rows of bytes within an interval: pieces of equal width at a stride, by arithmetic. Rows are (stride, width, phase):
the bytes x with (x - phase) mod stride < width; None is every byte. memory/rows.h is the same in C.

Where the strides of two have no common pattern, `overlap` says yes and `covers` says no.
"""

from __future__ import annotations

from math import gcd
from typing import TypeAlias

from controlplane.graph.nodes import Span

Rows: TypeAlias = "tuple[int, int, int] | None"


def rows_of(span: Span) -> Rows:
    if not span.stride or span.width >= span.stride or span.end - span.first <= span.width:
        return None
    return span.stride, span.width, span.first % span.stride


def count(rows: Rows, first: int, end: int) -> int:
    """How many of the bytes first to end - 1 are in it."""
    if rows is None:
        return end - first
    stride, width, phase = rows
    before, upto = first - phase, end - phase
    here = upto // stride * width + min(upto % stride, width)
    return here - (before // stride * width + min(before % stride, width))


def overlap(one: Rows, other: Rows) -> bool:
    """Whether they may have a byte in common."""
    if one is None or other is None:
        return True
    period = gcd(one[0], other[0])
    ahead = (other[2] - one[2]) % period
    return ahead < one[1] or ahead + other[1] > period


def covers(one: Rows, other: Rows, first: int, end: int) -> bool:
    """Whether all bytes of the other that are there must be in one."""
    if one is None or one == other or count(one, first, end) == end - first:
        return True
    if other is None or other[0] % one[0]:
        return False
    return (other[2] - one[2]) % one[0] + other[1] <= one[1]


def common(one: Rows, other: Rows, first: int, end: int) -> int:
    """How many bytes they have in common there; at most as many, where that is not known."""
    if one is None or other is None or one[0] != other[0]:
        return min(count(one, first, end), count(other, first, end))
    stride, width, phase = one
    ahead, total = (other[2] - phase) % stride, 0
    for begin in (ahead, ahead - stride):
        low, high = max(begin, 0), min(begin + other[1], width)
        if low < high:
            total += count((stride, high - low, phase + low), first, end)
    return total
