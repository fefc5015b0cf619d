"""Reads the counters of the null driver."""

import struct
from collections.abc import Mapping
from pathlib import Path

from interpose.api.table import read_rows

ROOT = Path(__file__).parents[2]
FUTURE, STRANGERS = "cuNullFuture", "strangers"
LOOK_UPS = ("cuGetProcAddress", "cuGetProcAddress_v2")


def read_calls(file: Path) -> Mapping[str, int]:
    """Calls by symbol, FUTURE and STRANGERS too, of those that were called. Empty when no process had the driver."""
    names = [row.symbol for row in read_rows(ROOT / "interpose" / "api" / "driver.def")] + [FUTURE, STRANGERS]
    data = file.read_bytes() if file.exists() else bytes(8 * len(names))
    counts = struct.unpack(f"={len(names)}Q", data)
    return {name: count for name, count in zip(names, counts, strict=True) if count}
