"""Kernels in wheels that exist as PTX and as machine code of the same architecture; not those of closed libraries."""

from __future__ import annotations

import random
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

from ptxtools.image import fatbin
from ptxtools.image.fatbin import Entry, Flag, Kind
from ptxtools.machine.consent import is_closed

_ELF = b"\x7fELF"
_ENTRY = re.compile(rb"\.entry\s+([\w$]+)")
_OLDEST = 75  # of what nvdisasm reads
_AT_ONCE = 8  # kernels of a pair


@dataclass(frozen=True, slots=True)
class Pair:
    """A PTX text and the cubin beside it, in files. `source`: the library and the number of its container.

    `names`: kernels to look at.
    """

    wheel: str
    source: str
    architecture: int
    text: Path
    cubin: Path
    names: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Packed:
    """A pair as it lies in a library."""

    source: str
    text: Entry
    cubin: Entry
    names: tuple[str, ...]


def pairs(wheel: Path, directory: Path, once: bool = False, most: int = 0, seed: int = 0) -> Iterator[Pair]:
    """All pairs of a wheel, written below `directory`; of so many kernels taken at random, unless `most` is 0.

    once: kernels of the same name and architecture, in several libraries or containers, are taken from the first.

    Errors: ValueError when an image in it is damaged, zipfile.BadZipFile when it is no wheel.
    """
    packed = list(_packed(wheel))
    names = [(number, name) for number, pair in enumerate(packed) for name in pair.names]
    if once:
        earliest = {(packed[number].cubin.architecture, name): number for number, name in reversed(names)}
        names = [(number, name) for (_, name), number in earliest.items()]
    if 0 < most < len(names):
        names = random.Random(seed).sample(names, most)
    for number, pair in enumerate(packed):
        wanted = sorted(name for of, name in names if of == number)
        if not wanted:
            continue
        text, cubin = directory / f"{wheel.stem}.{number}.ptx", directory / f"{wheel.stem}.{number}.cubin"
        text.write_bytes(_text(pair.text))
        cubin.write_bytes(pair.cubin.plain())
        for first in range(0, len(wanted), _AT_ONCE):
            names_here = frozenset(wanted[first : first + _AT_ONCE])
            yield Pair(wheel.name, pair.source, pair.cubin.architecture, text, cubin, names_here)


def _packed(wheel: Path) -> Iterator[_Packed]:
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            if is_closed(member.filename) or member.is_dir():
                continue
            with archive.open(member) as file:
                if file.read(len(_ELF)) != _ELF:
                    continue
            data = archive.read(member)
            library = PurePath(member.filename).name
            for number, at in enumerate(fatbin.containers(data), start=1):
                yield from _in_container(data, at, f"{library}:{number}")


def _in_container(data: bytes, at: int, source: str) -> Iterator[_Packed]:
    found: dict[tuple[int, Flag], dict[int, Entry]] = {}
    for entry in fatbin.entries(data, at):
        which = Flag(entry.flags) & (Flag.ARCHITECTURE_SPECIFIC | Flag.FAMILY)
        if entry.architecture >= _OLDEST:
            found.setdefault((entry.architecture, which), {})[entry.kind] = entry
    for kinds in found.values():
        if {Kind.PTX, Kind.ELF} <= kinds.keys():
            names = tuple(name.decode() for name in dict.fromkeys(_ENTRY.findall(_text(kinds[Kind.PTX]))))
            yield _Packed(source, kinds[Kind.PTX], kinds[Kind.ELF], names)


def _text(entry: Entry) -> bytes:
    return entry.plain().rstrip(b"\0")
