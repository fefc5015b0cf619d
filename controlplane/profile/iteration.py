"""What a program does again and again, found without markers: the shortest sequence of operations that repeats.

Operations are compared by what they are, their shape, the weights that they read (bytes that nobody writes), and how
far before them what they need was written. So two layers differ, and two iterations do not. An iteration begins where
the fewest bytes cross from one to the next.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controlplane.graph.nodes import Node, What, Why
from controlplane.graph.versions import Dependencies

LEAST = 3  # iterations, to count as such
ALIKE = 0.9  # of what is compared is as one iteration before
NEARLY = 0.02  # a shorter sequence is as good if it is worse by this
CANDIDATES = 64
FAR = 64  # writers further back count as far


@dataclass(frozen=True, slots=True)
class Recurring:
    """numbers: of the thread's operations, in their order; starts: at which places of `numbers` iterations begin, each
    of `length` operations; threads: how many threads do the same.
    """

    numbers: tuple[int, ...]
    starts: tuple[int, ...]
    length: int
    threads: int = 1

    @property
    def is_recurring(self) -> bool:
        return len(self.starts) > 1

    def nodes(self, iteration: int) -> tuple[int, ...]:
        first = self.starts[iteration]
        return self.numbers[first : first + self.length]


def find(found: Dependencies, keys: Sequence[Hashable]) -> Recurring:
    """keys: by operation, what it is (function and shape). Of the thread with the most launches, then operations."""
    by_thread: dict[int, list[int]] = {}
    for number, node in enumerate(found.program.nodes):
        if node.what is not What.FORGET:
            by_thread.setdefault(node.thread, []).append(number)
    nodes = found.program.nodes

    def work(some: list[int]) -> tuple[int, int]:
        return sum(nodes[number].what is What.LAUNCH for number in some), len(some)

    numbers = max(by_thread.values(), key=work, default=[])
    weights = _weights(found.program.nodes)
    for level in (2, 1, 0):
        symbols = _symbols(found, numbers, keys, weights, level)
        quarter = len(symbols) // 4
        # What comes before and after is no iteration; the middle is, or what a long beginning leaves.
        for window in (symbols[quarter : len(symbols) - quarter], symbols[2 * quarter :]):
            length = _period(window)
            if length and len(starts := _starts(found, numbers, symbols, length)) >= LEAST:
                same = max(sum(work(other)[0] > work(numbers)[0] // 2 for other in by_thread.values()), 1)
                return Recurring(tuple(numbers), starts, length, same)
    return Recurring(tuple(numbers), (0,), len(numbers))


def _weights(nodes: Sequence[Node]) -> set[tuple[int, int]]:
    """Ranges that several operations read, and no launch writes."""
    written = sorted({write.span[:2] for node in nodes if node.what is What.LAUNCH for write in node.writes})
    begins: list[int] = []
    ends: list[int] = []
    for first, end in written:
        if ends and first <= ends[-1]:
            ends[-1] = max(ends[-1], end)
        else:
            begins.append(first)
            ends.append(end)
    counts = Counter(read.span[:2] for node in nodes for read in node.reads if read.why is Why.READ)
    found = set()
    for (first, end), count in counts.items():
        place = bisect_right(begins, first) - 1
        after = begins[place + 1] if place + 1 < len(begins) else end
        if count >= LEAST and (place < 0 or ends[place] <= first) and after >= end:
            found.add((first, end))
    return found


def _symbols(
    found: Dependencies, numbers: Sequence[int], keys: Sequence[Hashable], weights: set[tuple[int, int]], level: int
) -> NDArray[np.int32]:
    """level 0: names; 1: and shapes, weights, waits; 2: and where what is read was written."""
    place = {number: index for index, number in enumerate(numbers)}
    known: dict[Hashable, int] = {}
    result = np.empty(len(numbers), np.int32)
    for index, number in enumerate(numbers):
        node = found.program.nodes[number]
        symbol: tuple[Hashable, ...] = (node.what, node.name)
        if level:
            read = frozenset(read.span[0] for read in node.reads if read.span[:2] in weights)
            symbol += (keys[number], read, bool(node.waits), bool(node.returned))
        if level > 1:
            writers = {writer for writer, _ in found.raw[number] if not found.is_constant(writer, number)}
            symbol += (frozenset(min(index - place[writer], FAR) for writer in writers if writer in place),)
        result[index] = known.setdefault(symbol, len(known))
    return result


def _period(symbols: NDArray[np.int32]) -> int:
    """The shortest shift at which nearly all is as before, each kind of operation counting as much as the others."""
    if len(symbols) < 2:
        return 0
    counts = np.bincount(symbols)
    weight = np.where(counts[symbols] >= 2, 1.0 / counts[symbols], 0.0)
    if weight.astype(bool).mean() < 0.5:
        return 0
    last: dict[int, int] = {}
    gaps: defaultdict[int, float] = defaultdict(float)
    for index, symbol in enumerate(symbols.tolist()):
        if symbol in last:
            gaps[index - last[symbol]] += float(weight[index])
        last[symbol] = index
    shares = {}
    for gap in sorted(gaps, key=lambda gap: -gaps[gap])[:CANDIDATES]:
        same = symbols[:-gap] == symbols[gap:]
        whole = weight[:-gap].sum()
        shares[gap] = float((weight[:-gap] * same).sum() / whole) if whole else 0.0
    best = max(shares.values(), default=0.0)
    return min((gap for gap, share in shares.items() if share >= best - NEARLY), default=0) if best >= ALIKE else 0


def _starts(found: Dependencies, numbers: Sequence[int], symbols: NDArray[np.int32], length: int) -> tuple[int, ...]:
    """Where iterations begin: at the cheapest place to cut, after a wait if there is a choice."""
    somewhere = _run(symbols, length, len(symbols) // 2 % length)
    inside = np.arange(max(somewhere.start, 1), somewhere.stop)
    costs = _crossing(found, numbers, length)[inside]
    most = int(inside[-1]) + 1 if len(inside) else 0
    sums = np.bincount(inside % length, costs, length)
    by_phase = sums / np.maximum(np.bincount(inside % length, minlength=length), 1)
    cheap = np.flatnonzero(by_phase <= by_phase.min() * 1.01).tolist()
    nodes = found.program.nodes

    def order(phase: int) -> tuple[bool, int]:
        last = most - 1 - (most - 1 - phase) % length
        return not nodes[numbers[last]].waits, (phase - somewhere.start) % length

    run = _run(symbols, length, min(cheap, key=order))
    return tuple(range(run.start, run.stop, length))


def _run(symbols: NDArray[np.int32], length: int, phase: int) -> range:
    """The longest sequence of iterations with this phase, each like the one before."""
    longest = first = phase
    size = 0
    for start in range(phase, len(symbols) - length + 1, length):
        before = symbols[start - length : start] if start >= length else symbols[:0]
        if start > phase and np.mean(before == symbols[start : start + length]) < ALIKE:
            first = start
        if start + length - first > size:
            longest, size = first, start + length - first
    return range(longest, longest + size)


def _crossing(found: Dependencies, numbers: Sequence[int], length: int) -> NDArray[np.float64]:
    """At each place: fresh bytes that operations from there on need of those before it, up to an iteration away: what
    comes before all of them, and what gathers their results in the end, cross every place.
    """
    place = {number: index for index, number in enumerate(numbers)}
    change = np.zeros(len(numbers) + 1)
    for index, number in enumerate(numbers):
        for (writer, _), size in found.raw[number].items():
            if place.get(writer, -1) >= index - length and writer in place and not found.is_constant(writer, number):
                change[place[writer] + 1] += max(size, 1)
                change[index + 1] -= max(size, 1)
    return np.cumsum(change)[:-1]
