"""Who asks, and when: so many requests at once, or as they arrive, by chance or as a recorded service saw them.

Files are CSV with a heading, as published: BurstGPT's `Timestamp` is in seconds; the `TIMESTAMP` of Azure's traces of
LLM inference is a date and time.
"""

from __future__ import annotations

import csv
import random
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ptxtools.errors import ConfigError

SPEC = "poisson:RATE (requests per second), or a CSV file with a column Timestamp (seconds) or TIMESTAMP (a time)"
SEED = 1
NANO = 1e9


@dataclass(frozen=True, slots=True)
class Load:
    """at_ns: when requests arrive, in their order; empty: whenever there is somebody to serve one. servers: how many
    there are, each with one request at a time; 0: the program's threads, which wait only where the program does.
    """

    requests: int
    at_ns: tuple[float, ...] = ()
    servers: int = 0
    threads: int = 1


def arrivals(spec: str, requests: int, servers: int) -> Load:
    """As --arrivals says. requests: how many of them. Errors: ConfigError."""
    kind, _, rate = spec.partition(":")
    if kind == "poisson":
        return Load(requests, _poisson(rate, requests), servers)
    found = _of_file(Path(spec))[:requests]
    return Load(len(found), found, servers)


def _poisson(rate: str, requests: int) -> tuple[float, ...]:
    """The same ones each time."""
    try:
        per_second = float(rate)
    except ValueError:
        per_second = 0.0
    if not 0 < per_second < 1e9:
        raise ConfigError(f"--arrivals poisson:{rate} has no usable rate", expected=SPEC)
    chance, now, found = random.Random(SEED), 0.0, []
    for _ in range(requests):
        now += chance.expovariate(per_second) * NANO
        found.append(now)
    return tuple(found)


def _of_file(file: Path) -> tuple[float, ...]:
    try:
        with file.open(newline="") as stream:
            rows = csv.DictReader(stream)
            names = {name.strip().lower(): name for name in rows.fieldnames or [] if name}
            if "timestamp" not in names:
                raise ConfigError("its heading has no column Timestamp", expected=SPEC, file=file, line=1)
            times = [_time(row[names["timestamp"]] or "", file, rows.line_num) for row in rows]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        what = getattr(error, "strerror", None) or str(error)
        raise ConfigError(f"--arrivals {file}: {what}", expected=SPEC) from error
    if not times:
        raise ConfigError("there are no requests in it", expected=SPEC, file=file)
    first = min(times)
    return tuple(sorted((each - first) * NANO for each in times))


def _time(text: str, file: Path, line: int) -> float:
    """Seconds."""
    try:
        return float(text)
    except ValueError:
        pass
    try:
        whole, _, part = text.strip().partition(".")
        seconds = datetime.fromisoformat(whole).timestamp()
        digits = part[: len(part) - len(part.lstrip("0123456789"))] if part else ""
        return seconds + (float(f"0.{digits}") if digits else 0.0)
    except ValueError:
        raise ConfigError(
            f"{text!r} is no time", expected="seconds, or a date and time", file=file, line=line
        ) from None
