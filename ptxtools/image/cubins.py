"""Machine code in fat binaries, cubins and executables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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

    def runs_on(self, architecture: int) -> bool:
        if not self.container:
            return True
        if self.exact:
            return self.architecture == architecture
        return self.architecture // 10 == architecture // 10 and self.architecture <= architecture


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


def best_cubins(found: Iterable[Cubin], architecture: int) -> list[Cubin]:
    """Of each container the cubin that the driver takes for the architecture; all cubins outside of containers."""
    chosen: dict[int, Cubin] = {}
    others = []
    for each in found:
        if not each.container:
            others.append(each)
        elif each.runs_on(architecture):
            before = chosen.get(each.container)
            if before is None or each.architecture > before.architecture:
                chosen[each.container] = each
    return others + list(chosen.values())
