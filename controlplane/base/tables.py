"""Tables for people: columns, units."""

from collections.abc import Sequence

LINE = 118


def table(rows: Sequence[tuple[str, ...]], right: Sequence[int]) -> list[str]:
    """Lines with aligned columns, the first row being the heading; `right` are the columns that end together."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  "
        + "  ".join(
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def duration(ns: float | None) -> str:
    """A time with its unit; a dash for an unknown one."""
    if ns is None:
        return "-"
    for unit, size in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if abs(ns) >= size:
            return f"{ns / size:.3f} {unit}"
    return f"{ns:.0f} ns"


def amount(count: int) -> str:
    """Bytes with their unit."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"
