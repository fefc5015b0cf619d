"""The tables of commands and options in docs/command-line.md, from the commands' own parsers.

scripts/gen command-line [--check]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from controlplane.commands import main as commands
from controlplane.commands import run
from scripts.commands.marked import generate

PAGE = Path(__file__).resolve().parents[3] / "docs" / "command-line.md"


def main(words: Sequence[str]) -> int:
    programs = [*_sections(run.parser(), "tessera-run"), *_sections(commands.parser(*commands.COMMANDS), "tessera")]
    return generate(__name__, __doc__, words, PAGE, {"options": "\n".join(programs)})


def _sections(parser: argparse.ArgumentParser, words: str) -> Iterator[str]:
    """A section for each parser that has options of its own, inner ones after theirs."""
    rows = [_row(action) for action in parser._actions if _is_told(action)]  # noqa: SLF001 no other way to ask
    if rows:
        about = "" if words in ("tessera", "tessera-run") else f"{parser.description or ''}\n\n"
        yield f"### {words}\n\n{about}| option | meaning |\n|---|---|\n" + "".join(rows)
    for action in parser._actions:  # noqa: SLF001
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for name, inner in action.choices.items():
                if f"{words} {name}" != "tessera run":
                    yield from _sections(inner, f"{words} {name}")


def _is_told(action: argparse.Action) -> bool:
    is_usual = isinstance(action, (argparse._HelpAction, argparse._SubParsersAction))  # noqa: SLF001
    return not is_usual and action.help != argparse.SUPPRESS


def _row(action: argparse.Action) -> str:
    value = action.metavar or "\\|".join(map(str, action.choices or ())) or action.dest.upper()
    names = ", ".join(action.option_strings)
    shown = f"{names} {value}" if names and action.nargs != 0 else names or str(value)
    text = (action.help or "").replace("|", "\\|") % {"default": action.default, "prog": "tessera"}
    return f"| `{shown}` | {text} |\n"
