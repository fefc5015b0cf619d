"""A native build to be timed, and programs that are run with it."""

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ptxtools import native
from scripts.bench.launch_overhead import cuda_include

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 600


@dataclass(frozen=True, slots=True)
class Build:
    """A native build (its directory as TESSERA_NATIVE has it) and the tree whose Python code fits it."""

    name: str
    natives: Path
    tree: Path

    def run(self, program: Sequence[str], options: Sequence[str] = (), **more: str) -> str:
        """What the program says under `tessera-run OPTIONS`. more: variables. Errors: CalledProcessError."""
        command = [sys.executable, "-m", "controlplane.commands.run", "--no-summary", *options, "--", *program]
        variables = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(self.tree), os.environ.get("PYTHONPATH", ""))),
            "TESSERA_NATIVE": str(self.natives),
            **more,
        }
        done = subprocess.run(
            command, env=variables, cwd=self.tree, text=True, stdout=subprocess.PIPE, check=True, timeout=TIMEOUT_S
        )
        return done.stdout


def this_build() -> Build:
    return Build("this", native.file("shim/libcuda.so.1").parents[1], ROOT)


def baseline_build(natives: Path) -> Build:
    """natives: TREE/build/native/native."""
    return Build("baseline", natives.resolve(), natives.resolve().parents[2])


def compiled(source: Path, place: Path) -> Path:
    """A program with threads that calls the driver. Needs a C compiler."""
    driver = native.file("emulator/libcuda.so.1")
    program = place / source.stem
    command = [os.environ.get("CC", "cc"), "-O2", "-pthread", "-isystem", cuda_include(), str(source), str(driver)]
    subprocess.run([*command, "-o", str(program)], check=True)
    return program
