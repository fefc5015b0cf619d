"""The same problem on other groups of GPUs: some of them only, or equal ones divided into several kinds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from controlplane.plan.problem import MOST_KINDS, Kind, Links, Problem


def regrouped(given: Problem, parts: Sequence[tuple[int, int]]) -> Problem:
    """Kinds made of `count` GPUs of a kind each: (kind, count) in the order of the new ones."""
    taken = dict.fromkeys(range(len(given.kinds)), 0)
    kinds = []
    for of, count in parts:
        kind, first = given.kinds[of], taken[of]
        taken[of] += count
        kinds.append(replace(kind, count=count, numbers=kind.numbers[first : first + count]))
    of_kind = [of for of, _ in parts]
    at = np.ix_(of_kind, of_kind)
    links = given.links
    return replace(
        given,
        kinds=tuple(kinds),
        ns=np.ascontiguousarray(given.ns[:, of_kind]),
        allowed=np.ascontiguousarray(given.allowed[:, of_kind]),
        links=Links(links.ns_per_byte[at], links.message_ns[at], links.latency_ns[at], links.stream_ns[at]),
    )


def only(given: Problem, kind: int, count: int) -> Problem | None:
    """One kind; None if some node may not run there."""
    return regrouped(given, [(kind, count)]) if given.allowed[:, kind].all() else None


def finer(given: Problem) -> list[Problem]:
    """Equal GPUs as several kinds: of halves, of thirds, ..., of one each. Pinned nodes may run on any of them."""
    most = max(kind.count for kind in given.kinds)
    found: list[Problem] = []
    for size in range(most - 1, 0, -1):
        parts = [(number, count) for number, kind in enumerate(given.kinds) for count in _divided(kind, size)]
        if len(parts) <= MOST_KINDS and len(parts) not in {len(each.kinds) for each in found}:
            found.append(regrouped(given, parts))
    return found


def _divided(kind: Kind, size: int) -> list[int]:
    """Of `size` at most, as equal as possible."""
    pieces = -(-kind.count // size)
    return [kind.count // pieces + (each < kind.count % pieces) for each in range(pieces)]


def single(given: Problem) -> Problem:
    """Each GPU a kind of its own."""
    return regrouped(given, [(number, 1) for number, kind in enumerate(given.kinds) for _ in range(kind.count)])
