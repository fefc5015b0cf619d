"""Loads with which a tile of CUB's scans, selections and reductions looks back at the tiles before it.

Each tile publishes its state in an array of descriptors, of which the launch writes those of its own tiles, and loads
those before it until one says all. Only what memory holds ends that. But the array begins where its pointer points, 32
descriptors before the first tile's, of which an earlier launch has said that nothing is before them; and what lies
behind the last tile's is never looked at.
"""

from __future__ import annotations

from collections.abc import Iterable

from ptxtools.access.template import AccessKind

_STATE = "ScanTileState"  # in the kernel's name: the type of a parameter
_STRONG = {"STRONG", "relaxed", "acquire", "volatile"}  # as machine code and PTX say that other threads may write it


def looks_back(kernel: str, kind: AccessKind, parts: Iterable[str]) -> bool:
    """Whether an access, by the parts of its opcode, is such a load."""
    return kind is AccessKind.READ and _STATE in kernel and not _STRONG.isdisjoint(parts)
