"""How long operations take where nothing measured them.

A launch that was not timed takes as long as the middle one of its kernel with the same grid and block, else of its
kernel. Where none was, times are guessed from the bytes, as an H200 would take for them at best.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from statistics import median

LAUNCH_NS = 2000.0
MEMORY_BYTES_PER_NS = 4400.0
HOST_BYTES_PER_NS = 50.0
ASSUMED = "at 2 us and 4.4 TB/s (50 GB/s to and from the host)"


@dataclass(slots=True)
class Times:
    """Measured ones, by what operations have in common; keys go from the narrow to the wide."""

    measured: dict[Hashable, list[float]] = field(default_factory=lambda: defaultdict(list))
    middle: dict[Hashable, float] = field(default_factory=dict)

    def add(self, keys: Sequence[Hashable], ns: float) -> None:
        for key in keys:
            self.measured[key].append(ns)

    def like(self, keys: Sequence[Hashable]) -> float | None:
        """The middle time of the first key that has any."""
        for key in keys:
            if key in self.measured:
                if key not in self.middle:
                    self.middle[key] = median(self.measured[key])
                return self.middle[key]
        return None


def guessed(size: int, *, with_host: bool = False) -> float:
    return LAUNCH_NS + size / (HOST_BYTES_PER_NS if with_host else MEMORY_BYTES_PER_NS)
