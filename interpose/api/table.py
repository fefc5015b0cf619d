"""The driver table (driver.def) and the routes of cuGetProcAddress (routes.tsv), read into frozen records.

Standard library only: the native build runs this with whatever Python it has.
"""

import re
from dataclasses import dataclass
from enum import Enum
from pathlib import Path


class TableError(Exception):
    """A line of driver.def or routes.tsv that does not say what it should; the message names file and line."""


class Status(Enum):
    EMULATED = "EMULATED"
    UNSUPPORTED = "UNSUPPORTED"


@dataclass(frozen=True, slots=True)
class Row:
    """One exported function. `base` is set for a per-thread variant, `pfn` where cudaTypedefs.h has the type."""

    symbol: str
    group: str
    status: Status
    pfn: str | None
    base: str | None


@dataclass(frozen=True, slots=True)
class Step:
    """From this CUDA version on (1000 * major + 10 * minor), the name leads to `symbol`."""

    version: int
    symbol: str


@dataclass(frozen=True, slots=True)
class Route:
    """What one name given to cuGetProcAddress leads to, by stream flag; steps in ascending order of version."""

    name: str
    legacy: tuple[Step, ...]
    per_thread: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Routes:
    """`driver_version`: the newest version that may be asked for."""

    driver_version: int
    by_name: tuple[Route, ...]


ROW = re.compile(r"(TSR_DRIVER\w*)\(([^)]*)\)$")


def read_rows(path: Path) -> list[Row]:
    """The rows of driver.def in the order of the file."""
    rows: list[Row] = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = ROW.match(line)
        if match:
            try:
                rows.append(_row(match[1], [part.strip() for part in match[2].split(",")], rows))
            except (ValueError, KeyError, StopIteration) as error:
                raise TableError(f"{path}:{number}: not a row of the driver table: {line}") from error
    return rows


def _row(kind: str, parts: list[str], before: list[Row]) -> Row:
    if kind == "TSR_DRIVER":
        symbol, group, status, pfn = parts
        return Row(symbol, group, Status[status], pfn, None)
    if kind == "TSR_DRIVER_UNTYPED":
        symbol, group, status = parts
        return Row(symbol, group, Status[status], None, None)
    if kind == "TSR_DRIVER_TWIN":
        symbol, base, pfn = parts
        owner = next(row for row in before if row.symbol == base)
        return Row(symbol, owner.group, owner.status, pfn, base)
    raise ValueError(kind)


def read_routes(path: Path) -> Routes:
    """Lines `name <tab> steps [<tab> per-thread steps]`, steps as `version:symbol` separated by blanks."""
    driver_version = 0
    routes: list[Route] = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        fields = line.split("\t")
        try:
            if fields[0] == "driver_version":
                driver_version = int(fields[1])
                continue
            legacy = _steps(fields[1])
            routes.append(Route(fields[0], legacy, _steps(fields[2]) if len(fields) > 2 else legacy))
        except (ValueError, IndexError) as error:
            raise TableError(f"{path}:{number}: not a route: {line}") from error
    return Routes(driver_version, tuple(sorted(routes, key=lambda route: route.name)))


def _steps(text: str) -> tuple[Step, ...]:
    pairs = (step.split(":") for step in text.split())
    return tuple(Step(int(version), symbol) for version, symbol in pairs)
