"""One kernel's template from its PTX or from machine code that is made of it."""

from __future__ import annotations

from pathlib import Path

from ptxtools.access.build import build
from ptxtools.access.template import Template
from ptxtools.machine.kernels import templates
from ptxtools.reader import read
from tests.instruments.against import assemble


def made(source: str, of: str, place: Path) -> Template:
    """The template of the only kernel."""
    if of == "ptx":
        module = read(source)
        return build(module, next(iter(module.kernels)))
    (place / "source.ptx").write_text(source)
    (found,) = templates(assemble(place / "source.ptx", 90, place), lambda _: True, "")
    return found
