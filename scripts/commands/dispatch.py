"""Sub-commands: each is a module in a folder beside this file, with `main(words) -> int`, its exit status.

What a sub-command is called and what it is for stands in its module alone: the name with dashes, the docstring's first
paragraph. Listing them imports none, so that a list needs no package that some of them need.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).parent


def names(room: str) -> list[str]:
    return sorted(file.stem.replace("_", "-") for file in (HERE / room).glob("*.py"))


def purpose(file: Path) -> str:
    """The first paragraph of a Python file's docstring, in one line."""
    text = ast.get_docstring(ast.parse(file.read_text())) or ""
    return " ".join(text.partition("\n\n")[0].split())


def purposes(room: str) -> dict[str, str]:
    """Of each sub-command."""
    return {name: purpose(HERE / room / f"{name.replace('-', '_')}.py") for name in names(room)}


def listing(room: str, about: str | None) -> str:
    found = purposes(room)
    width = max(map(len, found))
    lines = [f"  {name:{width}}  {text}" for name, text in found.items()]
    return "\n".join([(about or "").strip(), "", *lines])


def parser_of(module: str, about: str | None) -> argparse.ArgumentParser:
    """For the options of a sub-command: its module's name and docstring."""
    _, room, name = module.rsplit(".", 2)
    program = f"scripts/{room} {name.replace('_', '-')}"
    return argparse.ArgumentParser(program, description=about, formatter_class=argparse.RawDescriptionHelpFormatter)


def run(room: str, name: str, words: Sequence[str]) -> int:
    status: int = import_module(f"scripts.commands.{room}.{name.replace('-', '_')}").main(words)
    return status


def dispatch(room: str, about: str | None, words: Sequence[str]) -> int:
    """Runs the sub-command that the first word names; without one, lists them."""
    if not words or words[0] in ("-h", "--help"):
        print(listing(room, about))
        return 0 if words else 2
    if words[0] not in names(room):
        print(f"scripts/{room}: no such command: {words[0]}; there are {', '.join(names(room))}", file=sys.stderr)
        return 2
    return run(room, words[0], words[1:])
