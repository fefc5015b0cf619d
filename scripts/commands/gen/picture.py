"""docs/two_gpus.svg and docs/two_gpus_dark.svg, the README's picture: a program on one GPU and on two.

scripts/gen picture [--check]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.commands.dispatch import parser_of

DOCS = Path(__file__).resolve().parents[3] / "docs"
STEPS, BRANCH, JOIN, GAP = 3, 92, 16, 3  # a step's branches and join, and what passes before other GPUs go on
LEFT, TOP, HEIGHT, ROW = 92, 46, 34, 44
WIDTH, BELOW = 780, 56
FONT = "font-family=\"system-ui,'Segoe UI',Helvetica,Arial,sans-serif\""


@dataclass(frozen=True, slots=True)
class Theme:
    text: str
    quiet: str
    first: str
    second: str
    join: str
    on_box: str


THEMES = {
    "two_gpus.svg": Theme("#1f2328", "#656d76", "#4c8dd6", "#e0913c", "#6b7480", "#ffffff"),
    "two_gpus_dark.svg": Theme("#e6edf3", "#9198a1", "#3f7fc8", "#c97a28", "#7d8590", "#ffffff"),
}


@dataclass(frozen=True, slots=True)
class Box:
    row: int
    start: int
    length: int
    kind: str  # a field of Theme
    step: int


def one_gpu() -> Iterator[Box]:
    at = 0
    for step in range(STEPS):
        for kind, length in (("first", BRANCH), ("second", BRANCH), ("join", JOIN)):
            yield Box(0, at, length - GAP, kind, step)
            at += length


def two_gpus() -> Iterator[Box]:
    at = 0
    for step in range(STEPS):
        yield Box(1, at, BRANCH - GAP, "first", step)
        yield Box(2, at + GAP, BRANCH - GAP, "second", step)
        yield Box(1, at + BRANCH + GAP, JOIN - GAP, "join", step)
        at += BRANCH + GAP + JOIN


def top_of(row: int) -> int:
    return TOP + row * ROW + (18 if row else 0)


def box(each: Box, theme: Theme) -> str:
    x, y = LEFT + each.start, top_of(each.row)
    colour = getattr(theme, each.kind)
    drawn = f'<rect x="{x}" y="{y}" width="{each.length}" height="{HEIGHT}" rx="4" fill="{colour}"/>'
    if each.kind == "join":
        return drawn
    middle = x + each.length // 2
    label = f"{'left' if each.kind == 'first' else 'right'} {each.step + 1}"
    place = f'x="{middle}" y="{y + 22}" text-anchor="middle" font-size="13"'
    return f'{drawn}<text {place} fill="{theme.on_box}">{label}</text>'


def arrows(boxes: Sequence[Box], theme: Theme) -> Iterator[str]:
    """To GPU 1 what a step begins from, and back what the join reads: the bytes that have to move."""
    for each in boxes:
        if each.row == 2:
            down, up = LEFT + each.start - 1, LEFT + each.start + each.length + 4
            for x, y, to in ((down, top_of(1) + HEIGHT, top_of(2)), (up, top_of(2), top_of(1) + HEIGHT)):
                turn = 4 if to > y else -4
                tip = f"M{x - 3},{to - turn} L{x},{to} L{x + 3},{to - turn}"
                yield f'<path d="M{x},{y} L{x},{to} {tip}" fill="none" stroke="{theme.quiet}" stroke-width="1.3"/>'


def end(boxes: Sequence[Box], text: str, theme: Theme) -> str:
    last = LEFT + max(each.start + each.length for each in boxes) + 5
    top, bottom = top_of(boxes[0].row) - 6, top_of(max(each.row for each in boxes)) + HEIGHT + 6
    line = f'<path d="M{last},{top} L{last},{bottom}" stroke="{theme.text}" stroke-width="1.5" stroke-dasharray="4 3"/>'
    label = f'<text x="{last + 6}" y="{(top + bottom) // 2 + 5}" font-size="13" fill="{theme.text}">{text}</text>'
    return line + label


def draw(theme: Theme) -> str:
    alone, shared = list(one_gpu()), list(two_gpus())
    height = top_of(2) + HEIGHT + BELOW
    names = {0: "GPU 0", 1: "GPU 0", 2: "GPU 1"}
    parts = [
        f'<text x="12" y="{top_of(row) + 22}" font-size="13" fill="{theme.text}">{name}</text>'
        for row, name in names.items()
    ]
    parts += [box(each, theme) for each in [*alone, *shared]]
    parts += arrows(shared, theme)
    parts += [end(alone, "as written", theme), end(shared, "under Tessera, unchanged", theme)]
    title = "One thread and one stream launch two branches in each step, and join them"
    note = "Launches go where their data is; only the bytes that another GPU's launch reads are copied (arrows)."
    parts.append(f'<text x="12" y="24" font-size="14" font-weight="600" fill="{theme.text}">{title}</text>')
    parts.append(f'<text x="12" y="{height - 20}" font-size="12.5" fill="{theme.quiet}">{note}</text>')
    sizes = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {sizes} {FONT}>{"".join(parts)}</svg>\n'


def main(words: Sequence[str]) -> int:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("--check", action="store_true", help="only compare")
    check = parser.parse_args(words).check
    drawn = {DOCS / name: draw(theme) for name, theme in THEMES.items()}
    if check:
        return 0 if all(file.is_file() and file.read_text() == text for file, text in drawn.items()) else 1
    for file, text in drawn.items():
        file.write_text(text)
    return 0
