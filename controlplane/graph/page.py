"""A study as one self-contained page for a browser, which loads nothing from elsewhere."""

from __future__ import annotations

import json
from html import escape
from itertools import pairwise
from pathlib import Path

from controlplane.base.demangle import short
from controlplane.base.tables import amount, duration
from controlplane.graph.nodes import What
from controlplane.graph.paths import Path as Chain
from controlplane.graph.paths import only_sure
from controlplane.graph.simulate import Schedule
from controlplane.graph.study import Study

TEMPLATE = Path(__file__).with_name("page.html")
NAME = 120


def draw(of: Study, title: str) -> str:
    data = json.dumps(_data(of), separators=(",", ":")).replace("</", "<\\/")
    return TEMPLATE.read_text().replace("@TITLE@", escape(title)).replace("@DATA@", data)


def _data(of: Study) -> dict[str, object]:
    """Operations in columns; `needs` are those whose fresh bytes each needs, those that better knowledge could spare as
    negative numbers less one.
    """
    nodes = of.found.program.nodes
    names: dict[str, int] = {}
    return {
        "name": [names.setdefault(node.name, len(names)) for node in nodes],
        "names": [short(name, NAME) for name in names],
        "what": [("launch", "copy", "memset", "forget").index(node.what.value) for node in nodes],
        "stream": [node.stream for node in nodes],
        "measured": [int(node.measured) for node in nodes],
        "unknown": {number: node.unknown for number, node in enumerate(nodes) if node.unknown},
        "part": _part_of(of),
        "unit": next((unit.name for unit in of.units()), "part"),
        "needs": _needs(of),
        "gpus": of.gpus,
        "schedules": [
            {"label": "as the bytes are known", **_schedule(of.several, of.gain), "chain": _pairs(of.bytes)},
            {
                "label": "if all bytes were known",
                **_schedule(of.chains.best_schedule, of.chains.best),
                "chain": _pairs(of.chains.path),
            },
        ],
        "facts": _facts(of),
        "links": [
            {
                "name": short(link.name, NAME),
                "cause": link.cause,
                "launches": link.launches,
                "bytes": amount(link.needed_bytes),
                "alone": link.alone,
                "without": link.without,
                "example": link.example,
            }
            for link in of.chains.links
        ],
        "own": [
            {"name": short(own.name, NAME), "launches": own.launches, "time": duration(own.ns), "share": own.ns}
            for own in of.chains.own[:12]
        ],
        "notes": list(of.found.program.notes),
    }


def _part_of(of: Study) -> list[int]:
    """Which request, branch or step each operation is in; -1: none."""
    result = [-1] * len(of.found.program.nodes)
    for unit in of.units()[:1]:
        for number, part in enumerate(unit.parts):
            for each in part:
                result[each] = number
    return result


def _needs(of: Study) -> list[list[int]]:
    found, result = of.found, []
    for number, edges in enumerate(found.raw):
        sure = {writer for writer, why in edges if only_sure(number, why)}
        fresh = {writer for writer, _ in edges if not found.is_constant(writer, number)}
        result.append([writer if writer in sure else -1 - writer for writer in sorted(fresh)])
    return result


def _schedule(of: Schedule, gain: float) -> dict[str, object]:
    """Microseconds."""
    return {
        "gpu": of.gpu,
        "start": [round(start / 1000, 2) for start in of.start_ns],
        "time": [round((end - start) / 1000, 2) for start, end in zip(of.start_ns, of.end_ns, strict=True)],
        "moved": of.moved,
        "gain": round(gain, 2),
    }


def _pairs(chain: Chain) -> list[list[int]]:
    return [list(pair) for pair in pairwise(chain.nodes)]


def _facts(of: Study) -> list[tuple[str, str]]:
    nodes = of.found.program.nodes
    facts = [
        ("launches", str(sum(node.what is What.LAUNCH for node in nodes))),
        ("work on a GPU", duration(of.work_ns)),
        (f"{of.gpus} GPUs over one", f"{of.gain:.2f}"),
        ("if all bytes were known", f"{of.chains.best:.2f}"),
        ("longest chain of bytes", duration(of.bytes.ns)),
        ("longest if all were known", duration(of.chains.path.ns)),
        ("moved between GPUs", amount(of.several.moved_bytes)),
    ]
    for unit in of.units():
        moved = [of.moved(part) for part in unit.parts]
        facts.append((f"moved by {unit.name} ({len(moved)})", amount(sum(moved) // len(moved))))
    return facts
