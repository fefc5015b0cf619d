"""Room on the stack for values that depend on each other deeply: unrolled code gives chains of thousands."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

_CALLS = 20_000


@contextmanager
def deep() -> Iterator[None]:
    """Lets Python functions call each other this deep."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _CALLS))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
