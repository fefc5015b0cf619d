"""The layers that scripts/layers.toml declares, and what the code makes of them.

Files are taken as units: a C file with the header of its name is one. An edge leads from a unit to each that it
includes or imports.
"""

import ast
import os
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import networkx as nx

ROOT = Path(__file__).resolve().parents[1]
TABLE = Path(__file__).with_name("layers.toml")
MOST_IN_A_CIRCLE = 4
INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Layer:
    """A folder below interpose/, or a package or module of Python, and what it is for."""

    name: str
    what: str


@dataclass(frozen=True, slots=True)
class House:
    """Layers, lowest first, and the units' edges. A unit's layer is the longest name that it begins with."""

    layers: tuple[Layer, ...]
    edges: "nx.DiGraph[str]"
    separator: str

    def layer_of(self, unit: str) -> str | None:
        fitting = [one.name for one in self.layers if f"{unit}{self.separator}".startswith(one.name + self.separator)]
        return max(fitting, key=len, default=None)


def read_layers(kind: str) -> tuple[Layer, ...]:
    """The table's part `c` or `python`."""
    return tuple(Layer(name, what) for name, what in tomllib.loads(TABLE.read_text())[kind].items())


def c_house(root: Path = ROOT / "interpose") -> House:
    """The includes of everything below interpose/, relative ones and those from its root or include/."""
    edges: nx.DiGraph[str] = nx.DiGraph()
    for path in sorted(root.rglob("*.[ch]")):
        unit = path.relative_to(root).with_suffix("").as_posix()
        edges.add_node(unit)
        for name in INCLUDE.findall(path.read_text(errors="replace")):
            places = (path.parent / name, root / name, root / "include" / name)
            found = next((place for place in places if place.is_file()), None)
            if found is not None:
                target = Path(os.path.normpath(found)).relative_to(root).with_suffix("").as_posix()
                edges.add_edges_from([(unit, target)] if target != unit else [])
    return House(read_layers("c"), edges, "/")


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def python_house(root: Path = ROOT, packages: tuple[str, ...] = ("ptxtools", "controlplane")) -> House:
    """The imports of the packages' modules, wherever in a file they stand. An __init__ is one only if it holds code."""
    files = {
        ".".join(path.relative_to(root).with_suffix("").parts): path
        for name in packages
        for path in (root / name).rglob("*.py")
    }
    modules = {name.removesuffix(".__init__"): path for name, path in files.items() if not _is_face(path)}
    edges: nx.DiGraph[str] = nx.DiGraph()
    for name, path in sorted(modules.items()):
        edges.add_node(name)
        targets = {target for target in _imports(ast.parse(path.read_text())) if target in modules and target != name}
        edges.add_edges_from((name, target) for target in sorted(targets))
    return House(read_layers("python"), edges, ".")


def _is_face(path: Path) -> bool:
    """An __init__ that defines nothing: it only hands names on."""
    if path.name != "__init__.py":
        return False
    defines = (ast.FunctionDef, ast.ClassDef)
    return not any(isinstance(node, defines) for node in ast.parse(path.read_text()).body)


def faults(house: House) -> list[str]:
    """What is not as the table says: units without a layer, edges that lead up, circles of too many units."""
    rank = {layer.name: place for place, layer in enumerate(house.layers)}
    found = [f"{unit}: is in no layer of {TABLE.name}" for unit in sorted(house.edges) if house.layer_of(unit) is None]
    for unit, target in sorted(house.edges.edges):
        mine, its = house.layer_of(unit), house.layer_of(target)
        if mine is not None and its is not None and rank[its] > rank[mine]:
            found.append(f"{unit} -> {target}: {its} stands above {mine}")
    circles = [sorted(one) for one in nx.strongly_connected_components(house.edges) if len(one) > MOST_IN_A_CIRCLE]
    return found + [f"{len(circle)} files in one circle: {', '.join(circle)}" for circle in circles]


def used_layers(house: House) -> dict[str, set[str]]:
    """By layer, those that it includes or imports."""
    used: dict[str, set[str]] = {layer.name: set() for layer in house.layers}
    for unit, target in house.edges.edges:
        mine, its = house.layer_of(unit), house.layer_of(target)
        if mine is not None and its is not None and mine != its:
            used[mine].add(its)
    return used
