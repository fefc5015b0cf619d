"""The table of options in interpose/README.md, from interpose/base/options.def.

scripts/gen options [--check]
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from scripts.commands.marked import generate

INTERPOSE = Path(__file__).resolve().parents[3] / "interpose"
ROW = re.compile(r'^\s*X\((\w+), "(\w+)", (\w+), "([^"]*)",\s*(?:\\\s*)?"([^"]*)"\)', re.MULTILINE)


def table(definitions: str) -> str:
    """The rows of an options.def as a table in Markdown."""
    rows = [
        f"| `{variable}` | {kind.lower()} | {f'`{default}`' if default else ''} | {sentence} |\n"
        for _, variable, kind, default, sentence in ROW.findall(definitions)
    ]
    return "".join(["| variable | type | default | meaning |\n", "|---|---|---|---|\n", *rows])


def main(words: Sequence[str]) -> int:
    definitions = (INTERPOSE / "base" / "options.def").read_text()
    return generate(__name__, __doc__, words, INTERPOSE / "README.md", {"options": table(definitions)})
