"""A study as text for people."""

from __future__ import annotations

from collections import Counter

from controlplane.base.demangle import short
from controlplane.base.tables import LINE, Part, amount, blocks, columns, duration
from controlplane.graph.chains import Link, Own
from controlplane.graph.groups import alike
from controlplane.graph.nodes import Program, What
from controlplane.graph.paths import Path
from controlplane.graph.study import Study, Unit

SHOWN = 10
NAME = 56


def to_text(of: Study) -> list[Part]:
    return blocks([_program(of), _paths(of), _parts(of), _units(of), _gains(of), _links(of), _own(of)])


def _program(of: Study) -> list[str]:
    program = of.found.program
    counts = Counter(node.what for node in program.nodes)
    there = ", ".join(f"{counts[what]} {word}" for what, word in _WORDS.items() if counts[what])
    lines = [f"{there}; {duration(of.work_ns)} of work on a GPU"]
    if program.whole:
        share = 100 * program.whole / max(counts[What.LAUNCH], 1)
        lines.append(f"  {program.whole} launches ({share:.2f} %) have a range that is only known as its allocation")
    return [*lines, *(f"  {note}" for note in program.notes)]


_WORDS = {What.LAUNCH: "launches", What.COPY: "copies", What.MEMSET: "memsets"}


def _paths(of: Study) -> list[Part]:
    rows = [("longest chain", "time", "operations", "at once")]
    for name, path in (
        ("as streams order it", of.streams),
        ("as the known bytes order it", of.bytes),
        ("if all bytes were known", of.chains.path),
    ):
        rows.append((name, duration(path.ns), str(len(path.nodes)), _at_once(of.work_ns, path)))
    return columns(rows, right=(1, 2, 3))


def _at_once(work_ns: float, path: Path) -> str:
    return f"{work_ns / path.ns:.2f}" if path.ns else "-"


def _parts(of: Study) -> list[str]:
    """Requests and branches."""
    requests, lines = of.requests, []
    if requests:
        lines.append(f"{len(requests)} requests: parts that need nothing of each other, or next to nothing")
        for kinds, count in alike(of.chains.known, requests).most_common(3):
            lines.append(f"  {count} of the same {len(kinds)} operations")
        if of.joined < len(of.parts.groups):
            lines.append(f"  as the bytes are known now, they are chained into {of.joined}: see below")
    elif of.fans:
        fan = of.fans[len(of.fans) // 2]
        sizes = " and ".join(str(len(part)) for part in fan.parts)
        lines.append(f"{len(of.fans)} times branches follow each other that need nothing of each other")
        lines.append(f"  such as operations {fan.bounds[0]} to {fan.bounds[-1] - 1}: {sizes} operations")
    elif of.steps is None:
        lines.append("one group: no requests, branches or steps were found")
    if of.steps is not None:
        first, length = of.steps.starts[0], (of.steps.end - of.steps.starts[0]) // of.steps.count
        lines.append(f"{of.steps.count} steps of about {length} operations, from operation {first} on")
    return lines


def _units(of: Study) -> list[Part]:
    units = of.units()
    rows = [("moved", "count", "per one", "most", "in all"), *(_unit(of, unit) for unit in units)]
    return columns(rows, right=(1, 2, 3, 4)) if units else []


def _unit(of: Study, unit: Unit) -> tuple[str, ...]:
    moved = [of.moved(part) for part in unit.parts]
    numbers = (sum(moved) // len(moved), max(moved), sum(moved))
    return (f"by {unit.name}", str(len(moved)), *(amount(number) for number in numbers))


def _gains(of: Study) -> list[str]:
    one, several = of.one, of.several
    where = "" if of.mark < 0 else f", from operation {of.mark + 1} on"
    busy = ", ".join(f"{100 * share:.0f} %" for share in of.busy())
    return [
        (
            f"on {of.gpus} GPUs{where}, in the order of the bytes: {of.gain:.2f} times one GPU "
            f"({duration(several.span_ns)} for {duration(one.span_ns)})"
        ),
        f"  the GPUs are busy {busy} of the time; {amount(several.moved_bytes)} move between them",
        f"  if all bytes were known: {of.chains.best:.2f} times, {amount(of.chains.best_schedule.moved_bytes)} move",
    ]


def _links(of: Study) -> list[Part]:
    shown = of.chains.links[:SHOWN]
    if not shown:
        return []
    heading = ("why not more", "launches", "bytes", "alone", "without")
    rows = [_link(link) for link in shown]
    lines = columns([(*heading, "kernel"), *rows], right=(1, 2, 3, 4))
    if len(of.chains.links) > SHOWN:
        lines.append(f"  and {len(of.chains.links) - SHOWN} more")
    return [*lines, "  alone: times one GPU if only this were not known better; without: if only this were"]


def _link(link: Link) -> tuple[str, ...]:
    gains = tuple("-" if gain is None else f"{gain:.2f}" for gain in (link.alone, link.without))
    size = amount(link.needed_bytes) if link.needed_bytes else "-"
    cause = short(link.cause, NAME)
    return (cause, str(link.launches), size, *gains, short(link.name, max(LINE - 40 - len(cause), 30)))


def _own(of: Study) -> list[Part]:
    """The chain that better knowledge does not shorten."""
    path = of.chains.path
    if not path.ns:
        return []
    lines = [f"the program's own chain: {duration(path.ns)}, {100 * path.ns / max(of.work_ns, 1):.0f} % of its work"]
    rows = [_own_row(each, path) for each in of.chains.own[:SHOWN]]
    return [*lines, *columns([("on it", "time", "share", "kernel"), *rows], right=(0, 1, 2))]


def _own_row(of: Own, path: Path) -> tuple[str, ...]:
    return (str(of.launches), duration(of.ns), f"{100 * of.ns / path.ns:.1f} %", short(of.name, LINE - 40))


def describe(program: Program, number: int) -> str:
    """An operation in a line."""
    node = program.nodes[number]
    return f"{number} {short(node.name, NAME)}"
