"""Where text for people goes: to a terminal with what stands out in it, to anything else plain.

Files and pipes get every line whole, whatever its length, and no colours, whatever variables such as FORCE_COLOR say.
rich (drawing.py) is imported for the first table, or for a terminal: mere lines in a pipe do without.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from controlplane.base.tables import Part, Table


def show(parts: Iterable[Part], stream: TextIO | None = None, prefix: str = "") -> None:
    """stream: standard output, unless another one is given. prefix: who says it, before the first line."""
    out = sys.stdout if stream is None else stream
    if out.isatty():
        from controlplane.base import drawing  # only here: see above

        drawing.show(parts, out, prefix)
    else:
        out.write(f"{prefix}{plain(parts)}\n")


def plain(parts: Iterable[Part]) -> str:
    """Lines without the last one's end."""
    return "\n".join(line for part in parts for line in ([part] if isinstance(part, str) else _lines(part)))


def _lines(table: Table) -> list[str]:
    from controlplane.base import drawing  # only here: see above

    return drawing.lines(table)
