"""How much memory a process holds, of GPUs or page-locked on the host, from its records of allocations and frees."""

from collections.abc import Sequence
from functools import cache

import numpy as np

from controlplane.observe.layout import Kind, Records, driver_functions, joined

EARLY_FREES = 65536  # that are remembered, at most


@cache
def host_calls() -> tuple[int, ...]:
    """The driver functions that allocate or free page-locked memory, by their row."""
    return tuple(row for row, name in enumerate(driver_functions()) if "Host" in name)


class MemoryUse:
    """Threads may free what others allocated, and rings are read in turn: a free may be seen before its allocation."""

    def __init__(self, *, of_host: bool = False) -> None:
        self._of_host = of_host
        self.allocations = self.frees = 0
        self.allocated_bytes = self.live_bytes = self.peak_bytes = 0
        self._live: dict[int, int] = {}
        self._early: dict[int, int] = {}  # frees of unknown addresses: when

    def add(self, batches: Sequence[Records]) -> None:
        """Records of one turn, of any kind; those of allocations and frees are put into the order of their time."""
        chosen = [self._chosen(records) for records in batches]
        records = joined(chosen)
        if not len(records):
            return
        records = records[np.argsort(records["start"], kind="stable")]
        columns = (records[name].tolist() for name in ("kind", "start", "memory.address", "memory.bytes"))
        for kind, start, address, size in zip(*columns, strict=True):
            self.step(kind == Kind.ALLOCATE, start, address, size)

    def forget(self) -> None:
        """Keeps the sums."""
        self._live.clear()
        self._early.clear()

    def step(self, allocates: bool, start: int, address: int, size: int) -> None:
        """One allocation or free, at this time of any clock."""
        if allocates:
            self._allocate(start, address, size)
        else:
            self._free(start, address, size)

    def _chosen(self, records: Records) -> Records:
        found = records[(records["kind"] == Kind.ALLOCATE) | (records["kind"] == Kind.FREE)]
        of_host = np.isin(found["call"], host_calls())
        chosen: Records = found[(found["result"] == 0) & (of_host == self._of_host)]
        return chosen

    def _allocate(self, start: int, address: int, size: int) -> None:
        self.allocations += 1
        self.allocated_bytes += size
        if self._early.pop(address, 0) > start:
            return
        self.live_bytes += size - self._live.get(address, 0)
        self._live[address] = size
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)

    def _free(self, start: int, address: int, size: int) -> None:
        """size: of an unmapping, which may end several allocations; else 0."""
        self.frees += 1
        if address in self._live:
            end = address + max(size, 1)
            while address < end and address in self._live:
                freed = self._live.pop(address)
                self.live_bytes -= freed
                address += max(freed, 1)
        elif len(self._early) < EARLY_FREES:
            self._early[address] = start
