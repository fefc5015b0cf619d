"""What is known of a function as a JSON object, whose keys are stable (README)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, TypedDict, cast

if TYPE_CHECKING:
    from ptxtools.access.summary import Summary

UNKNOWN = "unknown"


REFUSED = "machine code that may not be disassembled (--disassemble)"  # the reason for closed libraries' functions


class ParameterUse(TypedDict):
    index: int
    offset: int
    size: int
    reads: bool
    writes: bool
    atomics: bool
    indirect: bool


class VariableUse(TypedDict):
    name: str
    kinds: list[str]


class Reason(TypedDict):
    line: int
    reason: str


class Description(TypedDict):
    """`tier`: where it is known from, or "unknown" when some access may be anywhere, for the reasons in `unknown`."""

    name: str
    tier: str
    parameters: list[ParameterUse]
    variables: list[VariableUse]
    unknown: list[Reason]


def describe(summary: Summary) -> Description:
    parameters: list[ParameterUse] = [
        {
            "index": use.index,
            "offset": use.offset,
            "size": use.size,
            "reads": use.reads,
            "writes": use.writes,
            "atomics": use.atomics,
            "indirect": use.indirect,
        }
        for use in summary.parameters
    ]
    variables: list[VariableUse] = [
        {"name": name, "kinds": sorted(kind.value for kind in kinds)} for name, kinds in summary.variables.items()
    ]
    return {
        "name": summary.name,
        "tier": summary.tier,
        "parameters": parameters,
        "variables": variables,
        "unknown": reasons(summary.unknown),
    }


def unknown_description(name: str, reason: str, line: int = 0) -> Description:
    return {"name": name, "tier": UNKNOWN, "parameters": [], "variables": [], "unknown": reasons([(line, reason)])}


def reasons(unknown: Sequence[tuple[int, str]]) -> list[Reason]:
    return [{"line": line, "reason": reason} for line, reason in unknown]


def description_of(value: object) -> Description | None:
    """What JSON says again; None: it is no description."""
    if not isinstance(value, dict) or value.keys() != Description.__annotations__.keys():
        return None
    lists = (("parameters", ParameterUse), ("variables", VariableUse), ("unknown", Reason))
    is_one = isinstance(value["name"], str) and isinstance(value["tier"], str)
    is_one = is_one and all(_holds(value[name], form.__annotations__.keys()) for name, form in lists)
    return cast("Description", value) if is_one else None


def _holds(value: object, keys: Collection[str]) -> bool:
    return isinstance(value, list) and all(isinstance(each, dict) and each.keys() == keys for each in value)
