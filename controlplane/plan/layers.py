"""Launches that are alike in every layer and every step: the repeated parts of a sequence of labels.

A sequence is cut into parts that repeat a *layer*, and the gaps between them. Nodes of equal offsets in equal layers
get one key, and so do those of equal offsets in equal gaps: a key for each launch of a layer, however many there are.
"""

from __future__ import annotations

import numpy as np

from controlplane.plan.problem import Ints

TRIED = 12  # lengths of a layer that are tried
FEW = 300  # keys that are few enough
LONGEST = 5000  # launches of a layer


def keys(label: Ints) -> Ints:
    """Equal for nodes that are alike; each its own where nothing repeats."""
    best, fewest = np.arange(len(label), dtype=np.int64), len(label)
    for length in _lengths(label):
        found = _of_length(label, length)
        count = len(np.unique(found))
        if count < fewest:
            best, fewest = found, count
        if fewest <= FEW:
            break
    return best


def _of_length(label: Ints, length: int) -> Ints:
    """Keys if layers are of so many launches."""
    same = np.zeros(len(label), dtype=np.bool_)
    same[: len(label) - length] = label[:-length] == label[length:]
    numbers: dict[tuple[object, ...], int] = {}
    found = np.zeros(len(label), dtype=np.int64)
    place = 0
    for first, end in _parts(same, length):
        _name(found, numbers, label, place, first)
        turn = _turned(label[first : first + length])
        layer = np.roll(label[first : first + length], -turn).tobytes()
        offsets = (np.arange(end - first) - turn) % length
        begin = numbers.setdefault((layer,), len(numbers) * LONGEST * 2)
        found[first:end] = begin + offsets
        place = end
    _name(found, numbers, label, place, len(label))
    return found


def _name(found: Ints, numbers: dict[tuple[object, ...], int], label: Ints, first: int, end: int) -> None:
    """A gap: equal gaps have equal keys."""
    for begin in range(first, end, LONGEST):
        last = min(begin + LONGEST, end)
        number = numbers.setdefault((label[begin:last].tobytes(), last - begin), len(numbers) * LONGEST * 2)
        found[begin:last] = number + np.arange(last - begin)


def _lengths(label: Ints) -> list[int]:
    """Of how many launches layers may be: the one that repeats most first."""
    count = len(label)
    order = np.lexsort((np.arange(count), label))
    alike = label[order[1:]] == label[order[:-1]]
    distance = (order[1:] - order[:-1])[alike]
    distance = distance[distance <= min(LONGEST, count // 2)]
    if not len(distance):
        return []
    lengths, often = np.unique(distance, return_counts=True)
    found: list[tuple[int, int, int]] = []
    for length in lengths[np.argsort(-often * np.minimum(lengths, 8), kind="stable")][:TRIED].tolist():
        same = np.zeros(count, dtype=np.bool_)
        same[: count - length] = label[:-length] == label[length:]
        covered = sum(end - first for first, end in _parts(same, length))
        if covered > length:
            found.append((round(20 * (length - covered) / count), len(found), length))
    return [length for _, _, length in sorted(found)]


def _parts(same: np.ndarray[tuple[int], np.dtype[np.bool_]], length: int) -> list[tuple[int, int]]:
    """Where a layer repeats at least once, from first to end; whole layers."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], same, [False]]).astype(np.int8)))
    parts, place = [], 0
    for first, last in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        begin = max(first, place)
        end = begin + (last + length - begin) // length * length
        if last - begin >= length:
            parts.append((begin, end))
            place = end
    return parts


def _turned(layer: Ints) -> int:
    """By how much to turn a layer so that equal ones, begun at different launches, are equal: least rotation."""
    size = len(layer)
    first, second, same = 0, 1, 0
    while first < size and second < size and same < size:
        one, other = layer[(first + same) % size], layer[(second + same) % size]
        if one == other:
            same += 1
            continue
        if one > other:
            first += same + 1
        else:
            second += same + 1
        second += first == second
        same = 0
    return min(first, second)
