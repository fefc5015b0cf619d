"""The drawing of the layers: a box each, its name and what it is for, on the row above the highest that it uses."""

from html import escape
from itertools import pairwise
from textwrap import wrap

import networkx as nx

from scripts.layers import House, used_layers

BOX_WIDTH, BOX_HEIGHT, GAP, ROW = 172, 81, 14, 124
LANE = 4  # of a line that passes a row between its boxes
TITLE, MARGIN, LINE_LETTERS = 34, 24, 27
STYLE = """
text{font-family:system-ui,sans-serif;font-size:11px;fill:#334155}
.name{font-size:13px;font-weight:600;fill:#0f172a}.title{font-size:16px;font-weight:600;fill:#0f172a}
rect{fill:#f8fafc;stroke:#94a3b8;rx:7}path{fill:none;stroke:#94a3b8;stroke-width:1.1}
"""
Stop = tuple[str, ...]
"""A place in a row: of a box, its name; of a line that passes the row, what it leads from and to, and the row."""


def _lines(graph: "nx.DiGraph[str]", rows: list[list[str]]) -> list[list[Stop]]:
    """Of each edge, its stops from above to below: one in every row."""
    row_of = {name: at for at, row in enumerate(rows) for name in row}
    return [
        [(name,), *((name, other, str(at)) for at in range(row_of[name] - 1, row_of[other], -1)), (other,)]
        for name, other in sorted(graph.edges)
    ]


def _ordered(rows: list[list[Stop]], lines: list[list[Stop]]) -> list[list[Stop]]:
    """Within a row by the mean place of the neighbours in others (the barycentre method)."""
    neighbours: dict[Stop, list[Stop]] = {stop: [] for row in rows for stop in row}
    for line in lines:
        for above, below in pairwise(line):
            neighbours[above].append(below)
            neighbours[below].append(above)
    for _ in range(12):
        place = _places(rows, 0.0, 0.0)
        for row in rows:
            row.sort(key=lambda stop: _mean([place[other][0] for other in neighbours[stop]]))
    return rows


def _width(stop: Stop) -> int:
    return BOX_WIDTH if len(stop) == 1 else LANE


def _row_width(row: list[Stop]) -> int:
    return sum(_width(stop) + GAP for stop in row) - GAP


def _places(rows: list[list[Stop]], middle: float, top: float) -> dict[Stop, tuple[float, float]]:
    """The middle of each stop's upper edge; rows are given lowest first."""
    places = {}
    for at, row in enumerate(reversed(rows)):
        x = middle - _row_width(row) / 2
        for stop in row:
            places[stop] = (x + _width(stop) / 2, top + at * ROW)
            x += _width(stop) + GAP
    return places


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _box(name: str, what: str, x: float, y: float) -> str:
    lines = wrap(what, LINE_LETTERS)
    texts = [f'<text class="name" x="{x + 8}" y="{y + 17}">{escape(name)}</text>']
    texts += [f'<text x="{x + 8}" y="{y + 32 + 13 * at}">{escape(line)}</text>' for at, line in enumerate(lines)]
    return f'<g><rect x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}"/>{"".join(texts)}</g>'


def _path(line: list[Stop], places: dict[Stop, tuple[float, float]]) -> str:
    """Straight down beside the boxes of a row, curved between rows."""
    drawn = ""
    for above, below in pairwise(line):
        (x, y), (u, v) = places[above], places[below]
        y += BOX_HEIGHT
        middle = (y + v) / 2
        drawn += f"{'L' if drawn else 'M'}{x},{y} C{x},{middle} {u},{middle} {u},{v} "
    return f'<path d="{drawn.strip()}"/>'


def _panel(title: str, house: House, prefix: str, side: float, top: float) -> tuple[str, float, float]:
    """The layers whose names begin with the prefix, and the edges that no others imply; its width and height."""
    names = {layer.name: layer.what for layer in house.layers if layer.name.startswith(prefix)}
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(names)
    graph.add_edges_from(
        (name, other) for name, used in used_layers(house).items() for other in used if {name, other} <= names.keys()
    )
    reduced = nx.transitive_reduction(graph)
    boxes = [sorted(row) for row in nx.topological_generations(reduced.reverse())]
    lines = _lines(reduced, boxes)
    rows: list[list[Stop]] = [[(name,) for name in row] for row in boxes]
    for stop in (stop for line in lines for stop in line[1:-1]):
        rows[int(stop[2])].append(stop)
    rows = _ordered(rows, lines)
    width = max(_row_width(row) for row in rows) + 2 * MARGIN
    places = _places(rows, side + width / 2, top + TITLE)
    parts = [f'<text class="title" x="{side + MARGIN}" y="{top + 18}">{escape(title)}</text>']
    parts += [_path(line, places) for line in lines]
    for name, what in names.items():
        x, y = places[name,]
        parts.append(_box(name.removeprefix(prefix), what, x - BOX_WIDTH / 2, y))
    return "".join(parts), width, TITLE + len(rows) * ROW


def draw(c: House, python: House) -> str:
    """The whole drawing as SVG: each box may use what the lines from its lower edge lead to, and all below those."""
    main = House(tuple(layer for layer in c.layers if not layer.name.startswith("emulator/")), c.edges, c.separator)
    beside = (
        ("interpose/emulator: the emulated driver (C)", c, "emulator/"),
        ("ptxtools: what kernels read and write", python, "ptxtools."),
        ("controlplane: tessera-run, commands", python, "controlplane."),
    )
    text, widest, top = _panel("interpose: in the program's process, and the executors (C)", main, "", 0, 12)
    drawn, side, lowest = [text], 0.0, 0.0
    for title, house, prefix in beside:
        text, width, height = _panel(title, house, prefix, side, top + 30)
        drawn.append(text)
        side, lowest = side + max(width, 9.4 * len(title) + 2 * MARGIN), max(lowest, top + 40 + height)
    widest = max(widest, side)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {widest:.0f} {lowest:.0f}" '
        f'width="{widest:.0f}" height="{lowest:.0f}">'
        f'<style>{STYLE}</style><rect width="100%" height="100%" style="fill:#fff;stroke:none"/>'
        f"{''.join(drawn)}</svg>\n"
    )
