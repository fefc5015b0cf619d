"""Values (frozen dataclasses) as JSON, and back with a precise complaint about what is not as it should be.

A dataclass is an object that leaves out what is as its default; a NamedTuple a list that ends before its defaults; a
tuple a list; an enum its value. The file has `schema` (name and version) first, ends with `end`, and is compressed if
it is large. The same value gives the same bytes.
"""

from __future__ import annotations

import gzip
import json
import math
import types
import typing
import zlib
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from ptxtools.errors import ConfigError

LARGE = 256 << 10  # from here on it is compressed
MOST_BYTES = 4 << 30  # unpacked
GZIP = b"\x1f\x8b"
Value = TypeVar("Value")
Decoder = Callable[[Any, str], Any]


class _Wrong(Exception):  # noqa: N818
    """At a place in the file, something else than expected."""

    def __init__(self, place: str, what: str, expected: str) -> None:
        self.place, self.what, self.expected = place, what, expected


def pack(value: object, schema: str) -> bytes:
    """A file with this value. schema: such as tessera.profile/1."""
    body = encoded(value)
    if not isinstance(body, dict):
        raise TypeError(f"{type(value).__name__} is no dataclass")
    # One line for each entry of a long list: a difference between two files shows.
    lines = ",\n".join(f"{json.dumps(key)}: {_text(part)}" for key, part in {"schema": schema, **body}.items())
    data = f'{{{lines},\n"end": true}}\n'.encode()
    return data if len(data) < LARGE else gzip.compress(data, 6, mtime=0)


def _text(part: object, depth: int = 0) -> str:
    compact = {"separators": (",", ":"), "allow_nan": False}
    if isinstance(part, dict) and depth < 1:
        return "{" + ",\n ".join(f"{json.dumps(key)}: {_text(one, depth + 1)}" for key, one in part.items()) + "}"
    if isinstance(part, list) and len(part) > 1 and isinstance(part[0], dict | list):
        return "[\n " + ",\n ".join(json.dumps(one, **compact) for one in part) + "]"  # type: ignore[arg-type]
    return json.dumps(part, **compact)  # type: ignore[arg-type]


def unpack(data: bytes, of: type[Value], schema: str, file: Path, *, again: str) -> Value:
    """The value in a file's bytes. again: what to do to get a good file. Errors: ConfigError, with the place."""
    name = schema.split("/")[0]
    kind = name.rpartition(".")[2]

    def error(what: str, expected: str, line: int | None = None) -> ConfigError:
        return ConfigError(what, expected=f"{expected} ({again})", file=file, line=line)

    data = _inflated(data, lambda what: error(what, f"a whole {kind}"))
    try:
        body = json.loads(data)
    except UnicodeDecodeError as wrong:
        raise error(f"offset {wrong.start}: this is no text, and no {kind}", f"a {kind} of Tessera") from wrong
    except json.JSONDecodeError as wrong:
        rest = wrong.doc[wrong.pos :].strip()
        if data.lstrip()[:1] == b"{" and (len(rest) <= 1 or rest.isalpha()):  # inside of true, false or null, too
            raise error(f"column {wrong.colno}: it was cut off", f"a whole {kind}", wrong.lineno) from wrong
        raise error(f"column {wrong.colno}: {wrong.msg}", f"a {kind} of Tessera, as JSON", wrong.lineno) from wrong
    except RecursionError as wrong:
        raise error("it is nested too deeply", f"a {kind} of Tessera") from wrong
    if not isinstance(body, dict) or not str(body.get("schema", "")).startswith(f"{name}/"):
        said = body.get("schema") if isinstance(body, dict) else None
        raise error(f"this is no {kind}" + (f", but {said!r}" if said else ""), f'"schema": "{schema}" in it')
    if body["schema"] != schema:
        raise error(f"it is of another release ({body['schema']})", f"{schema}")
    if body.get("end") is not True:
        raise error("its last entry, `end`, is missing", f"a whole {kind}")
    del body["schema"], body["end"]
    try:
        value: Value = decoder(typing.cast("Any", of))(body, "")
    except _Wrong as wrong:
        raise error(f"{wrong.place or 'the whole'}: {wrong.what}", wrong.expected) from None
    return value


def read(file: Path, of: type[Value], schema: str, *, again: str) -> Value:
    """Errors: ConfigError."""
    try:
        data = file.read_bytes()
    except OSError as error:
        kind = schema.split("/")[0].rpartition(".")[2]
        raise ConfigError(error.strerror or str(error), expected=f"a {kind} ({again})", file=file) from error
    return unpack(data, of, schema, file, again=again)


def _inflated(data: bytes, error: Callable[[str], ConfigError]) -> bytes:
    if not data.startswith(GZIP):
        return data
    machine = zlib.decompressobj(31)
    try:
        found = machine.decompress(data, MOST_BYTES)
    except zlib.error as wrong:
        raise error(f"it cannot be decompressed: {wrong}") from wrong
    if not machine.eof:
        raise error(f"offset {len(data)}: it was cut off")
    return found


def encoded(value: object) -> Any:
    """What json takes."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return _row(value) if hasattr(value, "_fields") else [encoded(one) for one in value]
    if is_dataclass(value) and not isinstance(value, type):
        some = ((each, getattr(value, each.name)) for each in fields(value))
        return {each.name: encoded(one) for each, one in some if not _is_default(each, one)}
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


def _row(value: Any) -> list[object]:
    size, defaults = len(value), value._field_defaults
    while size and value._fields[size - 1] in defaults and value[size - 1] == defaults[value._fields[size - 1]]:
        size -= 1
    return [encoded(one) for one in value[:size]]


def _is_default(of: Any, value: object) -> bool:
    if of.default is not MISSING:
        return bool(value == of.default)
    return of.default_factory is not MISSING and bool(value == of.default_factory())


@cache
def decoder(of: Any) -> Decoder:
    """Makes a value of this type from what json gave, or raises _Wrong with the place."""
    origin, inner = typing.get_origin(of), typing.get_args(of)
    if origin in (typing.Union, types.UnionType):
        return _optional(decoder(next(one for one in inner if one is not type(None))))
    if origin is tuple:
        return _many(decoder(inner[0])) if inner[-1] is Ellipsis else _each([decoder(one) for one in inner])
    if is_dataclass(of):
        return _object(of)
    if hasattr(of, "_fields"):
        return _named(of)
    if isinstance(of, type) and issubclass(of, Enum):
        return _enum(of)
    return _plain(of)


def _optional(some: Decoder) -> Decoder:
    return lambda data, place: None if data is None else some(data, place)


def _many(one: Decoder) -> Decoder:
    def decode(data: Any, place: str) -> Any:
        if not isinstance(data, list):
            raise _Wrong(place, "this is no list", "a list")
        return tuple([one(each, f"{place}[{number}]") for number, each in enumerate(data)])

    return decode


def _each(some: list[Decoder]) -> Decoder:
    def decode(data: Any, place: str) -> Any:
        if not isinstance(data, list) or len(data) != len(some):
            raise _Wrong(place, "this is no such list", f"a list of {len(some)}")
        return tuple(one(each, f"{place}[{number}]") for number, (one, each) in enumerate(zip(some, data, strict=True)))

    return decode


def _object(of: Any) -> Decoder:
    hints = typing.get_type_hints(of)
    parts = {each.name: decoder(hints[each.name]) for each in fields(of)}
    needed = [each.name for each in fields(of) if each.default is MISSING and each.default_factory is MISSING]

    def decode(data: Any, place: str) -> Any:
        if not isinstance(data, dict):
            raise _Wrong(place, "this is no object", "an object with " + ", ".join(needed))
        before = f"{place}." if place else ""
        values = {}
        for key, value in data.items():
            if key not in parts:
                raise _Wrong(before + key, "this entry is not known", "one of " + ", ".join(parts))
            values[key] = parts[key](value, before + key)
        for name in needed:
            if name not in values:
                raise _Wrong(place, f"{name!r} is missing", "an object with " + ", ".join(needed))
        return of(**values)

    return decode


def _named(of: Any) -> Decoder:
    hints = typing.get_type_hints(of)
    parts = [decoder(hints[name]) for name in of._fields]
    least = len(parts) - len(of._field_defaults)

    def decode(data: Any, place: str) -> Any:
        if not isinstance(data, list) or not least <= len(data) <= len(parts):
            raise _Wrong(place, "this is no such list", "a list of " + ", ".join(of._fields))
        return of(*[part(one, f"{place}[{name}]") for part, one, name in zip(parts, data, of._fields, strict=False)])

    return decode


def _enum(of: type[Enum]) -> Decoder:
    known = {one.value: one for one in of}

    def decode(data: Any, place: str) -> Any:
        if not isinstance(data, str | int) or data not in known:
            raise _Wrong(place, f"{data!r} is not known", "one of " + ", ".join(map(repr, known)))
        return known[data]

    return decode


def _plain(of: Any) -> Decoder:
    words = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
    wanted = words[of]

    def decode(data: Any, place: str) -> Any:
        if type(data) is of or (of is float and type(data) is int):
            if of is float and not math.isfinite(data):
                raise _Wrong(place, f"{data} is not usable", wanted)
            return of(data)
        raise _Wrong(place, f"{data!r} is not usable here", wanted)

    return decode
