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
from dataclasses import dataclass
from pathlib import Path

from controlplane.base.tables import duration, table
from controlplane.demo import branches
from ptxtools.errors import ConfigError, InternalError

MOST_GPUS = 8
LEAST_GAIN = 1.2
MOST_TURNS = 4
PROGRAM = Path(branches.__file__)
TIMEOUT_S = 120


@dataclass(frozen=True, slots=True)
class Ran:
    """virtual_ns: by the emulated GPUs' clock. result: what the program printed."""

    virtual_ns: int
    launches: tuple[int, ...]  # on each GPU
    result: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--gpus", type=int, default=2, metavar="N", help="how many GPUs to emulate (default: 2)")
    parser.add_argument("--show", action="store_true", help="print the program instead, to try things with it")


def run(options: argparse.Namespace) -> int:
    if options.show:
        print(PROGRAM.read_text(), end="")
        return 0
    if not 2 <= options.gpus <= MOST_GPUS:
        raise ConfigError(f"--gpus {options.gpus} is not usable here", expected=f"from 2 to {MOST_GPUS}")
    print(
        f"A program of one thread and one stream: {branches.STEPS} steps, in each two branches of {branches.LAUNCHES} "
        f"launches and a join.\nIt was written for one GPU:\n\n  {PROGRAM}\n",
        flush=True,
    )
    with tempfile.TemporaryDirectory(prefix="tessera-demo-") as place:
        alone = _ran(Path(place), options.gpus)
        placed = _ran(Path(place), options.gpus, "--gpus", "all")  # learns what its kernels read and write
        turns = 1
        while not _is_faster(placed, alone) and turns < MOST_TURNS:  # on a busy machine it may not learn all at once
            placed = _ran(Path(place), options.gpus, "--gpus", "all")
            turns += 1
    print("\n".join(_told(alone, placed, options.gpus)))
    if placed.result != alone.result:
        raise InternalError("the results differ: please report this")
    return 0 if _is_faster(placed, alone) else 1


def _is_faster(placed: Ran, alone: Ran) -> bool:
    return alone.virtual_ns > LEAST_GAIN * placed.virtual_ns


def _ran(place: Path, gpus: int, *words: str) -> Ran:
    report = place / "report.json"
    command = [sys.executable, "-P", "-m", "controlplane.commands.run", "--emulate", str(gpus), "--no-summary"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(place / "cache")}
    environment.pop("CUDA_VISIBLE_DEVICES", None)
    done = subprocess.run(
        [*command, "--json", str(report), *words, "--", sys.executable, str(PROGRAM)],
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


def _told(alone: Ran, placed: Ran, gpus: int) -> list[str]:
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
        *table(rows, right=(2,)),
        "",
        f"On {gpus} emulated H200s it is done {gain:.2f} times as early, {same}. Virtual time is what these GPUs would",
        "have needed; launches are placed by what they read and write, which an earlier run has found out.",
    ]
