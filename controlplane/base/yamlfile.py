"""Typed reading of YAML files: every value knows its file, line and key, and every complaint names them.

A complaint is raised. read_whole() collects them: where a reader can go on without a value, it takes that by attempt().
"""

import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from controlplane.base.yamldoor import Collection, Node, Text, load
from ptxtools.errors import ConfigError

T = TypeVar("T")
SHOWN = 20


class NodeError(ConfigError):
    """A mistake, and the node that it is about."""

    def __init__(self, message: str, expected: str, value: "Value") -> None:
        self.node = value.node
        place = f"{value.key}: " if value.key else ""
        super().__init__(place + message, expected=expected, file=value.file, line=value.line)


class MistakesError(ConfigError):
    """Several, in the order of their lines."""

    def __init__(self, file: Path, mistakes: list[ConfigError]) -> None:
        self.mistakes = sorted(mistakes, key=lambda each: each.line or 0)
        super().__init__(f"{len(mistakes)} mistakes", expected="none", file=file, line=self.mistakes[0].line)
        more = len(mistakes) - SHOWN
        lines = [*map(str, self.mistakes[:SHOWN]), *([f"and {more} more"] if more > 0 else [])]
        self.args = ("\n  ".join([f"{file} has {len(mistakes)} mistakes:", *lines]),)


@dataclass(slots=True)
class Mistakes:
    """Of one file, so far."""

    found: list[ConfigError] = field(default_factory=list)
    cut: list[Node] = field(default_factory=list)  # mappings that lack what was wrong in them

    def note(self, error: ConfigError) -> None:
        """A mapping's other mistake, such as a key that it lacks, may come of the first."""
        if not (isinstance(error, NodeError) and any(error.node is each for each in self.cut)):
            self.found.append(error)


@dataclass(frozen=True, slots=True)
class Value:
    """One node of a YAML file. key: where it is, by the keys around it; mistakes: so far, None: the first is raised."""

    file: Path
    node: Node
    key: str = ""
    mistakes: Mistakes | None = None

    @property
    def line(self) -> int:
        return self.node.line

    def error(self, message: str, expected: str) -> ConfigError:
        return NodeError(message, expected, self)

    def attempt(self, reader: Callable[["Value"], T], otherwise: T) -> T:
        """What the reader makes of it; if it is a mistake, that is kept for read_whole()."""
        try:
            return reader(self)
        except ConfigError as error:
            self._note(error)
            return otherwise

    def count(self) -> int:
        """Of mistakes in the file so far."""
        return len(self.mistakes.found) if self.mistakes is not None else 0

    def _note(self, error: ConfigError) -> None:
        if self.mistakes is None:
            raise error
        self.mistakes.note(error)

    def _inside(self, node: Node, key: str | None = None) -> "Value":
        place = self.key if key is None else f"{self.key}.{key}" if self.key else key
        return Value(self.file, node, place, self.mistakes)

    def mapping(self, known: frozenset[str] | None = None) -> dict[str, "Value"]:
        """The entries by key, merged keys (<<) included; keys must be unique and among the known ones."""
        if not isinstance(self.node, Collection) or not self.node.is_mapping:
            raise self.error("this is not a mapping", "key: value pairs")
        merged: dict[str, Value] = {}
        own: dict[str, Value] = {}
        children = self.node.children
        for key_node, value_node in zip(children[::2], children[1::2], strict=True):
            key = self._inside(key_node)
            if isinstance(key_node, Text) and key_node.is_merge:
                merged.update(self._inside(value_node).mapping(known))
                continue
            name = key.text()
            if known is not None and name not in known:
                nearest = difflib.get_close_matches(name, known, 1)
                hint = f", did you mean {nearest[0]!r}?" if nearest else ""
                self._note(key.error(f"unknown key {name!r}{hint}", f"one of {', '.join(sorted(known))}"))
                if self.mistakes is not None:
                    self.mistakes.cut.append(self.node)
            elif name in own:
                self._note(key.error(f"key {name!r} is given twice", "each key once"))
            else:
                own[name] = self._inside(value_node, name)
        return merged | own

    def sequence(self) -> Iterator["Value"]:
        if not isinstance(self.node, Collection) or self.node.is_mapping:
            raise self.error("this is not a list", "a list")
        return (self._inside(node) for node in self.node.children)

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


def read_whole(file: Path, reader: Callable[[Value], T]) -> T:
    """What the reader makes of a file. Raises ConfigError: the file's only mistake, or all of them."""
    mistakes = Mistakes()
    root = Value(file, load(file), mistakes=mistakes)
    made: list[T] = []
    root.attempt(lambda value: made.append(reader(value)), None)
    if mistakes.found:
        raise mistakes.found[0] if len(mistakes.found) == 1 else MistakesError(file, mistakes.found)
    return made[0]


def take(entries: Mapping[str, Value], key: str, reader: Callable[[Value], T], otherwise: T) -> T:
    """An entry that may be left out."""
    return entries[key].attempt(reader, otherwise) if key in entries else otherwise
