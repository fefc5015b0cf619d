"""A parser of command lines that says what was probably meant."""

from __future__ import annotations

import argparse
import difflib
import re
from typing import NoReturn

UNKNOWN = re.compile(r"unrecognized arguments: (--?[\w-]+)|invalid choice: '([^']*)' \(choose from (.*)\)")


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        found = UNKNOWN.search(message)
        if found:
            known = re.findall(r"[\w.-]+", found[3]) if found[3] else [*self._option_string_actions]
            nearest = difflib.get_close_matches(found[1] or found[2], known, 1)
            message += f"; did you mean {nearest[0]}?" if nearest else ""
        super().error(f"{message}\n`{self.prog} --help` says what there is")
