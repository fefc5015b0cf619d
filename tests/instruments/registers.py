"""Registers that instructions write, as nvdisasm tells them ("life ranges"): the analysis must know of each.

For one that it does not know of, it would go on with the value before. nvdisasm calls the predicate of LDGSTS written,
too; it is only read: compilers use one in several of them, one behind the other.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ptxtools.machine.instruction import MachineInstruction
from ptxtools.machine.table import CONTROL

_PREFIXES = {"GPR": "R", "PRED": "P", "UGPR": "UR", "UPRED": "UP"}
_WRITTEN = "^x"
_LINE = re.compile(r"\s+/\*([0-9a-f]+)\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)\s*(.*?)\s*;\s*// \|(.*)\|\s*\Z")
_SPACE = re.compile(r",\s+")
_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Missed:
    """An instruction that writes registers which the analysis does not know of."""

    offset: int
    text: str
    registers: frozenset[str]


def missed(tool: Path, cubin: Path) -> Iterator[Missed]:
    """Of all instructions of a cubin. `tool`: nvdisasm, which must be able to follow all branches of it.

    Errors: subprocess.SubprocessError.
    """
    columns: Mapping[int, str] = {}
    banks: list[str] = []
    edges: list[int] = []
    for line in _listing(tool, cubin):
        _, bar, table = line.partition("// |")
        if bar and any(name in table for name in _PREFIXES):
            banks = re.findall(r"[A-Z]+", table)
            edges = [at for at, character in enumerate(table) if character == "|"]
        elif bar and "#" in table:
            columns = _columns(table, banks, edges)
        elif (match := _LINE.match(line)) and match[2].partition(".")[0] not in CONTROL:
            written = {name for at, name in columns.items() if match[4].ljust(at + 1)[at] in _WRITTEN}
            known = MachineInstruction(match[2], _SPACE.sub(",", match[3]), "", False, int(match[1], 16)).written
            if match[2].startswith("LDGSTS"):
                written = {name for name in written if not name.startswith("P")}
            if not written.issubset(known):
                yield Missed(int(match[1], 16), f"{match[2]} {match[3]}", frozenset(written.difference(known)))


def _listing(tool: Path, cubin: Path) -> Iterator[str]:
    done = subprocess.run(
        [tool, "-c", "-lrm", "wide", cubin], capture_output=True, text=True, check=True, timeout=_SECONDS
    )
    yield from done.stdout.splitlines()


def _columns(table: str, banks: list[str], edges: list[int]) -> Mapping[int, str]:
    """The register that each column is of. The last character of a number is where its column is."""
    found = {}
    for match in re.finditer(r"\d+", table):
        bank = banks[sum(edge < match.start() for edge in edges)]
        found[match.end() - 1] = f"{_PREFIXES[bank]}{match[0]}"
    return found
