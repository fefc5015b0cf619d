"""interpose/api/SUPPORT.md, from the driver table interpose/api/driver.def.

scripts/gen support
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from interpose.api.support import render
from interpose.api.table import read_routes, read_rows
from scripts.commands.dispatch import parser_of

ROOT = Path(__file__).resolve().parents[3]
API = ROOT / "interpose" / "api"


def replace(path: Path, text: str) -> None:
    """At once, so that a build beside us never reads half a file."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(text)
    draft.replace(path)


def write() -> None:
    rows = read_rows(API / "driver.def")
    replace(API / "SUPPORT.md", render(rows, read_routes(API / "routes.tsv")))


def main(words: Sequence[str]) -> int:
    parser_of(__name__, __doc__).parse_args(words)
    write()
    return 0
