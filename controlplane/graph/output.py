"""A study as JSON with stable keys, and as a graph for Graphviz. docs/graph.md says what the keys mean."""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.base.demangle import short
from controlplane.base.tables import amount
from controlplane.graph.chains import Link
from controlplane.graph.nodes import What
from controlplane.graph.paths import Path
from controlplane.graph.study import Study, as_graph

LABEL = 40


def to_json(of: Study) -> dict[str, object]:
    program = of.found.program
    graph = as_graph(of.found)
    counts = {what.value: sum(node.what is what for node in program.nodes) for what in What if what is not What.FORGET}
    edges = {cause: sum(cause in data for _, _, data in graph.edges(data=True)) for cause in _CAUSES}
    return {
        "operations": counts,
        "edges": edges,
        "work_ns": round(of.work_ns),
        "whole_launches": program.whole,
        "notes": list(program.notes),
        "gpus": of.gpus,
        "measured_from": of.mark + 1,
        "gain": round(of.gain, 4),
        "gain_if_known": round(of.chains.best, 4),
        "moved_bytes": of.several.moved_bytes,
        "moved_bytes_if_known": of.chains.best_schedule.moved_bytes,
        "busy": [round(share, 4) for share in of.busy()],
        "paths": {
            "streams": _path(of.streams),
            "bytes": _path(of.bytes),
            "known": _path(of.chains.path),
        },
        "requests": [_part(of, part) for part in of.requests],
        "groups_as_known": of.joined,
        "branches": [list(fan.bounds) for fan in of.fans],
        "steps": list(of.steps.starts) if of.steps is not None else [],
        "units": {
            unit.name: {"count": len(unit.parts), "moved_bytes": [of.moved(part) for part in unit.parts]}
            for unit in of.units()
        },
        "chains": [_link(link) for link in of.chains.links],
        "own_chain": [{"kernel": own.name, "launches": own.launches, "ns": round(own.ns)} for own in of.chains.own],
    }


_CAUSES = ("RAW", "WAR", "WAW", "stream", "host")


def _path(path: Path) -> dict[str, object]:
    return {"ns": round(path.ns), "operations": list(path.nodes)}


def _part(of: Study, part: tuple[int, ...]) -> dict[str, object]:
    ns = sum(of.found.program.nodes[number].ns for number in part)
    return {"first": part[0], "last": part[-1], "operations": len(part), "ns": round(ns)}


def _link(link: Link) -> dict[str, object]:
    return {
        "kernel": link.name,
        "why": link.why.name.lower(),
        "cause": link.cause,
        "launches": link.launches,
        "bytes": link.needed_bytes,
        "example": list(link.example),
        "path_ns": round(link.path_ns),
        "gain_alone": None if link.alone is None else round(link.alone, 4),
        "gain_without": None if link.without is None else round(link.without, 4),
    }


def to_dot(of: Study) -> Iterator[str]:
    """Lines. Edges that only the order of streams gives are dotted, those that better knowledge could spare dashed, and
    those of the longest chain red; constants' are left out.
    """
    graph, nodes = as_graph(of.found), of.found.program.nodes
    chain = set(zip(of.bytes.nodes, of.bytes.nodes[1:], strict=False))
    yield "digraph program {"
    yield '  node [shape=box, fontname="sans-serif", style=filled, fillcolor="#eef2f7"];'
    for number in graph:
        node = nodes[number]
        color = _COLORS[of.several.gpu[number] % len(_COLORS)]
        label = _quoted(f"{number} {short(node.name, LABEL)}\n{node.ns / 1000:.1f} us")
        yield f'  n{number} [label={label}, fillcolor="{color}"];'
    for first, second, data in graph.edges(data=True):
        causes = [f"{cause} {amount(data[cause])}" for cause in _CAUSES[:3] if cause in data]
        if data.get("constant") and len(causes) == 1:
            continue
        style = "solid" if "RAW" in data and not data["unsure"] else "dashed" if causes else "dotted"
        color = "#c62828" if (first, second) in chain else "#78909c"
        yield f'  n{first} -> n{second} [style={style}, color="{color}", label={_quoted(", ".join(causes))}];'
    yield "}"


_COLORS = ("#dbe9f6", "#fde3c8", "#dcefdc", "#ecdff3")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
