"""Records shared with C: their layout is read from the marked part of a header in tessera/, its one declaration."""

import re
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from cffi import FFI

from ptxtools import native
from ptxtools.errors import InternalError

BEGIN, END = "/* cffi: begin */", "/* cffi: end */"


def marked_part(text: str, name: str) -> str:
    """The declarations between the marks of a header's text."""
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise InternalError(f"{name} does not have exactly one marked part for cffi")
    return text[text.index(BEGIN) + len(BEGIN) : text.index(END)]


def constant(text: str, macro: str, name: str) -> int:
    """The value of `#define MACRO number` or `(number << bits)`; suffixes u and ull are understood."""
    number = r"(0x[0-9a-fA-F]+|\d+)[uUlL]*"
    match = re.search(rf"^#define {macro} \(?{number}(?: << {number}\))?(?:\s|$)", text, re.MULTILINE)
    if match is None:
        raise InternalError(f"{name} does not define {macro}")
    return int(match[1], 0) << int(match[2] or "0", 0)


@cache
def most_gpus() -> int:
    """Of a machine: arrays by GPU have so many places."""
    return _most_gpus(native.file("include/tessera/gpus.h").read_text())


def _most_gpus(text: str) -> int:
    return constant(text, "TSR_GPUS", "gpus.h")


def declarations(text: str, name: str, gpus: str) -> str:
    """What cffi reads of a header: its marked part and the constants of `gpus`, the text of gpus.h, that this uses."""
    return f"#define TSR_GPUS {_most_gpus(gpus)}\n" + marked_part(text, name)


def parse(text: str, name: str, gpus: str) -> FFI:
    """Slow: the build does it once, and leaves the result in layouts/."""
    ffi = FFI()
    ffi.cdef(declarations(text, name, gpus))
    return ffi


@cache
def parsed(name: str) -> FFI:
    """The layout of tessera/NAME as something that further declarations can be added to."""
    gpus = native.file("include/tessera/gpus.h").read_text()
    return parse(native.file(f"include/tessera/{name}").read_text(), name, gpus)


@cache
def header(name: str) -> tuple[FFI, str]:
    """The layout and the full text of tessera/NAME."""
    text = native.file(f"include/tessera/{name}").read_text()
    layout = native.directory() / "layouts" / f"{Path(name).stem}.py"
    if not layout.exists():  # headers without a build
        return parsed(name), text
    spec = spec_from_file_location(f"tessera_{layout.stem}", layout)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    ffi: FFI = module.ffi
    return ffi, text
