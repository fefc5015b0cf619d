"""Parts of pages between marks, which generators write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from scripts.commands.dispatch import parser_of


def with_parts(text: str, parts: Mapping[str, str]) -> str:
    """Each part lies between the lines `<!-- NAME: begin -->` and `<!-- NAME: end -->`."""
    for name, part in parts.items():
        begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->\n"
        start, stop = text.index(begin) + len(begin), text.index(end)
        text = text[:start] + part + text[stop:]
    return text


def generate(module: str, about: str | None, words: Sequence[str], page: Path, parts: Mapping[str, str]) -> int:
    """A sub-command that writes the parts, or with --check says by its exit status 1 that they are not current."""
    parser = parser_of(module, about)
    parser.add_argument("--check", action="store_true", help="only compare")
    text = page.read_text()
    wanted = with_parts(text, parts)
    if parser.parse_args(words).check:
        return 0 if wanted == text else 1
    page.write_text(wanted)
    return 0
