"""The drawing of the layers: a box each, its name and what it is for, on the row above the highest that it uses."""

from html import escape
from textwrap import wrap

import networkx as nx

from scripts.layers import House, used_layers

BOX_WIDTH, BOX_HEIGHT, GAP, ROW = 172, 62, 14, 104
TITLE, MARGIN, LINE_LETTERS = 34, 24, 27
STYLE = """
text{font-family:system-ui,sans-serif;font-size:11px;fill:#334155}
.name{font-size:13px;font-weight:600;fill:#0f172a}.title{font-size:16px;font-weight:600;fill:#0f172a}
rect{fill:#f8fafc;stroke:#94a3b8;rx:7}path{fill:none;stroke:#94a3b8;stroke-width:1.1}
"""


def _rows(graph: "nx.DiGraph[str]") -> list[list[str]]:
    """Lowest first; within a row by the mean place of its neighbours in others (the barycentre method)."""
    rows = [sorted(row) for row in nx.topological_generations(graph.reverse())]
    for _ in range(4):
        place = {name: at / max(1, len(row)) for row in rows for at, name in enumerate(row)}
        for row in rows:
            row.sort(
                key=lambda name: _mean([place[other] for other in [*graph.successors(name), *graph.predecessors(name)]])
            )
    return rows


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.5


def _box(name: str, what: str, x: float, y: float) -> str:
    lines = wrap(what, LINE_LETTERS)[:3]
    texts = [f'<text class="name" x="{x + 8}" y="{y + 17}">{escape(name)}</text>']
    texts += [f'<text x="{x + 8}" y="{y + 32 + 13 * at}">{escape(line)}</text>' for at, line in enumerate(lines)]
    return f'<g><rect x="{x}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT + 6}"/>{"".join(texts)}</g>'


def _panel(title: str, house: House, prefix: str, side: float, top: float) -> tuple[str, float, float]:
    """The layers whose names begin with the prefix, and the edges that no others imply; its width and height."""
    names = {layer.name: layer.what for layer in house.layers if layer.name.startswith(prefix)}
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(names)
    graph.add_edges_from(
        (name, other) for name, used in used_layers(house).items() for other in used if {name, other} <= names.keys()
    )
    reduced = nx.transitive_reduction(graph)
    rows = _rows(reduced)
    width = max(len(row) for row in rows) * (BOX_WIDTH + GAP) + 2 * MARGIN
    places: dict[str, tuple[float, float]] = {}
    for at, row in enumerate(reversed(rows)):
        left = side + (width - len(row) * (BOX_WIDTH + GAP) + GAP) / 2
        for column, name in enumerate(row):
            places[name] = (left + column * (BOX_WIDTH + GAP), top + TITLE + at * ROW)
    parts = [f'<text class="title" x="{side + MARGIN}" y="{top + 18}">{escape(title)}</text>']
    for name, other in sorted(reduced.edges):
        (x, y), (u, v) = places[name], places[other]
        start, end, middle = (
            (x + BOX_WIDTH / 2, y + BOX_HEIGHT + 6),
            (u + BOX_WIDTH / 2, v),
            (y + BOX_HEIGHT + 6 + v) / 2,
        )
        parts.append(f'<path d="M{start[0]},{start[1]} C{start[0]},{middle} {end[0]},{middle} {end[0]},{end[1]}"/>')
    parts += [_box(name.removeprefix(prefix), names[name], *places[name]) for name in names]
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
        side, lowest = side + max(width, 8.2 * len(title) + MARGIN), max(lowest, top + 40 + height)
    widest = max(widest, side)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {widest:.0f} {lowest:.0f}" '
        f'width="{widest:.0f}" height="{lowest:.0f}">'
        f'<style>{STYLE}</style><rect width="100%" height="100%" style="fill:#fff;stroke:none"/>'
        f"{''.join(drawn)}</svg>\n"
    )
