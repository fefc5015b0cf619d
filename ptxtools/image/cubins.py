"""Machine code in fat binaries, cubins and executables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ptxtools.image import elf, fatbin
from ptxtools.image.fatbin import Flag, Kind


@dataclass(frozen=True, slots=True)
class Cubin:
    """A cubin. `architecture`: 80 for sm_80, 0 for one that stands alone; it runs on its major version from there on.

    `container`: number of the fat binary that it lies in; of those, one is used. 0 outside of any.
    """

    data: bytes
    architecture: int = 0
    container: int = 0
    exact: bool = False
    family: bool = False


def cubins(data: bytes) -> Iterator[Cubin]:
    """All cubins in the data, unpacked one by one. Errors: ValueError when the data is damaged."""
    if elf.is_cubin(data):
        yield Cubin(data)
        return
    for number, at in enumerate(fatbin.containers(data), start=1):
        for entry in fatbin.entries(data, at):
            if entry.kind != Kind.ELF:
                continue
            plain = entry.plain()
            if elf.is_cubin(plain):
                exact, family = bool(entry.flags & Flag.ARCHITECTURE_SPECIFIC), bool(entry.flags & Flag.FAMILY)
                yield Cubin(plain, entry.architecture, number, exact, family)
