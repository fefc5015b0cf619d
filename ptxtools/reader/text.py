"""The text of a module: without comments but with every character in its place, so that offsets give lines and
columns.
"""

from __future__ import annotations

import re
from bisect import bisect_left

from controlplane.errors import PtxError

_COMMENT = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_LINE_COMMENT = re.compile(r"//[^\n]*")
_NOT_NEWLINE = re.compile(r"[^\n]")
_BRACE = re.compile(r'[{}]|"[^"\n]*"')


def without_comments(text: str) -> str:
    """The same text with spaces where comments stood."""
    if "/*" not in text and '"' not in text:
        return _LINE_COMMENT.sub(_blank, text) if "//" in text else text
    return _COMMENT.sub(_blank, text)


def _blank(match: re.Match[str]) -> str:
    found = match.group()
    if found[0] == '"':
        return found
    return " " * len(found) if found[1] == "/" else _NOT_NEWLINE.sub(" ", found)


def error(text: str, offset: int, message: str) -> PtxError:
    """A PtxError at an offset of the text."""
    line_start = text.rfind("\n", 0, offset) + 1
    return PtxError(message, line=text.count("\n", 0, offset) + 1, column=offset - line_start + 1)


def _is_balanced(text: str, begin: int, end: int) -> bool:
    return text.count("{", begin, end) == text.count("}", begin, end)


def closing_brace(text: str, opening: int) -> int:
    """Offset of the brace that closes the one at `opening`. Errors: PtxError when there is none."""
    end = text.find("\n}", opening)  # where compilers close functions
    if end >= 0 and '"' not in text[opening:end] and _is_balanced(text, opening, end + 2):
        return end + 1
    depth = 0
    for match in _BRACE.finditer(text, opening):
        found = match.group()
        if found == "{":
            depth += 1
        elif found == "}":
            depth -= 1
            if depth == 0:
                return match.start()
    raise error(text, opening, "this brace is never closed")


class Lines:
    """Line numbers of a text's offsets."""

    __slots__ = ("_ends", "_text")

    def __init__(self, text: str) -> None:
        self._text = text
        self._ends: list[int] | None = None

    def line(self, offset: int) -> int:
        """The line, counted from 1, that an offset lies in."""
        if self._ends is None:
            self._ends = [match.start() for match in re.finditer("\n", self._text)]
        return bisect_left(self._ends, offset) + 1
