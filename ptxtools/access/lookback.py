"""Loads of CUB's decoupled look-back, with which a tile of a scan, selection or reduction reads the state of earlier
tiles.

Each tile publishes its state in an array of descriptors, writes its own, and loads earlier ones until one has an
inclusive prefix. Only memory contents end that loop. But the array begins where its pointer points, 32 descriptors
before the first tile's, which an earlier launch has marked as having no predecessor; and descriptors after the last
tile's are never read.
"""

from __future__ import annotations

from collections.abc import Iterable

from ptxtools.access.template import AccessKind

_STATE = "ScanTileState"  # in the kernel's name: the type of a parameter
_STRONG = {"STRONG", "relaxed", "acquire", "volatile"}  # as machine code and PTX say that other threads may write it


def looks_back(kernel: str, kind: AccessKind, parts: Iterable[str]) -> bool:
    """Whether an access, by the parts of its opcode, is such a load."""
    return kind is AccessKind.READ and _STATE in kernel and not _STRONG.isdisjoint(parts)
