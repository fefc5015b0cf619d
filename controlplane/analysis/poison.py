"""The experiment of a probe: a launch on poisoned memory, several times, and what it changed. Pure: it is given `run`.

Poison is of two kinds: small numbers, which do as sizes and indices, and any bytes. Each buffer gets other contents
while the rest stays as it is: bytes that no longer are what was there before the launch were written, and a buffer
whose contents make a difference to what is written is an input that matters. Of any bytes there are two that differ
everywhere, so that a byte that is written cannot have been there before in both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Bytes: TypeAlias = "NDArray[np.uint8]"
Run: TypeAlias = "Callable[[Sequence[Bytes]], list[Bytes] | None]"

SMALL = (0, 1, 2, 3, 5, 17, 63)
MOST_RANGES = 256


@dataclass(slots=True)
class Seen:
    """Of one buffer. `written`: first and last bytes; `is_exact`: there are no others in between. `written_bytes`: that
    were seen to be written. `matters`: other contents change what is written, or make the launch fail.
    """

    size: int
    written: list[tuple[int, int]] = field(default_factory=list)
    written_bytes: int = 0
    is_exact: bool = True
    matters: bool = False


@dataclass(slots=True)
class Experiment:
    """`runs` that came to their end, and those that `failed`. `is_stable`: the same bytes gave the same bytes."""

    buffers: list[Seen]
    runs: int = 0
    failed: int = 0
    is_stable: bool = True

    @property
    def is_complete(self) -> bool:
        """Whether nothing stood in the way of seeing each byte that this launch writes with such contents."""
        return self.is_stable and not self.failed


def observe(run: Run, sizes: Sequence[int], seed: int = 1) -> Experiment | None:
    """run: launches on buffers with these contents, and gives what they are afterwards; None when the launch fails.

    None: it fails in any case.
    """
    chance = np.random.default_rng(seed)
    base = [_small(chance, size) for size in sizes]
    first = run(base)
    again = None if first is None else run(base)
    if first is None or again is None:
        return None
    stable = [one == other for one, other in zip(first, again, strict=True)]
    written = [_changed(base[i], first[i]) | _changed(base[i], again[i]) for i in range(len(base))]
    found = Experiment([Seen(size) for size in sizes], runs=2, is_stable=all(bool(each.all()) for each in stable))
    for number in range(len(base)):
        _vary(run, base, number, chance, first, stable, written, found)
    for seen, mask in zip(found.buffers, written, strict=True):
        seen.written_bytes = int(mask.sum())
        seen.written, seen.is_exact = _ranges(mask)
    return found


def _vary(
    run: Run,
    base: Sequence[Bytes],
    number: int,
    chance: np.random.Generator,
    first: Sequence[Bytes],
    stable: Sequence[NDArray[np.bool_]],
    written: list[NDArray[np.bool_]],
    found: Experiment,
) -> None:
    """Other contents of one buffer."""
    size = len(base[number])
    poison = chance.integers(0, 256, size, dtype=np.uint8)
    ends: list[Bytes] = []
    changed = np.zeros(size, np.bool_)
    for content in (_small(chance, size), poison, ~poison):
        filled = [*base[:number], content, *base[number + 1 :]]
        after = run(filled)
        if after is None:
            found.failed += 1
            found.buffers[number].matters = True
            continue
        found.runs += 1
        for other in range(len(base)):
            written[other] |= _changed(filled[other], after[other])
            is_same = other == number or not bool((_changed(after[other], first[other]) & stable[other]).any())
            found.buffers[number].matters |= not is_same
        ends.append(after[number])
        changed |= _changed(content, after[number])
    for one, other_end in pairwise(ends):
        differs = _changed(one, other_end) & changed & stable[number]
        found.buffers[number].matters |= bool(differs.any())


def _small(chance: np.random.Generator, size: int) -> Bytes:
    words = chance.choice(np.array(SMALL, np.uint32), -(-size // 4))
    return words.view(np.uint8)[:size].copy()


def _changed(before: Bytes, after: Bytes) -> NDArray[np.bool_]:
    return np.not_equal(before, after)


def _ranges(mask: NDArray[np.bool_]) -> tuple[list[tuple[int, int]], bool]:
    """Runs of bytes; where there are too many, the closest become one. Whether none did."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], mask.astype(np.int8), [0]))))
    firsts, ends = edges[::2], edges[1::2]
    if len(firsts) <= MOST_RANGES:
        return _pairs(firsts, ends), True
    gaps = firsts[1:] - ends[:-1]
    kept = np.sort(np.argsort(gaps, kind="stable")[len(gaps) - (MOST_RANGES - 1) :])
    return _pairs(np.concatenate((firsts[:1], firsts[kept + 1])), np.concatenate((ends[kept], ends[-1:]))), False


def _pairs(firsts: NDArray[np.intp], ends: NDArray[np.intp]) -> list[tuple[int, int]]:
    return [(int(first), int(end) - 1) for first, end in zip(firsts, ends, strict=True)]
