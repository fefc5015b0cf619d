"""The bytes of a tensor: elements at multiples of strides in several dimensions; interpose/calls/box.c does it in C."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

_MOST = 16  # ranges of one tensor

Strided = tuple[int, int, int, int]  # first, last, stride, width; stride 0: all bytes


def boxes(dims: Sequence[int], strides: Sequence[int], element_bytes: int) -> Iterator[Strided]:
    """Ranges of bytes, from the first element on, that hold every element; no others as far as few ranges can say so.

    dims: elements in each dimension; strides: bytes between them.
    """
    if 0 in dims:
        return
    axes = sorted((stride, size) for stride, size in zip(strides, dims, strict=True) if size > 1 and stride)
    width, axes = _dense(element_bytes, axes)
    axes = _joined(axes)
    outer = _enumerated(axes)
    inner = axes[: len(axes) - len(outer)]
    first, last, stride, wide = _one(width, inner)
    for index in product(*(range(size) for _, size in reversed(outer))):
        begin = sum(i * step for i, (step, _) in zip(index, reversed(outer), strict=True))
        yield begin + first, begin + last, stride, wide


def _dense(width: int, axes: list[tuple[int, int]]) -> tuple[int, list[tuple[int, int]]]:
    """Takes in the dimensions whose elements touch each other."""
    while axes and axes[0][0] <= width:
        stride, size = axes[0]
        width += stride * (size - 1)
        axes = axes[1:]
    return width, axes


def _joined(axes: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Joins a dimension with the next one when that goes on with the same stride."""
    found: list[tuple[int, int]] = []
    for stride, size in axes:
        if found and stride % found[-1][0] == 0 and stride <= found[-1][0] * found[-1][1]:
            step, count = found[-1]
            found[-1] = (step, stride // step * (size - 1) + count)
        else:
            found.append((stride, size))
    return found


def _enumerated(axes: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The outer dimensions of which each index gets a range of its own; the innermost never needs that."""
    found: list[tuple[int, int]] = []
    count = 1
    for stride, size in reversed(axes[1:]):
        count *= size
        if count > _MOST:
            break
        found.insert(0, (stride, size))
    return found


def _one(width: int, axes: list[tuple[int, int]]) -> Strided:
    """One range for these dimensions: steps of the outermost, with all that is inside of a step."""
    span = width + sum(stride * (size - 1) for stride, size in axes)
    if not axes:
        return 0, span - 1, 0, 0
    stride, size = axes[-1]
    wide = span - stride * (size - 1)
    return (0, span - 1, stride, wide) if wide < stride else (0, span - 1, 0, 0)
