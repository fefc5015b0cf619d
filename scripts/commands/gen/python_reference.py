"""The list of functions in docs/python.md, from what `import tessera` offers.

scripts/gen python-reference [--check]
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path

import tessera
from scripts.commands.marked import generate

PAGE = Path(__file__).resolve().parents[3] / "docs" / "python.md"


def signature(function: Callable[..., object]) -> str:
    """As it stands in the code; annotations are text."""
    found = inspect.signature(function)
    parts = (
        f"{each.name}: {each.annotation}" + ("" if each.default is each.empty else f" = {each.default!r}")
        for each in found.parameters.values()
    )
    return f"({', '.join(parts)}) -> {found.return_annotation}"


def listing() -> str:
    functions = ((name, getattr(tessera, name)) for name in tessera.__all__)
    return "\n".join(
        f"```py\n{name}{signature(each)}\n```\n\n{' '.join((inspect.getdoc(each) or '').split())}\n"
        for name, each in functions
        if inspect.isfunction(each)
    )


def main(words: Sequence[str]) -> int:
    return generate(__name__, __doc__, words, PAGE, {"functions": listing()})
