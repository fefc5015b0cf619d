"""Kernel names for people: what the C++ library of this machine makes of a mangled name, and short forms."""

import ctypes
import re
from fnmatch import fnmatchcase
from functools import cache

from ptxtools.errors import InternalError

DEMANGLE = "__cxa_demangle"
_TAGS = re.compile(r"\[abi:[^\]]*\]")  # Numba puts a version and a hash of the compiler's flags there


@cache
def _libraries() -> tuple[ctypes.CDLL, ctypes.CDLL] | None:
    """The C++ library, if there is one, and the C library."""
    try:
        cxx, c = ctypes.CDLL("libstdc++.so.6"), ctypes.CDLL(None)
    except OSError:
        return None
    getattr(cxx, DEMANGLE).restype = ctypes.c_void_p
    c.free.argtypes = [ctypes.c_void_p]
    c.free.restype = None
    return cxx, c


@cache
def demangle(name: str) -> str:
    """The C++ declaration that the name stands for; the name itself if it stands for none."""
    libraries = _libraries() if name.startswith("_Z") else None
    if libraries is None:
        return name
    cxx, c = libraries
    status = ctypes.c_int()
    text = getattr(cxx, DEMANGLE)(name.encode(), None, None, ctypes.byref(status))
    if not text:
        return name
    try:
        value = ctypes.cast(text, ctypes.c_char_p).value
        if value is None:
            raise InternalError(f"no text for {name}")
        return value.decode("utf-8", "replace")
    finally:
        c.free(text)


def _without_arguments(declaration: str) -> str:
    """Cuts a function's parameters off: the last pair of parentheses, if nothing but a qualifier follows."""
    depth = 0
    for place in range(len(declaration) - 1, -1, -1):
        character = declaration[place]
        depth += (character == ")") - (character == "(")
        if character == "(" and depth == 0:
            return declaration[:place] or declaration
        if depth == 0 and character not in " const)":
            return declaration
    return declaration


@cache
def names(name: str) -> tuple[str, ...]:
    """A function's names: the driver's, the declaration that it stands for, and the name in that without the types of
    its result and parameters. Only the first one where it is not mangled.
    """
    declaration = demangle(name)
    return (name,) if declaration == name else (name, declaration, plain(declaration))


def is_named(name: str, glob: str) -> bool:
    """Whether the glob matches one of the names."""
    return glob == "*" or any(fnmatchcase(each, glob) for each in names(name))


def plain(declaration: str) -> str:
    return _without_arguments(declaration).removeprefix("void ")


@cache
def short(name: str, width: int) -> str:
    """At most width characters by which people know the kernel: no return type, no parameters, no middle."""
    text = demangle(name)
    if text != name:
        text = _TAGS.sub("", plain(text)).replace("(anonymous namespace)::", "")
    if len(text) <= width:
        return text
    head = (width - 1) * 2 // 3
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"
