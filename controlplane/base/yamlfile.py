"""Typed reading of YAML files: every value knows its file and line, and every complaint names them."""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from controlplane.base.yamldoor import Collection, Node, Text, load
from ptxtools.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Value:
    """One node of a YAML file."""

    file: Path
    node: Node

    @property
    def line(self) -> int:
        return self.node.line

    def error(self, message: str, expected: str) -> ConfigError:
        return ConfigError(message, expected=expected, file=self.file, line=self.line)

    def mapping(self, known: frozenset[str] | None = None) -> dict[str, "Value"]:
        """The entries by key, merged keys (<<) included; keys must be unique and among the known ones."""
        if not isinstance(self.node, Collection) or not self.node.is_mapping:
            raise self.error("this is not a mapping", "key: value pairs")
        merged: dict[str, Value] = {}
        own: dict[str, Value] = {}
        children = self.node.children
        for key_node, value_node in zip(children[::2], children[1::2], strict=True):
            key, value = Value(self.file, key_node), Value(self.file, value_node)
            if isinstance(key_node, Text) and key_node.is_merge:
                merged.update(value.mapping(known))
                continue
            name = key.text()
            if known is not None and name not in known:
                nearest = difflib.get_close_matches(name, known, 1)
                hint = f", did you mean {nearest[0]!r}?" if nearest else ""
                raise key.error(f"unknown key {name!r}{hint}", f"one of {', '.join(sorted(known))}")
            if name in own:
                raise key.error(f"key {name!r} is given twice", "each key once")
            own[name] = value
        return merged | own

    def sequence(self) -> Iterator["Value"]:
        if not isinstance(self.node, Collection) or self.node.is_mapping:
            raise self.error("this is not a list", "a list")
        return (Value(self.file, node) for node in self.node.children)

    def is_text(self) -> bool:
        return isinstance(self.node, Text)

    def text(self) -> str:
        if not isinstance(self.node, Text):
            raise self.error("this is not a single value", "text or a number")
        return self.node.text

    def choice(self, known: frozenset[str]) -> str:
        text = self.text()
        if text not in known:
            raise self.error(f"{text!r} is not known", f"one of {', '.join(sorted(known))}")
        return text

    def number(self, minimum: float, maximum: float) -> float:
        text = self.text()
        try:
            number = float(text)
        except ValueError:
            number = float("nan")
        if not minimum <= number <= maximum:
            raise self.error(f"{text!r} is not usable here", f"a number from {minimum:g} to {maximum:g}")
        return number

    def integer(self, minimum: int, maximum: int) -> int:
        text = self.text()
        number = int(text) if text.isascii() and text.isdigit() else minimum - 1
        if not minimum <= number <= maximum:
            raise self.error(f"{text!r} is not usable here", f"a whole number from {minimum} to {maximum}")
        return number

    def flag(self) -> bool:
        return self.choice(frozenset({"true", "false"})) == "true"


def read(file: Path) -> Value:
    """The root of a file. Raises ConfigError when the file cannot be read, is not YAML, or is too large or too deep."""
    return Value(file, load(file))
