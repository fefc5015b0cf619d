"""Pictures of a report as SVG text. Colours are the page's: classes of its style sheet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

WIDE, TALL = 860, 360
LEFT, RIGHT, TOP, BOTTOM = 74, 24, 22, 46  # around a plane


@dataclass(frozen=True, slots=True)
class Bar:
    """text: what stands at its end; chosen: the one that the page is about."""

    name: str
    value: float
    text: str
    chosen: bool = False


def bars(some: Sequence[Bar], mark: float = 0.0) -> str:
    """Lying ones, from 0 on; mark: a line at this value."""
    height, left, room = 30 * len(some) + 8, 170, 190
    most = max((bar.value for bar in some), default=1.0) or 1.0
    scale = (WIDE - left - room) / most
    parts = [_open(height)]
    for number, bar in enumerate(some):
        top = 30 * number + 4
        kind = "bar chosen" if bar.chosen else "bar"
        parts.append(f'<text x="{left - 10}" y="{top + 16}" class="end">{escape(bar.name)}</text>')
        parts.append(
            f'<rect x="{left}" y="{top}" width="{max(bar.value * scale, 1):.1f}" height="22" rx="3" class="{kind}"/>'
        )
        parts.append(f'<text x="{left + bar.value * scale + 8:.1f}" y="{top + 16}">{escape(bar.text)}</text>')
    if mark:
        at = left + mark * scale
        parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="0" y2="{height}" class="mark"/>')
    return "".join([*parts, "</svg>"])


@dataclass(frozen=True, slots=True)
class Dot:
    """bytes and ns: of one launch; share: of the iteration's time."""

    name: str
    bytes: float
    ns: float
    share: float


@dataclass(frozen=True, slots=True)
class Roofs:
    """Of a GPU. Rates: bytes per second."""

    memory: float
    cache: float
    fixed_ns: float


class _Plane:
    """Of two logarithmic axes, with whole decades."""

    def __init__(self, across: Sequence[float], up: Sequence[float]) -> None:
        self.x0, self.x1 = _decades(across)
        self.y0, self.y1 = _decades(up)

    def x(self, value: float) -> float:
        return LEFT + (log10(value) - self.x0) / (self.x1 - self.x0) * (WIDE - LEFT - RIGHT)

    def y(self, value: float) -> float:
        return TALL - BOTTOM - (log10(value) - self.y0) / (self.y1 - self.y0) * (TALL - BOTTOM - TOP)

    def axes(self) -> list[str]:
        parts = []
        for power in range(self.x0, self.x1 + 1):
            at = f"{self.x(10.0**power):.1f}"
            parts.append(f'<line x1="{at}" x2="{at}" y1="{TOP}" y2="{TALL - BOTTOM}" class="grid"/>')
            parts.append(f'<text x="{at}" y="{TALL - BOTTOM + 18}" class="mid soft">{_unit(10.0**power)}</text>')
        for power in range(self.y0, self.y1 + 1):
            at = f"{self.y(10.0**power):.1f}"
            parts.append(f'<line x1="{LEFT}" x2="{WIDE - RIGHT}" y1="{at}" y2="{at}" class="grid"/>')
            parts.append(f'<text x="{LEFT - 8}" y="{at}" dy="4" class="end soft">{_unit(10.0**power)}/s</text>')
        return parts


def roofline(dots: Sequence[Dot], roofs: Roofs) -> str:
    """How fast each class moves its bytes, by how many they are, below what the GPU can do."""
    dots = sorted((dot for dot in dots if dot.bytes > 0 and dot.ns > 0), key=lambda dot: -dot.share)
    if not dots:
        return "<p>How many bytes its launches use is not known.</p>"
    rates = [dot.bytes / dot.ns * 1e9 for dot in dots]
    plane = _Plane([dot.bytes for dot in dots], [*rates, roofs.memory or max(rates)])
    parts = [_open(TALL), *plane.axes()]
    parts.append(f'<text x="{(LEFT + WIDE) / 2}" y="{TALL - 8}" class="mid soft">bytes of one launch</text>')
    parts += _roof(plane, roofs) if roofs.memory else []
    for dot, rate in zip(dots, rates, strict=True):
        told = f"{_unit(dot.bytes)} in {dot.ns / 1000:.1f} us, {_unit(rate)}/s, {dot.share:.1%} of the time"
        parts.append(
            f'<circle cx="{plane.x(dot.bytes):.1f}" cy="{plane.y(rate):.1f}" r="{4 + 16 * dot.share**0.5:.1f}" '
            f'class="dot"><title>{escape(f"{dot.name}: {told}")}</title></circle>'
        )
    return "".join([*parts, *_names(plane, dots, rates), "</svg>"])


def _roof(plane: _Plane, roofs: Roofs) -> list[str]:
    """A launch takes its fixed time at least, and its bytes what memory takes for them."""
    fixed = max(roofs.fixed_ns, 1.0)
    begin = max(10.0**plane.x0, 10.0**plane.y0 * fixed / 1e9)
    edge = min(max(roofs.memory * fixed / 1e9, begin), 10.0**plane.x1)
    corners = [(begin, min(begin / fixed * 1e9, roofs.memory)), (edge, min(edge / fixed * 1e9, roofs.memory))]
    corners.append((10.0**plane.x1, min(10.0**plane.x1 / fixed * 1e9, roofs.memory)))
    points = " ".join(f"{plane.x(across):.1f},{plane.y(up):.1f}" for across, up in corners)
    across, up = corners[-1]
    return [
        f'<polyline points="{points}" class="roof"/>',
        f'<text x="{plane.x(across) - 4:.1f}" y="{plane.y(up) - 7:.1f}" class="end soft">as fast as can be</text>',
    ]


def _names(plane: _Plane, dots: Sequence[Dot], rates: Sequence[float]) -> list[str]:
    """Of the largest, where there is room."""
    parts: list[str] = []
    taken: list[tuple[float, float]] = []
    for dot, rate in zip(dots[:8], rates, strict=False):
        across, up = plane.x(dot.bytes), plane.y(rate)
        if any(abs(across - x) < 260 and abs(up - y) < 16 for x, y in taken):
            continue
        taken.append((across, up))
        gap = 8 + 16 * dot.share**0.5
        side, at = ("end", across - gap) if across > WIDE * 0.6 else ("start", across + gap)
        parts.append(f'<text x="{at:.1f}" y="{up + 4:.1f}" class="{side}">{escape(dot.name[:34])}</text>')
    return parts


def strips(rows: Sequence[Sequence[int]], names: Sequence[str]) -> str:
    """One row for each layer, a cell for each launch, in the colour of its GPU."""
    most = max((len(row) for row in rows), default=1)
    wide = min(max((WIDE - 70) / most, 0.4), 22.0)
    tall = 16 if len(rows) <= 24 else 9
    parts = [_open((tall + 3) * len(rows) + 6)]
    for number, row in enumerate(rows):
        top = (tall + 3) * number + 2
        if len(rows) <= 24 or number % 5 == 0:
            parts.append(f'<text x="46" y="{top + tall - 3}" class="end soft">{number + 1}</text>')
        begin = 0
        for place in range(1, len(row) + 1):
            if place == len(row) or row[place] != row[begin]:
                title = f"launches {begin + 1} to {place}: {names[row[begin]]}"
                parts.append(
                    f'<rect x="{56 + begin * wide:.1f}" y="{top}" width="{max((place - begin) * wide - 0.5, 0.4):.1f}" '
                    f'height="{tall}" class="gpu{row[begin] % 8}"><title>{escape(title)}</title></rect>'
                )
                begin = place
    return "".join([*parts, "</svg>"])


def _open(height: float) -> str:
    return f'<svg viewBox="0 0 {WIDE} {height:.0f}" role="img" xmlns="http://www.w3.org/2000/svg">'


def _decades(values: Sequence[float]) -> tuple[int, int]:
    low, high = floor(log10(min(values))), ceil(log10(max(values) * 1.05))
    return low, max(high, low + 1)


def _unit(value: float) -> str:
    for size, unit in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} B"
