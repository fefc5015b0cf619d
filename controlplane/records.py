"""Records shared with C: their layout is read from the marked part of a header in tessera/, its one declaration."""

from functools import cache

from cffi import FFI

from controlplane import native
from controlplane.errors import InternalError

BEGIN, END = "/* cffi: begin */", "/* cffi: end */"


def marked_part(text: str, name: str) -> str:
    """The declarations between the marks of a header's text."""
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise InternalError(f"{name} does not have exactly one marked part for cffi")
    return text[text.index(BEGIN) + len(BEGIN) : text.index(END)]


def constant(text: str, macro: str, name: str) -> int:
    """The value of `#define MACRO number`; suffixes u and ull are understood."""
    for line in text.splitlines():
        words = line.split()
        if words[:2] == ["#define", macro] and len(words) > 2:
            return int(words[2].rstrip("ul"), 0)
    raise InternalError(f"{name} does not define {macro}")


@cache
def header(name: str) -> tuple[FFI, str]:
    """The parsed layout and the full text of tessera/NAME."""
    text = native.file(f"include/tessera/{name}").read_text()
    ffi = FFI()
    ffi.cdef(marked_part(text, name))
    return ffi, text
