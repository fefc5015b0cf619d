"""Runs of placed_trace.c on emulated GPUs, its launches placed or not: what a launch costs the thread that makes it."""

import re
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.bench.builds import Build

TRACE = Path(__file__).with_name("placed_trace.c")
STEP_NS = 7_000  # of each launch, by the machine; a layer of a real model
LAUNCHES = 14  # of a layer
SHIM = "shim/libcuda.so.1"


@dataclass(frozen=True, slots=True)
class Cost:
    """Of a launch; the median and the 99th percentile are of single launches, by the clock."""

    build: str
    processor_ns: float
    median_ns: float
    p99_ns: float


@dataclass(frozen=True, slots=True)
class Bench:
    """program: placed_trace.c, compiled, and its words."""

    place: Path
    program: tuple[str, ...]
    gpus: int

    def run(
        self, build: Build, options: Sequence[str], around: Sequence[str] = (), **variables: str
    ) -> list[tuple[float, ...]]:
        machine = self.place / "machine.yaml"
        machine.write_text(
            f"devices:\n  - {{gpu: h200, count: {self.gpus}, launch_latency_ns: {STEP_NS}}}\nlink: nvlink4\n"
        )
        told = build.run([*around, *self.program], ["--emulate", str(machine), *options], **variables)
        return [tuple(map(float, line.split())) for line in told.splitlines()]

    def placed(self, build: Build, *options: str, deferred: bool = False) -> list[tuple[float, ...]]:
        """deferred: a thread of their own carries launches out, as on real GPUs."""
        return self.run(build, ["--gpus", "all", *options], TESSERA_DEFER=str(int(deferred)))

    def instructions(self, build: Build) -> float:
        """Per launch, in the library and what it calls, but for drivers."""
        out = self.place / "callgrind.out"
        valgrind = ("valgrind", "--tool=callgrind", "--toggle-collect=launch", f"--callgrind-out-file={out}")
        self.run(build, ["--gpus", "all"], (*valgrind, "-q"))
        told = subprocess.run(
            ["callgrind_annotate", "--threshold=100", str(out)], text=True, capture_output=True, check=True
        )
        counted = re.findall(rf"^ *([\d,]+) .*\[.*/{re.escape(SHIM)}\]$", told.stdout, re.MULTILINE)
        layers, _, requests, _ = map(int, self.program[1:])
        return sum(int(number.replace(",", "")) for number in counted) / (LAUNCHES * layers * requests)


def cost(name: str, rows: list[tuple[float, ...]]) -> Cost:
    return Cost(name, *(statistics.median(column) for column in zip(*rows, strict=True)))
