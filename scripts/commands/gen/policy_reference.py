"""The table of keys in docs/policies.md, from controlplane/policy/schema.py.

scripts/gen policy-reference [--check]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from controlplane.policy.schema import SCHEMA, Json
from scripts.commands.marked import generate

PAGE = Path(__file__).resolve().parents[3] / "docs" / "policies.md"


def rows(schema: Json, place: str = "") -> Iterator[tuple[str, str]]:
    """Every key by its place, and what it means; keys of objects that are alternatives or list items included."""
    if not isinstance(schema, dict):
        return
    properties = schema.get("properties")
    for key, value in properties.items() if isinstance(properties, dict) else ():
        if isinstance(value, dict):
            yield f"{place}{key}", str(value["description"])
            yield from rows(value, f"{place}{key}.")
    yield from rows(schema.get("items"), place)
    alternatives = schema.get("anyOf")
    for alternative in alternatives if isinstance(alternatives, list) else ():
        yield from rows(alternative, place)


def table() -> str:
    lines = [f"| `{place}` | {meaning} |\n" for place, meaning in rows(SCHEMA)]
    return "".join(["| key | meaning |\n", "|---|---|\n", *lines])


def main(words: Sequence[str]) -> int:
    return generate(__name__, __doc__, words, PAGE, {"keys": table()})
