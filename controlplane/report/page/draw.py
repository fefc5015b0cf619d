"""A report as one self-contained page (page.html), which loads nothing from elsewhere."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from controlplane.report.page import advice, charts, content
from controlplane.simulate.comparison import Compared
from controlplane.simulate.engine import Ran
from controlplane.simulate.text import notes

TEMPLATE = Path(__file__).with_name("page.html")
PLACE = re.compile("@([A-Z]+)@")


def draw(of: Compared, title: str, name: str) -> str:
    """title: the program's; name: of the file that it is on."""
    best = content.chosen(of)
    dots, roofs = content.dots(of.profile)
    gpus = [f"GPU {number}" for number in range(len(of.profile.machine.gpus))]
    launches = of.results[best].launches
    shares = [f"{name}: {count / max(sum(launches), 1):.0%} of all" for name, count in zip(gpus, launches, strict=True)]
    parts = {
        "TITLE": escape(title),
        "VERDICT": escape(advice.verdict(of, of.results[best])),
        "FACTS": "".join(_fact(*each) for each in content.facts(of)),
        "BARS": charts.bars(content.bars_of(of), of.results[0].per_second),
        "COMPARED": table(content.compared(of), best + 1),
        "CHOSEN": escape(of.results[best].name),
        "KEYS": "".join(f'<span class="key gpu{n % 8}">{escape(each)}</span>' for n, each in enumerate(shares)),
        "LAYERS": charts.strips(content.layers(of.profile, placed(of.runs[best], len(of.work.tasks))), gpus),
        "TRAFFIC": _traffic(of, best),
        "ROOFLINE": charts.roofline(dots, roofs),
        "CLASSES": table(content.classes(of.profile)),
        "MACHINE": table(content.machine(of.profile)),
        "MEMORY": table([("memory", "bytes"), *content.memory(of.profile)]),
        "COVERAGE": _list(coverage(of)),
        "NEXT": _list(advice.next_steps(of, of.results[best], name)),
        "DATA": json.dumps(content.timeline(of), separators=(",", ":")).replace("</", "<\\/"),
    }
    return fill(TEMPLATE.read_text(), parts)


def fill(template: str, parts: dict[str, str]) -> str:
    """Once over the text: what is put in is not looked at again."""
    return PLACE.sub(lambda found: parts[found[1]], template)


def _traffic(of: Compared, best: int) -> str:
    if len(of.profile.machine.gpus) < 2:
        return "<p>There is one GPU.</p>"
    if not of.results[best].links:
        return "<p>Nothing: each GPU makes what it reads, but for the weights, which each has.</p>"
    return table(content.traffic(of, of.results[best]))


def placed(ran: Ran, size: int) -> Sequence[int]:
    """Where each launch of a request in the middle ran."""
    request = len(ran.done_ns) // 2
    found = [0] * size
    for each in ran.slices:
        if each.request == request:
            found[each.place] = each.gpu
    return found


def coverage(of: Compared) -> list[str]:
    known = of.profile.coverage
    lines = [f"{known.launches:,} launches were recorded" + (f", {known.lost:,} were not" if known.lost else "") + "."]
    lines += [f"{count} operations of the iteration may touch anything: {reason}." for reason, count in known.unknown]
    if not known.unknown:
        lines.append("What each operation of the iteration reads and writes is known.")
    if known.whole:
        lines.append(f"{known.whole:,} launches use something in an allocation, of which no more is known.")
    lines.append(
        f"{known.untimed} operations ({known.untimed_share:.1%} of the time) were not timed."
        if known.untimed
        else "Each operation of the iteration was timed on the program's GPU."
    )
    return lines + [f"{note[0].upper()}{note[1:]}." for note in notes(of)]


def table(rows: Sequence[Sequence[str]], chosen: int = 0) -> str:
    """The first row is the heading; chosen: the row that is set off."""
    head, *rest = rows
    lines = ["<table><thead><tr>", *(f"<th>{escape(cell)}</th>" for cell in head), "</tr></thead><tbody>"]
    for number, row in enumerate(rest, 1):
        kind = ' class="chosen"' if number == chosen else ""
        lines += [f"<tr{kind}>", *(f"<td>{escape(cell)}</td>" for cell in row), "</tr>"]
    return '<div class="wide">' + "".join([*lines, "</tbody></table>"]) + "</div>"


def _fact(what: str, much: str, means: str) -> str:
    return f"<div><small>{escape(what)}</small><b>{escape(much)}</b><span>{escape(means)}</span></div>"


def _list(some: Iterable[str]) -> str:
    lines = "".join(f"<li>{escape(each)}</li>" for each in some)
    return f"<ul>{lines}</ul>" if lines else "<p>Nothing.</p>"
