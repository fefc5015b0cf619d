"""JSON Schemas of what commands print with --json, in docs/schemas, and the tables of docs/json.md, from the types.

scripts/gen schemas [--check]

An object is a dataclass or a TypedDict; its docstring says what its keys mean.
"""

from __future__ import annotations

import inspect
import json
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, TypeAlias, TypedDict

from controlplane.commands.demo import DemoJson
from controlplane.commands.devices import DevicesJson
from controlplane.commands.doctor import DoctorJson
from controlplane.commands.policy import CheckJson
from controlplane.live.runs import Run
from controlplane.observe.listing import LaunchRow
from controlplane.plan.output import PlanJson
from controlplane.report.statistics import Report
from controlplane.simulate.text import ComparedJson
from scripts.commands.marked import generate

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGE, FOLDER = DOCS / "json.md", DOCS / "schemas"
Schema: TypeAlias = dict[str, Any]


class Top(TypedDict):
    """The runs of this user, the oldest first."""

    runs: list[Run]


class TraceShow(TypedDict):
    """A trace: the statistics of its run, and the launches that were asked for."""

    report: Report
    launches: list[LaunchRow]


COMMANDS: Mapping[str, tuple[str, type]] = {
    "demo": ("tessera demo --json", DemoJson),
    "devices": ("tessera devices [SPEC] --json", DevicesJson),
    "doctor": ("tessera doctor --json", DoctorJson),
    "plan": ("tessera plan PROFILE --json", PlanJson),
    "policy": ("tessera policy check FILE --json", CheckJson),
    "simulate": ("tessera simulate PROFILE --json", ComparedJson),
    "top": ("tessera top --json", Top),
    "trace": ("tessera trace show FILE --json", TraceShow),
}


def about(of: type) -> str:
    return " ".join((inspect.getdoc(of) or "").split())


def keys(of: type) -> dict[str, Any]:
    hints = typing.get_type_hints(of)
    return {each.name: hints[each.name] for each in fields(of)} if is_dataclass(of) else hints


def is_object(of: object) -> bool:
    return isinstance(of, type) and (is_dataclass(of) or typing.is_typeddict(of))


def is_required(of: type, name: str) -> bool:
    return is_dataclass(of) or name in getattr(of, "__required_keys__", ())


def schema(of: Any, found: dict[str, Schema]) -> Schema:
    """found: definitions of objects, by name."""
    origin, inner = typing.get_origin(of), typing.get_args(of)
    if origin in (types.UnionType, typing.Union):
        return {"anyOf": [schema(each, found) for each in inner]}
    if origin in (list, tuple):
        return {"type": "array", "items": schema(inner[0], found)}
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": schema(inner[1], found)}
    if isinstance(of, type) and issubclass(of, Enum):
        return {"enum": [each.value for each in of]}
    if is_object(of):
        if of.__name__ not in found:
            found[of.__name__] = {}
            found[of.__name__] = {
                "type": "object",
                "description": about(of),
                "properties": {name: schema(kind, found) for name, kind in keys(of).items()},
                "required": [name for name in keys(of) if is_required(of, name)],
                "additionalProperties": False,
            }
        return {"$ref": f"#/$defs/{of.__name__}"}
    names = {int: "integer", float: "number", str: "string", bool: "boolean", types.NoneType: "null"}
    return {"type": names[of]}


def document(name: str) -> str:
    command, of = COMMANDS[name]
    found: dict[str, Schema] = {}
    whole = schema(of, found)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": command}
    return json.dumps({**head, **whole, "$defs": found}, indent=1) + "\n"


def shown(of: Any) -> str:
    """A type in words."""
    origin, inner = typing.get_origin(of), typing.get_args(of)
    if origin in (types.UnionType, typing.Union):
        return " or ".join("`null`" if each is types.NoneType else shown(each) for each in inner)
    if origin in (list, tuple):
        return f"list of {shown(inner[0])}"
    if origin in (dict, Mapping):
        return f"{shown(inner[1])} by key"
    if is_object(of):
        return f"*{title(of)}*"
    if isinstance(of, type) and issubclass(of, Enum):
        return ", ".join(f"`{each.value}`" for each in of)
    return {int: "whole number", float: "number", str: "text", bool: "`true` or `false`"}[of]


def title(of: type) -> str:
    return of.__name__.removesuffix("Json").removeprefix("_").lower()


def objects(of: Any, found: list[type]) -> None:
    """Those that it is made of, outer ones first."""
    if is_object(of) and of not in found:
        found.append(of)
        for each in keys(of).values():
            objects(each, found)
    for each in typing.get_args(of):
        objects(each, found)


def section(name: str) -> Iterator[str]:
    command, of = COMMANDS[name]
    yield f"### {command}\n\nSchema: [{name}.json](schemas/{name}.json)\n\n"
    made: list[type] = []
    objects(of, made)
    for each in made:
        yield f"**{title(each)}**: {about(each)}\n\n| key | value |\n|---|---|\n"
        yield from (
            f"| `{key}` | {shown(kind)}{'' if is_required(each, key) else '; may be left out'} |\n"
            for key, kind in keys(each).items()
        )
        yield "\n"


def main(words: Sequence[str]) -> int:
    parts = {"schemas": "".join(piece for name in COMMANDS for piece in section(name))}
    status = generate(__name__, __doc__, words, PAGE, parts)
    files = {FOLDER / f"{name}.json": document(name) for name in COMMANDS}
    if "--check" in words:
        return status or int(any(not file.is_file() or file.read_text() != text for file, text in files.items()))
    FOLDER.mkdir(exist_ok=True)
    for file, text in files.items():
        file.write_text(text)
    return status
