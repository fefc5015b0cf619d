"""Finds the code in what a program hands to the driver, or in the program itself.

`texts` finds all PTX. `running` finds what a GPU runs: of each container the machine code for the GPU, and PTX only
where there is none. PTX of the same functions beside machine code is evidence, not proof: it may be of another
architecture. What `-lineinfo` leaves inside a cubin is the PTX that this very machine code was assembled from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ptxtools.image import elf, fatbin
from ptxtools.image.fatbin import Entry, Flag, Kind

_DEBUG_SECTION = ".nv_debug_ptx_txt"
_TEXT = re.compile(rb"\s*+(?://[^\n]*+\n\s*+|(?>/\*.*?\*/)\s*+)*+\.version\s", re.DOTALL)
_TARGET = re.compile(r"^[ \t]*+\.target\s++sm_(\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Text:
    """A PTX text. `architecture`: 80 for sm_80. `exact`: usable on that architecture only; `family`: on its major
    version only.

    `container`: number of the fat binary that it lies in; of those, one is used. 0 outside of any.
    """

    source: str
    architecture: int
    text: str
    container: int = 0
    exact: bool = False
    family: bool = False

    def runs_on(self, architecture: int) -> bool:
        if self.exact:
            return self.architecture == architecture
        if self.family and self.architecture // 10 != architecture // 10:
            return False
        return self.architecture <= architecture


@dataclass(frozen=True, slots=True)
class Code:
    """What a GPU runs: the PTX, or a cubin and the PTX that it was assembled from if it carries that."""

    source: str
    architecture: int
    text: str | None = None
    cubin: bytes | None = None


def texts(data: bytes) -> list[Text]:
    """All PTX in PTX text, fat binaries, cubins and executables. Errors: ValueError when the data is none of these or
    damaged.
    """
    if _TEXT.match(data):
        return [_plain("text", data)]
    found = []
    known = elf.is_elf(data)
    if elf.is_cubin(data):
        return _in_cubin(data, "cubin", 0)
    for number, at in enumerate(fatbin.containers(data), start=1):
        known = True
        for entry in fatbin.entries(data, at):
            found += _in_entry(entry, number)
    if not known:
        raise ValueError("neither PTX nor a fat binary, cubin or executable")
    return found


def best(found: Iterable[Text], architecture: int) -> list[Text]:
    """Of each container the text that the driver takes for the architecture; all texts outside of containers."""
    chosen: dict[int, Text] = {}
    others = []
    for each in found:
        if not each.container:
            others.append(each)
        elif each.runs_on(architecture):
            before = chosen.get(each.container)
            if before is None or each.architecture > before.architecture:
                chosen[each.container] = each
    return others + list(chosen.values())


def running(data: bytes, architecture: int, *, ptx_only: bool = False) -> list[Code]:
    """What the driver takes of an image. `ptx_only`: a driver that runs PTX and nothing else, as the emulated one.

    Errors: ValueError when the data is no image or damaged.
    """
    if _TEXT.match(data):
        plain = _plain("text", data)
        return [Code(plain.source, plain.architecture, plain.text)]
    if elf.is_cubin(data):
        return [_cubin_code(data, "cubin", 0)]
    found, known = [], elf.is_elf(data)
    for at in fatbin.containers(data):
        known = True
        entries = [entry for entry in fatbin.entries(data, at) if _is_usable(entry, architecture)]
        found += _chosen(entries, ptx_only)
    if not known:
        raise ValueError("neither PTX nor a fat binary, cubin or executable")
    return found


def _is_usable(entry: Entry, architecture: int) -> bool:
    """PTX is translated for any later GPU; machine code runs on GPUs of its major version from its own on."""
    if entry.kind not in (Kind.PTX, Kind.ELF) or entry.architecture > architecture:
        return False
    if entry.flags & Flag.ARCHITECTURE_SPECIFIC:
        return entry.architecture == architecture
    anywhere = entry.kind == Kind.PTX and not entry.flags & Flag.FAMILY
    return anywhere or entry.architecture // 10 == architecture // 10


def _chosen(entries: list[Entry], ptx_only: bool) -> list[Code]:
    """The newest of the kind that is preferred; several where the container has them for one architecture.

    Of machine code, what is for that architecture only comes first: beside kernels for 9.0a, libraries carry kernels of
    the same names for 9.0 that fail.
    """
    first, second = (Kind.PTX, Kind.ELF) if ptx_only else (Kind.ELF, Kind.PTX)
    of_kind = [entry for entry in entries if entry.kind == first] or [e for e in entries if e.kind == second]
    newest = max((entry.architecture for entry in of_kind), default=0)
    found = [entry for entry in of_kind if entry.architecture == newest]
    specific = [each for each in found if each.kind == Kind.ELF and each.flags & Flag.ARCHITECTURE_SPECIFIC]
    return [_entry_code(entry) for entry in specific or found]


def _entry_code(entry: Entry) -> Code:
    plain = entry.plain()
    if entry.kind == Kind.ELF:
        return _cubin_code(plain, "cubin in a fat binary", entry.architecture)
    return Code("fat binary", entry.architecture, plain.rstrip(b"\0").decode(errors="replace"))


def _cubin_code(data: bytes, source: str, architecture: int) -> Code:
    found = _in_cubin(data, source, 0)
    text = found[0] if found else None
    return Code(source, architecture or (text.architecture if text else 0), text.text if text else None, data)


def _plain(source: str, data: bytes) -> Text:
    text = data.rstrip(b"\0").decode(errors="replace")
    match = _TARGET.search(text)
    return Text(source, int(match[1]) if match else 0, text)


def _in_entry(entry: Entry, container: int) -> list[Text]:
    if entry.kind == Kind.PTX:
        text = entry.plain().rstrip(b"\0").decode(errors="replace")
        exact, family = bool(entry.flags & Flag.ARCHITECTURE_SPECIFIC), bool(entry.flags & Flag.FAMILY)
        return [Text("fat binary", entry.architecture, text, container, exact, family)]
    if entry.kind == Kind.ELF:
        plain = entry.plain()
        return _in_cubin(plain, "cubin in a fat binary", container) if elf.is_cubin(plain) else []
    return []


def _in_cubin(data: bytes, source: str, container: int) -> list[Text]:
    """What `-lineinfo` leaves in a cubin, its lines separated by NUL."""
    contents = elf.section(data, _DEBUG_SECTION)
    if contents is None:
        return []
    plain = _plain(source, contents.replace(b"\0", b"\n"))
    return [Text(source, plain.architecture, plain.text, container, exact=container != 0)]
