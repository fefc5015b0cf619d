"""The semantics table: every PTX instruction that works lane by lane, spelled out.

`ROWS` holds one row per valid spelling, modifiers in PTX's order. Two consumers read the same rows: `emit_c` generates
the emulated driver's operations from `value`, the access analysis uses `transfer`. Instructions that touch memory,
control flow or other lanes are not here. Keys that begin with "tsr." are the decoder's: parts of instructions that PTX
spells in operands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ptxtools.isa import compare, convert, floating, half, integer, logic, special
from ptxtools.isa.row import Row, Rows

_FAMILIES: tuple[Callable[[], Rows], ...] = (
    integer.rows,
    logic.rows,
    floating.rows,
    compare.rows,
    convert.rows,
    half.rows,
    special.rows,
)


def _index(families: Iterable[Callable[[], Rows]]) -> dict[str, Row]:
    table: dict[str, Row] = {}
    for family in families:
        for row in family():
            if row.key in table:
                raise ValueError(f"two rows for {row.key}")
            table[row.key] = row
    return table


_TABLE = _index(_FAMILIES)
ROWS: tuple[Row, ...] = tuple(_TABLE.values())


def spelled(opcode: str) -> Row | None:
    """The row of an opcode as PTX spells it ("mad.wide.u32"); None when it is not a lane operation."""
    return _TABLE.get(opcode)
