"""How much device memory a process holds, from its records of allocations and frees."""

from collections.abc import Sequence

import numpy as np

from controlplane.observe.layout import Kind, Records

EARLY_FREES = 65536  # that are remembered, at most


class MemoryUse:
    """Threads may free what others allocated, and rings are read in turn: a free may be seen before its allocation."""

    def __init__(self) -> None:
        self.allocations = self.frees = 0
        self.allocated_bytes = self.live_bytes = self.peak_bytes = 0
        self._live: dict[int, int] = {}
        self._early: dict[int, int] = {}  # frees of unknown addresses: when

    def add(self, batches: Sequence[Records]) -> None:
        """Records of one turn, of any kind; those of allocations and frees are put into the order of their time."""
        chosen = [
            records[((records["kind"] == Kind.ALLOCATE) | (records["kind"] == Kind.FREE)) & (records["result"] == 0)]
            for records in batches
        ]
        records = np.concatenate(chosen) if len(chosen) > 1 else chosen[0]
        if not len(records):
            return
        records = records[np.argsort(records["start"], kind="stable")]
        columns = (records[name].tolist() for name in ("kind", "start", "memory.address", "memory.bytes"))
        for kind, start, address, size in zip(*columns, strict=True):
            if kind == Kind.ALLOCATE:
                self._allocate(start, address, size)
            else:
                self._free(start, address)

    def _allocate(self, start: int, address: int, size: int) -> None:
        self.allocations += 1
        self.allocated_bytes += size
        if self._early.pop(address, 0) > start:
            return
        self.live_bytes += size - self._live.get(address, 0)
        self._live[address] = size
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)

    def _free(self, start: int, address: int) -> None:
        self.frees += 1
        if address in self._live:
            self.live_bytes -= self._live.pop(address)
        elif len(self._early) < EARLY_FREES:
            self._early[address] = start
