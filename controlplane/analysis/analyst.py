"""Analyses by key: from the cache, else from the pool's workers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from controlplane.analysis.cache import Cache, Key
from controlplane.analysis.pool import Pool
from controlplane.analysis.result import Analysis
from controlplane.analysis.task import Place, Task


@dataclass(frozen=True, slots=True)
class Opened:
    """An image in a file that is open; the descriptor is its owner's."""

    descriptor: int
    place: Place


class Analyst:
    """`cached`, `made`: how many analyses came from where."""

    def __init__(self, cache: Cache, pool: Pool) -> None:
        self.cache, self.pool = cache, pool
        self.cached = self.made = 0

    def remembered(self, key: Key) -> Analysis | None:
        found = self.cache.get(key)
        self.cached += found is not None
        return found

    def make(self, key: Key, images: Sequence[Opened], done: Callable[[Analysis], None]) -> None:
        """Of the code's image and its sources. `done` is called later; never, if the pool is finished before."""

        def count(analysis: Analysis) -> None:
            self.made += 1
            done(analysis)

        places = tuple(image.place for image in images)
        self.pool.ask(Task(key, places), [image.descriptor for image in images], count)
