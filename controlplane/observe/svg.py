"""A window of a timeline as a picture: a row per track, a box per slice, with its name where there is room.

The names that take the most time in the window have a colour each, listed at the foot; all others are grey.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from html import escape

from controlplane.base.demangle import short
from controlplane.base.tables import duration
from controlplane.observe.timeline import Slice, Timeline, Track

WIDTH, LABELS, ROW, BAR, HEAD = 1400, 190, 22, 16, 46
CHARACTER = 6.2  # width of a character of the small type
MOST_FLOWS = 150
SMALLEST = 0.4  # boxes that are narrower and touch are drawn as one
LEGEND_COLUMNS, LEGEND_ROW = 2, 16
PALETTE = (
    *("#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#76b7b2", "#edc948"),
    *("#e15759", "#9c755f", "#d37295", "#2f4b7c", "#a0cbe8", "#8cd17d"),
)
OTHERS = "#bab0ac"
STYLE = (
    "text{font:11px ui-sans-serif,system-ui,sans-serif;fill:#222}.small{font-size:10px}"
    ".group{font-weight:600;paint-order:stroke;stroke:#fff;stroke-width:4px}"
    ".inside{fill:#fff;font-size:10px;pointer-events:none}.row{fill:#f5f6f8}.grid{stroke:#d5d8dd;stroke-width:1}"
    ".launch{stroke:#8a8f98;stroke-width:.6;opacity:.6}.event{stroke:#e15759;stroke-width:.8;stroke-dasharray:3 2}"
)


def draw(timeline: Timeline, begin_ns: int, end_ns: int) -> str:
    """The picture of what lies between these times after the origin."""
    rows = list(_rows(timeline))
    colors = _colors(rows, begin_ns, end_ns)
    foot = HEAD + len(rows) * ROW + 14
    height = foot + -(-len(colors) // LEGEND_COLUMNS) * LEGEND_ROW + 8
    scale = (WIDTH - LABELS - 12) / max(end_ns - begin_ns, 1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}">',
        f"<style>{STYLE}</style>",
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        *_axis(begin_ns, end_ns, scale, foot),
    ]
    tops: dict[int, int] = {}  # of tracks, by identity
    headings = []  # in front of lines, which long ones reach
    for place, row in enumerate(rows):
        top = HEAD + place * ROW
        tops[id(row)] = top
        if isinstance(row, str):
            headings.append(f'<text class="group" x="8" y="{top + 15}">{escape(row)}</text>')
        else:
            parts += _track(row, top, (begin_ns, end_ns), scale, colors)
    parts += _flows(timeline, tops, begin_ns, end_ns, scale)
    parts += headings
    parts += _legend(colors, foot)
    return "\n".join([*parts, "</svg>", ""])


def _colors(rows: list[str | Track], begin_ns: int, end_ns: int) -> dict[str, str]:
    """Name to colour, of those that take the most time between these times, the most first."""
    times: Counter[str] = Counter()
    for row in rows:
        if not isinstance(row, str):
            for slice_ in row.slices:
                times[slice_.name] += max(0, min(slice_.end_ns, end_ns) - max(slice_.start_ns, begin_ns))
    most = [name for name, ns in times.most_common(len(PALETTE)) if ns > 0]
    return dict(zip(most, PALETTE, strict=False))


def _legend(colors: Mapping[str, str], foot: int) -> Iterator[str]:
    rows = -(-len(colors) // LEGEND_COLUMNS)
    width = (WIDTH - 24) // LEGEND_COLUMNS
    for place, (name, color) in enumerate(colors.items()):
        x, y = 12 + place // rows * width, foot + place % rows * LEGEND_ROW
        yield f'<rect x="{x}" y="{y}" width="10" height="10" fill="{color}" rx="1.5"/>'
        text = escape(short(name, int((width - 24) / CHARACTER)))
        yield f'<text class="small" x="{x + 16}" y="{y + 9}">{text}</text>'


def _flows(timeline: Timeline, tops: dict[int, int], begin_ns: int, end_ns: int, scale: float) -> Iterator[str]:
    """Lines from calls to what they enqueued, and from events to waits; none where they would be a thicket."""
    inside = [
        flow
        for flow in timeline.flows
        if begin_ns <= flow.source[1].start_ns <= end_ns and begin_ns <= flow.target[1].start_ns <= end_ns
    ]
    if len(inside) > MOST_FLOWS:
        return
    for flow in inside:
        (source, call), (target, slice_) = flow.source, flow.target
        x1, x2 = (LABELS + (one.start_ns - begin_ns) * scale for one in (call, slice_))
        y1, y2 = tops[id(source)] + BAR // 2 + 2, tops[id(target)] + BAR // 2 + 2
        yield f'<line class="{flow.name}" x1="{x1:.1f}" y1="{y1}" x2="{x2:.1f}" y2="{y2}"/>'


def _rows(timeline: Timeline) -> Iterator[str | Track]:
    """Headings and tracks from top to bottom; a group without tracks is left out."""
    for group in timeline.groups:
        if group.tracks:
            yield group.name
            yield from group.tracks


def _axis(begin_ns: int, end_ns: int, scale: float, height: int) -> Iterator[str]:
    step = _step(end_ns - begin_ns)
    for ns in range(-(-begin_ns // step) * step, end_ns + 1, step):
        x = LABELS + (ns - begin_ns) * scale
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="34" y2="{height - 8}"/>'
        anchor = "end" if x > WIDTH - 30 else "middle"
        yield f'<text class="small" x="{x:.1f}" y="28" text-anchor="{anchor}">{_mark(ns, step)}</text>'
    yield f'<text class="small" x="8" y="28">{escape(duration(end_ns - begin_ns))} shown</text>'


def _step(span_ns: int) -> int:
    """A round distance of marks, about ten of them."""
    step = 1
    while True:
        for factor in (1, 2, 5):
            if step * factor * 12 >= span_ns:
                return step * factor
        step *= 10


def _mark(ns: int, step: int) -> str:
    """A time with as many digits as tell it from the marks beside it."""
    unit, size = ("ms", 10**6) if step >= 10**4 else ("us", 10**3) if step >= 10 else ("ns", 1)
    digits = next(count for count in range(4) if step * 10**count % size == 0)
    return f"{ns / size:.{digits}f} {unit}"


def _track(track: Track, top: int, window: tuple[int, int], scale: float, colors: Mapping[str, str]) -> Iterator[str]:
    begin_ns, end_ns = window
    inner = WIDTH - LABELS - 12
    yield f'<rect class="row" x="{LABELS}" y="{top}" width="{inner}" height="{ROW - 2}"/>'
    yield f'<text class="small" x="20" y="{top + 14}">{escape(_cut(track.name, (LABELS - 24) / CHARACTER))}</text>'
    drawn_to = 0.0
    for slice_ in track.slices:
        if slice_.end_ns < begin_ns or slice_.start_ns > end_ns:
            continue
        left = LABELS + (max(slice_.start_ns, begin_ns) - begin_ns) * scale
        right = LABELS + (min(slice_.end_ns, end_ns) - begin_ns) * scale
        if right - left < SMALLEST and right < drawn_to + SMALLEST:
            continue
        drawn_to = right
        yield from _box(slice_, left, max(right - left, SMALLEST), top + 2, colors.get(slice_.name, OTHERS))


def _box(slice_: Slice, left: float, width: float, top: int, color: str) -> Iterator[str]:
    took = duration(slice_.end_ns - slice_.start_ns)
    title = escape(f"{slice_.name}: {took}")
    box = f'<rect x="{left:.2f}" y="{top}" width="{width:.2f}" height="{BAR}" fill="{color}" rx="1.5">'
    yield f"{box}<title>{title}</title></rect>"
    room = int((width - 6) / CHARACTER)
    if room >= 4:
        yield f'<text class="inside" x="{left + 3:.2f}" y="{top + 12}">{escape(short(slice_.name, room))}</text>'


def _cut(text: str, room: float) -> str:
    return text if len(text) <= room else text[: int(room) - 1] + "…"
