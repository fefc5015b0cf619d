"""The functions of traces and the code that they are of, for benchmarks.

Code is where the trace says that it lay. On another machine, libraries with the same code are searched for it.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Self

from controlplane.analysis.analyst import Analyst, Opened
from controlplane.analysis.cache import Key
from controlplane.analysis.result import Analysis
from controlplane.analysis.task import Place
from controlplane.analysis.traced import Images, Used, used
from controlplane.base.content import content_hash
from controlplane.observe.trace import Trace
from ptxtools.machine.consent import Consent

CONTAINER = struct.pack("<IHH", 0xBA55ED50, 1, 16)  # of a fat binary
SECONDS = 3600.0


class Libraries:
    """Files with fat binaries, to be found by their hash; a context manager."""

    def __init__(self, files: Sequence[Path]) -> None:
        self._files = files
        self._stack = ExitStack()
        self._places: dict[int, list[tuple[mmap.mmap, int, int]]] = defaultdict(list)  # by size

    def __enter__(self) -> Self:
        for file in self._files:
            descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
            self._stack.callback(os.close, descriptor)
            view = self._stack.enter_context(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ))
            for offset, size in containers(view):
                self._places[size].append((view, descriptor, offset))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def find(self, code: int, size: int) -> Opened | None:
        for view, descriptor, offset in self._places[size]:
            if content_hash(view[offset : offset + size]) == code:
                return Opened(descriptor, Place(offset, size))
        return None


def containers(data: mmap.mmap) -> Iterator[tuple[int, int]]:
    """Offset and size of each fat binary."""
    offset = data.find(CONTAINER)
    while offset >= 0:
        (size,) = struct.unpack_from("<Q", data, offset + 8)
        yield offset, size + 16
        offset = data.find(CONTAINER, offset + 16)


def uses(trace: Trace, consent: Consent) -> list[Used]:
    """What the trace's processes used."""
    return [used(process, consent) for process in trace.processes]


def opened(processes: Sequence[Used], images: Images, libraries: Libraries) -> dict[Key, list[Opened]]:
    """The code of all functions for which there is any."""
    found: dict[Key, list[Opened]] = {}
    for process in processes:
        for function in process.functions.values():
            key = function.key
            if key is None or key in found:
                continue
            there = images.of(process.traced, key)
            if there is None and not key.sources:
                elsewhere = libraries.find(key.code, key.code_bytes)
                there = [elsewhere] if elsewhere is not None else None
            if there is not None:
                found[key] = there
    return found


def analysed(code: dict[Key, list[Opened]], analyst: Analyst) -> dict[Key, Analysis]:
    """From the cache or the pool's workers."""
    found: dict[Key, Analysis] = {}
    for key, images in code.items():
        known = analyst.remembered(key)
        if known is not None:
            found[key] = known
        else:
            analyst.make(key, images, partial(found.__setitem__, key))
    analyst.pool.wait(SECONDS)
    analyst.pool.finish()
    return found
