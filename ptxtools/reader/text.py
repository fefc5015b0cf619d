"""The text of a module: without comments but with every character in its place, so that offsets give lines and
columns.
"""

from __future__ import annotations

import re
from bisect import bisect_left

from ptxtools.errors import PtxError

_COMMENT = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_LINE_COMMENT = re.compile(r"//[^\n]*")
_NOT_NEWLINE = re.compile(r"[^\n]")
_STRING = re.compile(r'"[^"\n]*"')
_BRACE = re.compile(r'[{}]|"[^"\n]*"')
_NO_BRACES = bytes(set(range(256)) - set(b"{}"))
_CLOSING = ord("}")


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


def closing_brace(text: str, opening: int) -> int:
    """Offset of the brace that closes the one at `opening`. Errors: PtxError when there is none."""
    found = _at_line_start(text, opening)
    if found is not None:
        return found
    depth = 0
    for match in _BRACE.finditer(text, opening):
        found_here = match.group()
        if found_here == "{":
            depth += 1
        elif found_here == "}":
            depth -= 1
            if depth == 0:
                return match.start()
    raise error(text, opening, "this brace is never closed")


def _at_line_start(text: str, opening: int) -> int | None:
    """The closing brace where compilers write it, at the start of a line; None when it is elsewhere.

    Braces are looked at without what stands between them: those of a balanced text vanish in pairs.
    """
    begin, unpaired = opening + 1, b""
    while (end := text.find("\n}", begin)) >= 0:
        part = text[begin:end]
        if '"' in part:
            part = _STRING.sub("", part)
        unpaired = _without_pairs(unpaired + part.encode("ascii", "replace").translate(None, _NO_BRACES))
        if not unpaired:
            return end + 1
        if unpaired[0] == _CLOSING:
            return None
        begin, unpaired = end + 2, _without_pairs(unpaired + b"}")
    return None


def _without_pairs(braces: bytes) -> bytes:
    while b"{}" in braces:
        braces = braces.replace(b"{}", b"")
    return braces


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
