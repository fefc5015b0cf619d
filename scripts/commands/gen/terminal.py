"""docs/top.svg: a terminal with what `tessera top` shows, of an example.

scripts/gen terminal [--check]
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from pathlib import Path

from controlplane.base.screen import BOLD, DIM, PLAIN, YELLOW, styled
from controlplane.live.runs import Device, Kernel, Run
from controlplane.live.view import lines
from controlplane.policy import Launches
from controlplane.policy.table import RuleUse
from scripts.commands.dispatch import parser_of

FILE = Path(__file__).resolve().parents[3] / "docs" / "top.svg"
WIDTH, LINE, LETTER, EDGE = 104, 18, 7.83, 16
STYLES = {BOLD: 'font-weight="700"', DIM: 'opacity="0.6"', YELLOW: 'fill="#e3b341"'}
STYLED = re.compile(f"({'|'.join(map(re.escape, STYLES))})(.*?){re.escape(PLAIN)}")
COUNTED = Launches(
    {0: 41_200, 1: 40_960},
    240,
    {"ranges": 200, "capture": 40},
    rules=(RuleUse(4, 40_960), RuleUse(5, 0)),
)
DEVICES = (
    Device(0, "NVIDIA H200", 41_200, 310_000_000, 9_400_000_000),
    Device(1, "NVIDIA H200", 40_960, 305_000_000, 9_100_000_000),
)
KERNELS = (Kernel(0, "_Z9attentionPfS_S_", 20_600, 201_000_000), Kernel(1, "_Z9attentionPfS_S_", 20_480, 199_000_000))
NOW = Run(4711, "python serve.py --threads 4", 75.0, 340_000_000, DEVICES, KERNELS, COUNTED)
BEFORE = replace(
    NOW,
    virtual_ns=336_000_000,
    devices=(
        replace(DEVICES[0], launches=40_700, busy_ns=306_280_000),
        replace(DEVICES[1], launches=40_470, busy_ns=301_360_000),
    ),
)


def _text(line: str) -> str:
    """A line with what stands out in it as SVG."""
    parts, at = [], 0
    for found in STYLED.finditer(line):
        parts += [escape(line[at : found.start()]), f"<tspan {STYLES[found[1]]}>{escape(found[2])}</tspan>"]
        at = found.end()
    return "".join([*parts, escape(line[at:])])


def draw() -> str:
    shown = ["$ tessera top", "", *lines([NOW], {NOW.pid: BEFORE}, 1.0)]
    width, height = EDGE * 2 + round(WIDTH * LETTER), EDGE * 2 + LINE * len(shown)
    texts = "".join(
        f'<text x="{EDGE}" y="{EDGE + LINE * number + 13}" xml:space="preserve">{_text(styled(line[:WIDTH]))}</text>'
        for number, line in enumerate(shown)
    )
    font = 'font-family="ui-monospace,\'DejaVu Sans Mono\',Menlo,Consolas,monospace" font-size="13" fill="#e6edf3"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
        f'<rect width="100%" height="100%" rx="8" fill="#0d1117"/><g {font}>{texts}</g></svg>\n'
    )


def main(words: Sequence[str]) -> int:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("--check", action="store_true", help="only compare")
    wanted = draw()
    if parser.parse_args(words).check:
        return 0 if FILE.is_file() and FILE.read_text() == wanted else 1
    FILE.write_text(wanted)
    return 0
