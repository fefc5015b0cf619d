"""A parser of command lines that says what was probably meant."""

from __future__ import annotations

import argparse
import os
import re
from typing import Any, NoReturn

UNKNOWN = re.compile(r"unrecognized arguments: (--?[\w-]+)|invalid choice: '([^']*)' \(choose from (.*)\)")
USUAL_COLUMNS = 80


def _columns() -> int:
    """Of the terminal, as shutil.get_terminal_size() says: that imports every compression there is."""
    said = os.environ.get("COLUMNS", "")
    if said.isdigit() and int(said):
        return int(said)
    try:
        return os.get_terminal_size(1).columns or USUAL_COLUMNS
    except OSError:
        return USUAL_COLUMNS


class Help(argparse.HelpFormatter):
    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


class RawHelp(Help, argparse.RawDescriptionHelpFormatter):
    """Descriptions keep their lines."""


class Parser(argparse.ArgumentParser):
    def __init__(self, **named: Any) -> None:
        super().__init__(**{"formatter_class": Help, **named})

    def error(self, message: str) -> NoReturn:
        found = UNKNOWN.search(message)
        if found:
            import difflib  # only here: commands start sooner without it

            known = re.findall(r"[\w.-]+", found[3]) if found[3] else [*self._option_string_actions]
            nearest = difflib.get_close_matches(found[1] or found[2], known, 1)
            message += f"; did you mean {nearest[0]}?" if nearest else ""
        super().error(f"{message}\n`{self.prog} --help` says what there is")
