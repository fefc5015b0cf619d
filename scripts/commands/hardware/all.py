"""Everything that real GPUs can confirm, in one go.

    scripts/hardware all FOLDER

Builds the native parts if TESSERA_NATIVE does not name a build, then runs the loader probes, the contract suite, the
end-to-end programs on the real driver, and the same programs with their launches redirected to a second GPU (when there
are two). Each step's log and JSON go to FOLDER; the exit status tells whether all steps passed. TESSERA_BUILD: where to
build, instead of build/hardware.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from scripts.commands.dispatch import parser_of

ROOT = Path(__file__).resolve().parents[3]
HARDWARE, LAB = (str(ROOT / "scripts" / name) for name in ("hardware", "lab"))
REDIRECTED = ("vector_add", "transpose", "gemm_tiled", "softmax", "layer_norm", "scan", "stencil")


@dataclass(slots=True)
class Steps:
    """Runs steps one after the other; each one's log is a file in `output`."""

    output: Path
    environment: dict[str, str]
    failed: list[str] = field(default_factory=list)

    def run(self, name: str, *commands: Sequence[str]) -> None:
        """The commands up to the first that fails."""
        log, started = self.output / f"{name}.log", time.monotonic()
        with log.open("w") as stream:
            passed = all(self._runs(command, stream.fileno()) for command in commands)
        if not passed:
            self.failed.append(name)
        sums = re.findall(r"^\d+ passed.*$", log.read_text(errors="replace"), re.MULTILINE)
        seconds = f"{time.monotonic() - started:.0f} s"
        print(f"{name:16} {'passed' if passed else 'FAILED'}  {seconds}  {sums[-1] if sums else ''}", flush=True)

    def _runs(self, command: Sequence[str], stream: int) -> bool:
        try:
            done = subprocess.run(command, stdout=stream, stderr=stream, env=self.environment, check=False)
        except OSError as problem:
            os.write(stream, f"{shlex.join(command)}: {problem}\n".encode())
            return False
        return done.returncode == 0


def build(work: Path) -> tuple[list[str], list[str]]:
    """Commands."""
    source, native = str(ROOT / "interpose"), str(work / "native")
    return ["cmake", "-S", source, "-B", native, "-G", "Ninja"], ["ninja", "-C", native]


def redirected(programs: Path) -> list[str]:
    """Of the end-to-end programs that were built, those to run on a second GPU, each after dashes."""
    words = []
    for name in REDIRECTED:
        found = [file for file in sorted(programs.rglob(name)) if file.is_file() and os.access(file, os.X_OK)]
        words += ["--", str(found[0])] if found else []
    return words


def listed_gpus() -> int:
    """Their table is printed, too."""
    fields = "--query-gpu=name,driver_version,memory.total"
    try:
        subprocess.run(["nvidia-smi", fields, "--format=csv"], check=False)
        listed = subprocess.run(["nvidia-smi", "--list-gpus"], text=True, capture_output=True, check=False)
    except OSError as problem:
        print(f"nvidia-smi: {problem.strerror}", file=sys.stderr)
        return 0
    return len(listed.stdout.splitlines()) if listed.returncode == 0 else 0


def main(words: Sequence[str]) -> int:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    output: Path = parser.parse_args(words).folder
    output.mkdir(parents=True, exist_ok=True)
    work = Path(os.environ.get("TESSERA_BUILD") or ROOT / "build" / "hardware")
    gpus = listed_gpus()
    steps = Steps(output, dict(os.environ))
    if not os.environ.get("TESSERA_NATIVE"):
        steps.run("build", *build(work))
        steps.environment["TESSERA_NATIVE"] = str(work / "native" / "native")
    python = sys.executable
    reports = {name: str(output / f"{name}.json") for name in ("contract", "e2e-native", "redirect")}
    steps.run("loader", [python, LAB, "loader-probes"])
    steps.run(
        "contract", [python, HARDWARE, "contract", "--build", str(work / "contract"), "--json", reports["contract"]]
    )
    e2e = work / "e2e"
    steps.run("e2e-native", [python, HARDWARE, "e2e-native", "--build", str(e2e), "--json", reports["e2e-native"]])
    if gpus >= 2:
        command = [python, HARDWARE, "redirect-check", "--json", reports["redirect"]]
        steps.run("redirect", [*command, *redirected(e2e)])
    return 1 if steps.failed else 0
