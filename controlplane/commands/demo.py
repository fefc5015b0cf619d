"""`tessera demo`: a program on one emulated GPU, and the same program on several, in virtual time.

Nothing of it stays: what the analysis learns of the program's kernels is kept in a folder of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from controlplane.base.screen import show
from controlplane.base.tables import Part, columns, duration
from controlplane.demo import branches
from ptxtools.errors import ConfigError, InternalError

MOST_GPUS = 8
LEAST_GAIN = 1.2
MOST_TURNS = 3
SEVERAL = "--gpus", "all"
PROGRAM = Path(branches.__file__)
TIMEOUT_S = 120


class RunJson(TypedDict):
    """A run of the demo's program. launches: on each GPU; virtual_ns: by the emulated GPUs' clock."""

    launches: list[int]
    virtual_ns: int
    result: str


class DemoJson(TypedDict):
    """What a second GPU gives a program. alone: all of it on one GPU; placed: on several. gain: how many times as early
    the second is done; is_same: whether both have the same result.
    """

    program: str
    gpus: int
    alone: RunJson
    placed: RunJson
    gain: float
    is_same: bool


@dataclass(frozen=True, slots=True)
class Ran:
    """virtual_ns: by the emulated GPUs' clock. result: what the program printed."""

    virtual_ns: int
    launches: tuple[int, ...]  # on each GPU
    result: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--gpus", type=int, default=2, metavar="N", help="how many GPUs to emulate (default: 2)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--show", action="store_true", help="print the program instead, to try things with it")


def run(options: argparse.Namespace) -> int:
    if options.show:
        print(PROGRAM.read_text(), end="")
        return 0
    if not 2 <= options.gpus <= MOST_GPUS:
        raise ConfigError(f"--gpus {options.gpus} is not usable here", expected=f"from 2 to {MOST_GPUS}")
    if not options.json:
        print(_about(), flush=True)
    alone, placed = _both(options.gpus)
    if options.json:
        print(json.dumps(_json(alone, placed, options.gpus), indent=2))
    else:
        show(_compared(alone, placed, options.gpus))
    if placed.result != alone.result:
        raise InternalError("the results differ: please report this")
    return 0 if _is_faster(placed, alone) else 1


def _about() -> str:
    return (
        f"A program of one thread and one stream: {branches.STEPS} steps, in each two branches of {branches.LAUNCHES} "
        f"launches and a join.\nIt was written for one GPU:\n\n  {PROGRAM}\n"
    )


def _both(gpus: int) -> tuple[Ran, Ran]:
    """On one GPU, and placed on several."""
    with tempfile.TemporaryDirectory(prefix="tessera-demo-") as place:
        with ThreadPoolExecutor(1) as beside:  # a step of it is enough to learn what its kernels read and write
            learnt = beside.submit(_ran, Path(place, "learn"), gpus, *SEVERAL, steps=1)
            alone = _ran(Path(place, "alone"), gpus)
            learnt.result()
        for _ in range(MOST_TURNS):  # on a busy machine it may not learn all at once
            placed = _ran(Path(place, "placed"), gpus, *SEVERAL)
            if _is_faster(placed, alone):
                break
    return alone, placed


def _is_faster(placed: Ran, alone: Ran) -> bool:
    return alone.virtual_ns > LEAST_GAIN * placed.virtual_ns


def _ran(report: Path, gpus: int, *words: str, steps: int = branches.STEPS) -> Ran:
    """report: a file that is written; what is learnt is kept beside it."""
    command = [sys.executable, "-P", "-m", "controlplane.commands.run", "--emulate", str(gpus), "--no-summary"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(report.parent / "cache")}
    environment.pop("CUDA_VISIBLE_DEVICES", None)
    done = subprocess.run(
        [*command, "--json", str(report), *words, "--", sys.executable, str(PROGRAM), str(steps)],
        env=environment,
        text=True,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise InternalError(f"the program ended with {done.returncode}; `tessera doctor` may say why:\n{done.stderr}")
    found = json.loads(report.read_text())
    return Ran(found["virtual_ns"], tuple(gpu["launches"] for gpu in found["devices"]), done.stdout.strip())


def _json(alone: Ran, placed: Ran, gpus: int) -> DemoJson:
    def of(ran: Ran) -> RunJson:
        return {"launches": list(ran.launches), "virtual_ns": ran.virtual_ns, "result": ran.result}

    return {
        "program": str(PROGRAM),
        "gpus": gpus,
        "alone": of(alone),
        "placed": of(placed),
        "gain": alone.virtual_ns / placed.virtual_ns,
        "is_same": placed.result == alone.result,
    }


def _compared(alone: Ran, placed: Ran, gpus: int) -> list[Part]:
    def row(ran: Ran, command: str) -> tuple[str, ...]:
        return (command, " + ".join(map(str, ran.launches)), duration(ran.virtual_ns), ran.result)

    gain = alone.virtual_ns / placed.virtual_ns
    same = "with the same result" if placed.result == alone.result else "but with ANOTHER RESULT"
    rows = [
        ("command", "launches by GPU", "virtual time", "result"),
        row(alone, f"tessera run --emulate {gpus} -- python branches.py"),
        row(placed, f"tessera run --emulate {gpus} --gpus all -- python branches.py"),
    ]
    return [
        *columns(rows, right=(2,)),
        "",
        f"On {gpus} emulated H200s it is done {gain:.2f} times as early, {same}. Virtual time is what these GPUs would",
        "have needed; launches are placed by what they read and write, which an earlier run has found out.",
    ]
