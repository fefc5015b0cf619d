"""Records shared with C: their layout is read from the marked part of a header in tessera/, its one declaration."""

import re
from functools import cache

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
    return constant(native.file("include/tessera/gpus.h").read_text(), "TSR_GPUS", "gpus.h")


def declarations(text: str, name: str) -> str:
    """What cffi reads of a header: its marked part and the constants of other headers that this uses."""
    return f"#define TSR_GPUS {most_gpus()}\n" + marked_part(text, name)


@cache
def header(name: str) -> tuple[FFI, str]:
    """The parsed layout and the full text of tessera/NAME."""
    text = native.file(f"include/tessera/{name}").read_text()
    ffi = FFI()
    ffi.cdef(declarations(text, name))
    return ffi, text
