"""The figures that the documents give of real GPUs, measured again, the most wanted first, within a time.

    scripts/hardware figures FOLDER [--within SECONDS] [--list] [NAME...]

Builds the native parts with their tests if TESSERA_NATIVE does not name such a build, then runs the steps that --list
shows, one after the other, each for as long as it may take at most: what does not fit into the time that is left is not
begun, and says so. Each step's log and JSON go to FOLDER, and `figures.json` says how each ended. Exit status 0 when
all steps that were begun passed. Needs two GPUs, PyTorch and transformers; `pool` and `spill` also accelerate,
`pipeline` diffusers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from scripts.commands.dispatch import parser_of
from scripts.commands.hardware.all import HARDWARE, LAB, ROOT, listed_gpus
from tests.native_build import build_native

BENCH = ROOT / "scripts" / "bench"
MOST_S = 540
GRACE_S = 5  # from the request to end to the end
GPUS = 2


@dataclass(frozen=True, slots=True)
class Step:
    """words: the command; those of a benchmark or sub-command get `--json FILE` if they write one."""

    name: str
    words: tuple[str, ...]
    most_s: int
    writes_json: bool = True


@dataclass(frozen=True, slots=True)
class Ended:
    """result: passed, FAILED, too long, or not begun."""

    name: str
    result: str
    seconds: float


def bench(name: str, *words: str) -> tuple[str, ...]:
    return (sys.executable, str(BENCH / name), *words)


GRAPHS = ("captured-guidance", "captured-decode")
CANNOT_GAIN = ("decode", "training", "resnet-training", "fft", "jax-training")
STEPS = (
    Step("pool", bench("pool", "--captured", "--rounds", "3"), 240),
    Step("graphs", bench("automatic", *GRAPHS, "--units", "20", "--gpus", "2", "--rounds", "5"), 200),
    Step("pipeline", bench("automatic", "pipeline", "--units", "20", "--gpus", "2", "--rounds", "6"), 180),
    Step("serve-graphs", bench("serve", "--captured", "--threads", "4", "--rounds", "5"), 120),
    Step("unequal", bench("automatic", "requests", "--sm-limit", "48", "--rounds", "5"), 120),
    Step("automatic", bench("automatic", "requests", "guidance", "ensemble", "--gpus", "2", "--rounds", "5"), 200),
    Step("serve", bench("serve", "--threads", "4,8", "--rounds", "5"), 130),
    Step("serve-placed", bench("serve", "--gpus", "all", "--threads", "4", "--rounds", "4"), 100),
    Step("frameworks", (sys.executable, HARDWARE, "frameworks", "--policies", "2", "--memory", "copies"), 150),
    Step("contract", (sys.executable, HARDWARE, "contract", "--redirect", "0"), 60),
    Step("launch-path", bench("launch_path", "--threads", "1,8", "--rounds", "2"), 60),
    Step("copies", bench("copies", "--rounds", "2"), 45),
    Step("replay", bench("replay"), 45, writes_json=False),
    Step("faults", (sys.executable, LAB, "faults", "--real", "--runs", "40", "--jobs", "2"), 120),
    Step("cannot-gain", bench("automatic", *CANNOT_GAIN, "--gpus", "2", "--rounds", "5"), 240),
    Step("pool-small", bench("pool", "--layers", "8", "--rounds", "3", "--reserve", "130GiB"), 120),
    Step("spill", bench("spill"), 300),
)


def run(step: Step, folder: Path, left_s: float) -> Ended:
    if step.most_s > left_s:
        return Ended(step.name, "not begun", 0)
    words = [*step.words, *(("--json", str(folder / f"{step.name}.json")) if step.writes_json else ())]
    begun = time.monotonic()
    with (folder / f"{step.name}.log").open("w") as log:
        running = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)
        try:
            result = "FAILED" if running.wait(step.most_s) else "passed"
        except subprocess.TimeoutExpired:
            result = "too long"
            _end(running)
    return Ended(step.name, result, round(time.monotonic() - begun, 1))


def _end(running: subprocess.Popen[bytes]) -> None:
    """All of its process group."""
    for number in (15, 9):
        try:
            os.killpg(running.pid, number)
            running.wait(GRACE_S)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue


def main(words: Sequence[str]) -> int:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("folder", type=Path, nargs="?", metavar="FOLDER")
    parser.add_argument("names", nargs="*", metavar="NAME", help="steps; all by default")
    parser.add_argument("--within", type=int, default=MOST_S, metavar="SECONDS", help=f"default: {MOST_S}")
    parser.add_argument("--list", action="store_true", help="the steps, how long each may take, and their commands")
    options = parser.parse_intermixed_args(words)
    if options.list:
        for step in STEPS:
            print(f"{step.name:12} {step.most_s:4} s  {' '.join(step.words[1:]).replace(f'{ROOT}/', '')}")
        return 0
    unknown = sorted({*options.names} - {step.name for step in STEPS})
    if options.folder is None or unknown:
        parser.error(f"no such step: {', '.join(unknown)}; --list has them" if unknown else "FOLDER is missing")
    if listed_gpus() < GPUS:
        print(f"figures: needs {GPUS} GPUs", file=sys.stderr)
        return 2
    return measure(
        options.folder, [step for step in STEPS if not options.names or step.name in options.names], options.within
    )


def measure(folder: Path, steps: Sequence[Step], within_s: float) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + within_s
    work = Path(os.environ.get("TESSERA_BUILD") or ROOT / "build" / "figures")
    if not os.environ.get("TESSERA_NATIVE"):
        build_native(work)
        os.environ["TESSERA_NATIVE"] = str(work / "native")
    ended = []
    for step in steps:
        ended.append(run(step, folder, until - time.monotonic()))
        print(f"{step.name:12} {ended[-1].result:9} {ended[-1].seconds:6.1f} s", flush=True)
        (folder / "figures.json").write_text(json.dumps([asdict(each) for each in ended], indent=1) + "\n")
    return int(any(each.result in ("FAILED", "too long") for each in ended))
