"""Builds the end-to-end programs and runs them on this machine's own GPUs, to confirm the values they expect.

    scripts/hardware e2e-native [--build DIR] [--json FILE] [--jobs N] [NAME...]

Needs nvcc (on PATH or from PyPI), the NVIDIA driver and its runtime: no part of Tessera takes part. Prints one line per
program; exit status 0 when every program that has enough GPUs passed.
"""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from scripts.commands.dispatch import parser_of
from tests.e2e.build import Builder, BuildError, Program, find_toolkit, programs

ROOT = Path(__file__).resolve().parents[3]
DEFAULT_BUILD = ROOT / "build" / "e2e-native"


def device_count() -> int:
    """GPUs that the driver lists."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return 0
    done = subprocess.run([tool, "--list-gpus"], text=True, capture_output=True, timeout=60)
    return len(done.stdout.splitlines()) if done.returncode == 0 else 0


def run(executable: Path, library_path: str) -> tuple[str, str]:
    """Verdict and what the program said."""
    environment = dict(os.environ)
    environment["LD_LIBRARY_PATH"] = os.pathsep.join([library_path, environment.get("LD_LIBRARY_PATH", "")])
    try:
        done = subprocess.run([executable], text=True, capture_output=True, env=environment, timeout=120)
    except subprocess.TimeoutExpired:
        return "TIMEOUT", ""
    said = (done.stderr + done.stdout).strip()
    return ("PASS" if done.returncode == 0 and "PASS (" in done.stdout else f"FAIL {done.returncode}"), said


def judge(program: Program, built: Path | BuildError, devices: int, library_path: str) -> dict[str, str | float]:
    started = time.monotonic()
    if isinstance(built, BuildError):
        verdict, said = "NOT BUILT", str(built)
    elif program.devices > devices:
        verdict, said = "SKIPPED", f"needs {program.devices} GPUs, there are {devices}"
    else:
        verdict, said = run(built, library_path)
    seconds = round(time.monotonic() - started, 3)
    return {"program": program.name, "verdict": verdict, "seconds": seconds, "said": said}


def main(words: Sequence[str]) -> int:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("--build", type=Path, default=DEFAULT_BUILD, metavar="DIR")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N")
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args(words)
    wanted = [program for program in programs() if not arguments.names or program.name in arguments.names]
    toolkit = find_toolkit()
    if toolkit.runtime12 is None:
        print("without the programs for runtime 12: the wheel nvidia-cuda-runtime-cu12 is not here")
        wanted = [program for program in wanted if program.runtime != 12]
    built = Builder(toolkit, arguments.build).build_all(wanted, arguments.jobs)
    devices = device_count()
    results = [judge(program, built[program.name], devices, toolkit.library_path) for program in wanted]
    for result in results:
        print(f"{result['verdict']:10} {result['program']:28} {result['seconds']:8.3f} s  {result['said']}")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")
    passed = sum(result["verdict"] == "PASS" for result in results)
    skipped = sum(result["verdict"] == "SKIPPED" for result in results)
    print(f"{passed} passed, {len(results) - passed - skipped} failed, {skipped} skipped, on {devices} GPUs")
    return 0 if passed + skipped == len(results) and passed else 1
