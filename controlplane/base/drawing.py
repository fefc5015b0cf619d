"""Tables and lines as rich draws them; screen.py says when.

Nothing is guessed from words: brackets are no markup, numbers have no colours.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import TextIO

import rich.table
from rich.console import Console, Group
from rich.padding import Padding, PaddingDimensions
from rich.text import Text

from controlplane.base.tables import Part, Table, Warned

HEADING, WARNING, PREFIX = "bold", "yellow", "dim"
BEFORE: PaddingDimensions = (0, 0, 0, 2)  # of each cell
WHOLE = 1 << 20  # no table is as wide


def show(parts: Iterable[Part], stream: TextIO, prefix: str) -> None:
    """What is too long for a line of the terminal goes on in the next one; cells of a table do so in their column."""
    terminal = terminal_of(stream)
    if prefix:
        terminal.print(Text(prefix, PREFIX), end="", soft_wrap=True)
    for part in parts:
        if isinstance(part, Table):
            terminal.print(_table(part))
        else:
            terminal.print(_line(part), soft_wrap=True)


def terminal_of(stream: TextIO) -> Console:
    return Console(file=stream, highlight=False)


def _line(text: str) -> Text:
    return Text(text, WARNING if isinstance(text, Warned) else "")


def _table(table: Table) -> rich.table.Table:
    heading, *rows = table.rows
    drawn = rich.table.Table(box=None, padding=BEFORE, header_style=HEADING)
    for number, name in enumerate(heading):
        drawn.add_column(Text(name), justify="right" if number in table.right else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*map(Text, row))
    return drawn


def block(parts: Iterable[Part]) -> Group:
    """For a screen: where a line goes on in the next one, it stays as far to the right."""
    return Group(*(_table(part) if isinstance(part, Table) else _indented(part) for part in parts))


def _indented(line: str) -> Padding:
    depth = len(line) - len(line.lstrip())
    return Padding(_line(line)[depth:], (0, 0, 0, depth))


def lines(table: Table) -> list[str]:
    """As they are in files and pipes."""
    nowhere = Console(file=io.StringIO(), width=WHOLE, height=1, color_system=None, force_terminal=False)
    drawn = nowhere.render_lines(_table(table), pad=False)
    return ["".join(segment.text for segment in line).rstrip() for line in drawn]
