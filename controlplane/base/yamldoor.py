"""The door through which YAML comes: from a file to a tree of bounded size, or a ConfigError with the line, in time.

libyaml says what it meets, event by event, without calling itself; the tree is made here. Its loader, and PyYAML's,
make it by recursion and take any depth. An alias counts as much as what it stands for, so that whoever walks the tree
has no more to do than the limits say; one inside of what it stands for is an error.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import yaml

from ptxtools.errors import ConfigError

MOST_BYTES = 256 << 10
MOST_DEPTH = 32
MOST_NODES = 50_000  # with all that aliases repeat
MOST_CHARACTERS = 4096  # of one text

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MERGE, _MERGE_TAG = "<<", "tag:yaml.org,2002:merge"


@dataclass(frozen=True, slots=True)
class Text:
    line: int
    text: str
    is_merge: bool = False  # the key <<
    nodes: int = 1
    height: int = 1


@dataclass(slots=True)
class Collection:
    """A list, or a mapping, whose keys and values take turns. nodes, height: with what is in it."""

    line: int
    is_mapping: bool
    children: list[Node] = field(default_factory=list)
    nodes: int = 1
    height: int = 1


Node: TypeAlias = Text | Collection


def load(file: Path) -> Node:
    """The root of a file. Errors: ConfigError."""
    data = _contents(file)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise _error(file, "is not UTF-8 text", _line_at(data, error.start)) from error
    try:
        root = _Tree(file).root(yaml.parse(text, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        line = None if error.problem_mark is None else error.problem_mark.line + 1
        if "nesting depth" in (error.problem or ""):  # libyaml 0.2.6 has a limit of its own and reads ahead
            raise _too_deep(file, line) from error
        raise _error(file, f"not YAML: {error.problem}", line) from error
    except yaml.reader.ReaderError as error:
        raise _error(file, f"not YAML: {error.reason}", _line_of(chr(error.character), text)) from error
    except yaml.YAMLError as error:
        raise _error(file, f"not YAML: {error}") from error
    if root is None:
        raise ConfigError("the file is empty", expected="key: value pairs", file=file)
    return root


def _contents(file: Path) -> bytes:
    """Of a regular file: nothing else is waited for."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ConfigError("is not a regular file", expected="a YAML file", file=file)
            data = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"cannot be read ({error.strerror})", expected="a YAML file", file=file) from error
    if len(data) > MOST_BYTES:
        raise ConfigError("the file is too large", expected=f"at most {MOST_BYTES} bytes", file=file)
    return data


def _error(file: Path, message: str, line: int | None = None) -> ConfigError:
    return ConfigError(message, expected="a YAML file", file=file, line=line)


def _too_deep(file: Path, line: int | None) -> ConfigError:
    return ConfigError("values are nested too deeply", expected=f"at most {MOST_DEPTH} levels", file=file, line=line)


def _line_at(data: bytes, offset: int) -> int:
    return data.count(b"\n", 0, offset) + 1


def _line_of(character: str, text: str) -> int:
    """Where it is first: PyYAML counts in bytes or in characters."""
    return text.count("\n", 0, text.index(character)) + 1


class _Tree:
    """Made from events in their order."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._open: list[Collection] = []
        self._names: list[str | None] = []  # of what is open: its anchor
        self._anchors: dict[str, Node | None] = {}  # None: still open
        self._root: Node | None = None

    def root(self, events: Iterator[yaml.Event]) -> Node | None:
        """None: there is nothing in the file."""
        documents = 0
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise _error(self._file, "there is a second document in it", _line(event))
            elif isinstance(event, yaml.NodeEvent):
                self._begin(event)
            elif isinstance(event, yaml.CollectionEndEvent):
                self._end(_line(event))
        return self._root

    def _begin(self, event: yaml.NodeEvent) -> None:
        line = _line(event)
        if isinstance(event, yaml.AliasEvent):
            self._add(self._meant(event.anchor or "", line), line)
            return
        node = _text(event, self._complain) if isinstance(event, yaml.ScalarEvent) else _collection(event)
        if event.anchor is not None:
            if event.anchor in self._anchors:
                raise self._complain(f"&{_short(event.anchor)} is given twice", "each anchor once", line)
            self._anchors[event.anchor] = node if isinstance(node, Text) else None
        if isinstance(node, Text):
            self._add(node, line)
            return
        self._open.append(node)
        self._names.append(event.anchor)
        self._check_depth(0, line)

    def _end(self, line: int) -> None:
        node, name = self._open.pop(), self._names.pop()
        if name is not None:
            self._anchors[name] = node
        self._add(node, line)

    def _add(self, node: Node, line: int) -> None:
        """A child of what is open, or the root, once it is whole."""
        self._check_depth(node.height, line)
        if not self._open:
            self._root = node
            return
        parent = self._open[-1]
        parent.children.append(node)
        parent.nodes += node.nodes
        parent.height = max(parent.height, node.height + 1)
        if parent.nodes > MOST_NODES:
            expected = f"at most {MOST_NODES} values, with what aliases repeat"
            raise self._complain("there is too much in this file", expected, line)

    def _check_depth(self, height: int, line: int) -> None:
        if len(self._open) + height > MOST_DEPTH:
            raise _too_deep(self._file, line)

    def _meant(self, name: str, line: int) -> Node:
        if name not in self._anchors:
            raise self._complain(f"*{_short(name)} is not defined", f"&{_short(name)} before it", line)
        node = self._anchors[name]
        if node is None:
            raise self._complain(f"*{_short(name)} is a part of itself", "an alias of something before it", line)
        return node

    def _complain(self, message: str, expected: str, line: int) -> ConfigError:
        return ConfigError(message, expected=expected, file=self._file, line=line)


def _line(event: yaml.Event) -> int:
    return 1 if event.start_mark is None else int(event.start_mark.line) + 1


def _text(event: yaml.ScalarEvent, complain: Callable[[str, str, int], ConfigError]) -> Text:
    if len(event.value) > MOST_CHARACTERS:
        raise complain("this text is too long", f"at most {MOST_CHARACTERS} characters", _line(event))
    is_plain = event.tag is None and event.implicit[0]
    return Text(_line(event), event.value, (is_plain and event.value == _MERGE) or event.tag == _MERGE_TAG)


def _collection(event: yaml.NodeEvent) -> Collection:
    return Collection(_line(event), isinstance(event, yaml.MappingStartEvent))


def _short(name: str) -> str:
    return name if len(name) <= 40 else f"{name[:40]}..."
