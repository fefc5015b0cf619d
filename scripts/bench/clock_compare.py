#!/usr/bin/env python3
"""The virtual clock against hardware: durations of kernels, copies and a pipeline over two devices, by events.

    scripts/bench/clock_compare.py [--emulate SPEC] [--json]      measure here: on this machine's GPUs, or emulated
    scripts/bench/clock_compare.py --compare HARDWARE.json EMULATED.json [--json]

Measuring needs a C compiler and nvcc, or --ptx with the kernels compiled before. The comparison fails unless every
memory-bound duration and the pipeline's gain from overlapping are within 25 %; everything else is only reported.
clock_h200.json beside this script is such a measurement: two NVIDIA H200, driver 580.
"""

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

BENCH = Path(__file__).resolve().parent
TOLERANCE = 0.25


@dataclass(frozen=True, slots=True)
class Verdict:
    ratios: dict[str, float]  # emulated / hardware
    missing: list[str]
    memory_bound_outside: list[str]
    overlap_gains: list[float]  # hardware, emulated
    passed: bool


def cuda_include() -> Path:
    """The directory of cuda.h."""
    spec = importlib.util.find_spec("nvidia")
    places = [Path(location, "cu13", "include") for location in (spec.submodule_search_locations or [])] if spec else []
    nvcc = shutil.which("nvcc")
    if nvcc:
        places.append(Path(nvcc).resolve().parent.parent / "include")
    places.append(Path("/usr/local/cuda/include"))
    for place in places:
        if (place / "cuda.h").exists():
            return place
    sys.exit("cuda.h not found: pip install 'nvidia-cuda-runtime>=13.0'")


def build(directory: Path, ptx: Path | None) -> list[str]:
    """The program and its module."""
    program = directory / "clock_host"
    compiler = os.environ.get("CC", "gcc")
    source = BENCH / "clock_host.c"
    subprocess.run([compiler, "-O1", f"-I{cuda_include()}", "-o", str(program), str(source), "-ldl"], check=True)
    if ptx is None:
        ptx = directory / "clock.ptx"
        kernels = BENCH / "clock_kernels.cu"
        subprocess.run(["nvcc", "-ptx", "-O3", "-arch=compute_80", "-o", str(ptx), str(kernels)], check=True)
    return [str(program), str(ptx)]


def measure(emulate: str | None, ptx: Path | None, repeats: int) -> dict[str, dict[str, float | str]]:
    """Name to class, bytes and nanoseconds."""
    with tempfile.TemporaryDirectory() as directory:
        command = [*build(Path(directory), ptx), str(repeats)]
        if emulate is not None:
            command = ["tessera-run", "--no-summary", "--emulate", emulate, "--", *command]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    result: dict[str, dict[str, float | str]] = {}
    for line in output.splitlines():
        kind, name, moved, ns = line.split()
        result[name] = {"class": kind, "bytes": int(moved), "ns": float(ns)}
    return result


def compare(hardware: dict[str, dict[str, float | str]], emulated: dict[str, dict[str, float | str]]) -> Verdict:
    """Ratios emulated / hardware, and whether what must agree does."""
    ratios = {
        name: float(emulated[name]["ns"]) / float(row["ns"]) for name, row in hardware.items() if name in emulated
    }
    missing = sorted(set(hardware) ^ set(emulated))
    bad = [name for name, ratio in ratios.items() if hardware[name]["class"] == "memory" and abs(ratio - 1) > TOLERANCE]
    gains = [
        float(rows["one_after_the_other"]["ns"]) / float(rows["overlapped"]["ns"])
        for rows in (hardware, emulated)
        if "overlapped" in rows
    ]
    overlap_agrees = len(gains) == 2 and abs(gains[1] / gains[0] - 1) <= TOLERANCE
    return Verdict(ratios, missing, bad, gains, not bad and overlap_agrees and not missing)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--emulate", metavar="SPEC")
    parser.add_argument("--ptx", type=Path)
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("HARDWARE", "EMULATED"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.compare:
        hardware, emulated = (json.loads(path.read_text()) for path in options.compare)
        verdict = compare(hardware, emulated)
        if options.json:
            print(json.dumps(asdict(verdict)))
        else:
            print(f"{'class':10}{'name':22}{'hardware us':>13}{'emulated us':>13}{'ratio':>8}")
            for name, row in hardware.items():
                if name in emulated:
                    ours, theirs = float(emulated[name]["ns"]) / 1e3, float(row["ns"]) / 1e3
                    print(f"{row['class']:10}{name:22}{theirs:13.2f}{ours:13.2f}{ours / theirs:8.2f}")
            print(f"memory-bound outside {TOLERANCE:.0%}: {verdict.memory_bound_outside or 'none'}")
            print("gain from overlapping, hardware and emulated:", *(f"{gain:.2f}" for gain in verdict.overlap_gains))
        return 0 if verdict.passed else 1
    repeats = options.repeats or (1 if options.emulate else 20)
    rows = measure(options.emulate, options.ptx, repeats)
    if options.json:
        print(json.dumps(rows))
    else:
        for name, row in rows.items():
            print(f"{row['class']:10}{name:22}{float(row['ns']) / 1e3:13.2f} us")
    return 0


if __name__ == "__main__":
    sys.exit(main())
