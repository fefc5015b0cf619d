"""The entry points of NVIDIA's libraries that a rule can name (tessera/library_calls.h)."""

import re
from functools import cache

from ptxtools import native


@cache
def library_calls() -> tuple[str, ...]:
    """Their names."""
    text = native.file("include/tessera/library_calls.h").read_text()
    return tuple(re.findall(r"^\s*X\(\w+, (\w+)\)", text, re.MULTILINE))
