"""The index in scripts/README.md, from the docstrings of the commands and benchmarks.

scripts/gen index [--check]
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from scripts.commands.dispatch import purpose, purposes
from scripts.commands.marked import generate

SCRIPTS = Path(__file__).resolve().parents[2]
ROOMS = ("lab", "hardware", "gen")


def benchmarks() -> dict[str, str]:
    """The executable ones; what else lies beside them belongs to these."""
    files = sorted(file for file in (SCRIPTS / "bench").iterdir() if file.is_file())
    return {file.name: purpose(file) for file in files if file.read_bytes().startswith(b"#!")}


def table(lines: dict[str, str]) -> str:
    rows = [f"| `{name}` | {text} |\n" for name, text in lines.items()]
    return "".join(["| name | what for |\n", "|---|---|\n", *rows])


def main(words: Sequence[str]) -> int:
    parts = {room: table(purposes(room)) for room in ROOMS} | {"bench": table(benchmarks())}
    return generate(__name__, __doc__, words, SCRIPTS / "README.md", parts)
