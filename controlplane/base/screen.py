"""What a terminal is shown besides plain text: what stands out, and how far something long has got.

Files and pipes get neither, and neither do terminals of whom NO_COLOR or TERM=dumb says so.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable
from typing import Self, TextIO

BOLD, DIM, YELLOW, PLAIN = "\033[1m", "\033[2m", "\033[33m", "\033[0m"
CLEAR = "\r\033[K"
HEADING = re.compile(r"^  +[A-Za-z][^\d,;:]*?(?: {2,}[A-Za-z(][^\d,;:]*?)+$")  # of a table: words in columns
PREFIX = re.compile(r"^tessera(?:-run)?: ")
WARNING = re.compile(
    r"matched no launch|matched none|[1-9]\d* gave other bytes|arrive wrong|nothing was |  lost: |--strict: "
    r"|[1-9]\d* (?:touched|wrote) what they were not predicted to"
)
FIRST_S, EACH_S = 1.0, 0.2


def is_styled(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"


def show(text: str, stream: TextIO) -> None:
    stream.write(styled(text) if is_styled(stream) else text)


def styled(text: str) -> str:
    return "".join(map(_line, text.splitlines(keepends=True)))


def _line(line: str) -> str:
    body = line.rstrip("\n")
    end = line[len(body) :]
    prefix = PREFIX.match(body)
    start = f"{DIM}{prefix[0]}{PLAIN}" if prefix else ""
    rest = body[prefix.end() :] if prefix else body
    colour = YELLOW if WARNING.search(rest) else BOLD if HEADING.match(rest) else ""
    return start + (f"{colour}{rest}{PLAIN}" if colour and rest else rest) + end


class Progress:
    """How much of something is done, in the last line of a terminal, if it takes longer than a second."""

    def __init__(
        self, what: str, total: int, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._what, self._total, self._clock = what, total, clock
        self._stream = sys.stderr if stream is None else stream
        self._styled = is_styled(self._stream)
        self._done, self._begun = 0, clock()
        self._next = self._begun + FIRST_S
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            self._stream.write(CLEAR)
            self._stream.flush()

    def step(self, count: int = 1) -> None:
        self._done += count
        now = self._clock()
        if self._styled and now >= self._next:
            self._next, self._shown = now + EACH_S, True
            self._stream.write(f"{CLEAR}{self._line(now - self._begun)}")
            self._stream.flush()

    def _line(self, taken_s: float) -> str:
        left_s = taken_s * (self._total - self._done) / max(self._done, 1)
        left = f", about {left_s:.0f} s more" if self._done < self._total else ""
        return f"{self._what}: {self._done} of {self._total}{left}"
