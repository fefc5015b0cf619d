"""Finds the PTX in what a program hands to the driver, or in the program itself.

PTX counts only when it is what runs: of one container the newest text that the architecture can use. Machine code
without PTX is told, not skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ptxtools.image import elf, fatbin
from ptxtools.image.fatbin import Entry, Flag, Kind

_DEBUG_SECTION = ".nv_debug_ptx_txt"
_TEXT = re.compile(rb"\s*(?://[^\n]*\n\s*|/\*.*?\*/\s*)*\.version\s", re.DOTALL)
_TARGET = re.compile(r"^\s*\.target\s+sm_(\d+)", re.MULTILINE)


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
