"""Coverage as a picture: one bar for all launches, then one for each of the functions with the most of them."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from controlplane.analysis.coverage import Coverage, FunctionCoverage
from controlplane.base.demangle import short

WIDTH, LABELS, NUMBERS, ROW, BAR, HEAD = 1100, 420, 150, 20, 13, 92
MOST_FUNCTIONS = 40
NAME = 62
EXACT, WHOLE, UNKNOWN, EMPTY = "#59a14f", "#edc948", "#e15759", "#f0f1f3"
STYLE = (
    "text{font:12px ui-sans-serif,system-ui,sans-serif;fill:#222}.title{font-size:16px;font-weight:600}"
    ".small{font-size:11px}.why{font-size:10px;fill:#777}"
)
LEGEND = ((EXACT, "known ranges"), (WHOLE, "known as far as whole allocations"), (UNKNOWN, "unknown"))


def draw(found: Coverage, title: str) -> str:
    rows = found.functions[:MOST_FUNCTIONS]
    height = HEAD + ROW * len(rows) + 16
    share = f"{found.known_launches:,} of {found.launches:,} launches have known ranges ({100 * found.share:.2f} %)"
    most = max((each.launches for each in rows), default=1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">',
        f"<style>{STYLE}</style>",
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        f'<text class="title" x="12" y="24">{escape(title)}</text>',
        f'<text x="12" y="44">{escape(share)}</text>',
        *_bar(12, 54, WIDTH - 24, 14, _shares(found.functions)),
        *_legend(),
    ]
    for place, each in enumerate(rows):
        parts += _row(each, HEAD + place * ROW, most)
    return "\n".join([*parts, "</svg>", ""])


def _shares(functions: list[FunctionCoverage]) -> list[tuple[float, str]]:
    """Launches by colour."""
    sums = dict.fromkeys((EXACT, WHOLE, UNKNOWN), 0.0)
    for each in functions:
        known = each.known_launches
        looked = each.evaluated
        whole = min(known, each.launches * looked.whole / looked.launches) if looked.launches else 0.0
        sums[EXACT] += known - whole
        sums[WHOLE] += whole
        sums[UNKNOWN] += each.launches - known
    return [(count, color) for color, count in sums.items()]


def _bar(x: float, y: float, width: float, height: float, shares: list[tuple[float, str]]) -> Iterator[str]:
    total = sum(count for count, _ in shares) or 1
    for count, color in shares:
        if count:
            yield (
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{width * count / total:.1f}" height="{height}" fill="{color}"/>'
            )
            x += width * count / total


def _legend() -> Iterator[str]:
    x = 12
    for color, text in LEGEND:
        yield f'<rect x="{x}" y="75" width="10" height="10" fill="{color}"/>'
        yield f'<text class="small" x="{x + 14}" y="84">{text}</text>'
        x += 40 + 7 * len(text)


def _row(each: FunctionCoverage, y: float, most: int) -> Iterator[str]:
    """The longest bar is the function with the most launches."""
    room = WIDTH - LABELS - NUMBERS
    why = "; ".join(each.reasons())
    yield f"<g><title>{escape(each.name)}{': ' + escape(why) if why else ''}</title>"
    yield f'<text class="small" x="12" y="{y + 11}">{escape(short(each.name, NAME))}</text>'
    yield f'<rect x="{LABELS}" y="{y}" width="{room}" height="{BAR}" fill="{EMPTY}"/>'
    yield from _bar(LABELS, y, room * each.launches / most, BAR, _shares([each]))
    numbers = f"{each.known_launches:,} / {each.launches:,}"
    yield f'<text class="small" x="{WIDTH - NUMBERS + 8}" y="{y + 11}">{numbers}</text></g>'
