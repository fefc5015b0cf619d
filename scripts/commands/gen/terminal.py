"""docs/top.svg: what `tessera top` shows of an example, as textual draws it.

scripts/gen terminal [--check]
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from controlplane.live.app import Top
from controlplane.live.runs import Device, Kernel, Run
from controlplane.policy.table import Copies, Launches, RuleUse, Schedule
from scripts.commands.dispatch import parser_of

FILE = Path(__file__).resolve().parents[3] / "docs" / "top.svg"
SIZE = 112, 22
FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)  # of another server: whoever reads has fonts
GPU, SECOND_NS = "NVIDIA H200", 10**9
COPIES = Copies(
    bytes={1: 14_200_000_000},
    pulls={0: 310, 1: 655},
    pulled_bytes={0: 1_300_000_000, 1: 16_900_000_000},
    pulled_for={"launch": 3_900_000_000, "constant": 14_300_000_000},
    needed_bytes=18_200_000_000,
    brought_home=0,
    brought_home_bytes=0,
    waits=0,
    ties=310,
    cells=90,
    directory_bytes=9_000,
    through_host_bytes={},
    pairs=(),
)
SCHEDULE = Schedule(82_160, 120, 410, 150, 148, 38 * SECOND_NS, 69 * SECOND_NS, 38 * SECOND_NS, 300)
SERVED = Launches({0: 41_200, 1: 40_960}, 240, {"ranges": 200, "capture": 40}, shared=COPIES, schedule=SCHEDULE)
TRAINED = Launches({0: 510, 1: 9_240}, 0, {}, rules=(RuleUse(4, 9_240), RuleUse(5, 0, ("softmax",))))
DEVICES = (
    Device(0, GPU, 41_200, 310_000_000, 9_400_000_000),
    Device(1, GPU, 40_960, 305_000_000, 9_100_000_000),
)
KERNELS = (Kernel(0, "_Z9attentionPfS_S_", 20_600, 201_000_000), Kernel(1, "_Z9attentionPfS_S_", 20_480, 199_000_000))
NOW = (
    Run(4711, "python serve.py --threads 4", 75.0, 340_000_000, DEVICES, KERNELS, SERVED),
    Run(5120, "./train --epochs 3", 12.0, None, (Device(0, GPU, 510), Device(1, GPU, 9_240)), (), TRAINED),
)
BEFORE = tuple(
    replace(
        run,
        virtual_ns=run.virtual_ns and run.virtual_ns - 4_000_000,
        devices=tuple(
            replace(
                each,
                launches=each.launches and round(0.988 * each.launches),
                busy_ns=each.busy_ns and round(0.989 * each.busy_ns),
            )
            for each in run.devices
        ),
    )
    for run in NOW
)


async def draw() -> str:
    looks, seconds = iter((BEFORE, NOW)), iter((0.0, 1.0))
    app = Top(lambda: next(looks), 3600.0, lambda: next(seconds))
    async with app.run_test(size=SIZE):
        await app.update()
        return FONTS.sub("", app.export_screenshot())


def main(words: Sequence[str]) -> int:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("--check", action="store_true", help="only compare")
    wanted = asyncio.run(draw())
    if parser.parse_args(words).check:
        return 0 if FILE.is_file() and FILE.read_text() == wanted else 1
    FILE.write_text(wanted)
    return 0
