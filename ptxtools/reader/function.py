"""A kernel or device function of a module."""

from __future__ import annotations

import re

from ptxtools.reader import body, parameter
from ptxtools.reader.body import Body
from ptxtools.reader.operand import split
from ptxtools.reader.parameter import Parameter
from ptxtools.reader.text import Lines, error

_HEADER = re.compile(r"\s*(?:\(([^)]*)\)\s*)?([\w$%.]+)\s*", re.DOTALL)


class Function:
    """`.entry` (a kernel) or `.func`. The header and the body are read when first asked for, and kept."""

    __slots__ = ("_body", "_lines", "_parameters", "_text", "begin", "end", "header", "is_kernel", "name")

    def __init__(self, text: str, lines: Lines, header: int, begin: int, end: int, is_kernel: bool) -> None:
        """`header`: offset behind `.entry` or `.func`; `begin`, `end`: the body between its braces, equal without
        body.
        """
        self._text, self._lines = text, lines
        self.header, self.begin, self.end = header, begin, end
        self.is_kernel = is_kernel
        match = _HEADER.match(text, header)
        if match is None:
            raise error(text, header, "a function without a name")
        self.name = match[2]
        self._parameters: list[Parameter] | None = None
        self._body: Body | None = None

    @property
    def has_body(self) -> bool:
        return self.begin != self.end

    @property
    def parameters(self) -> list[Parameter]:
        """Errors: PtxError."""
        if self._parameters is None:
            self._parameters = self._read_parameters()
        return self._parameters

    def _read_parameters(self) -> list[Parameter]:
        match = _HEADER.match(self._text, self.header)
        opening = match.end() if match else self.header
        if self._text[opening : opening + 1] != "(":
            return []
        closing = self._text.find(")", opening)
        if closing < 0:
            raise error(self._text, opening, "parameters are never closed")
        inner = self._text[opening + 1 : closing].strip()
        try:
            return parameter.parse(split(inner)) if inner else []
        except ValueError as problem:
            raise error(self._text, opening, str(problem)) from problem

    @property
    def body(self) -> Body:
        """Errors: PtxError."""
        if self._body is None:
            self._body = body.read(self._text, self.begin, self.end)
        return self._body

    def line(self, offset: int) -> int:
        """The line of an offset of the module's text."""
        return self._lines.line(offset)

    def __repr__(self) -> str:
        return f"<{'kernel' if self.is_kernel else 'function'} {self.name}>"
