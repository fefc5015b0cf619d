"""Programs of this folder as they are profiled, planned for, and run by a plan, on one emulated machine."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from controlplane.plan import planfile
from controlplane.plan.planfile import Plan
from tests.command import TESSERA, TESSERA_RUN, with_native

HERE = Path(__file__).parent
MACHINE = "devices:\n  - {gpu: h200, launch_latency_ns: 7000}\n  - {gpu: l40s, launch_latency_ns: 14000}\nlink: pcie4\n"
PROGRAM = ("automatic_guest.py", "requests", "11", "8", "8")


class Runs:
    """A folder in which programs run on one machine."""

    def __init__(self, native: Path, folder: Path, machine: str = MACHINE) -> None:
        self.folder = folder
        self.environment = {**with_native(native), "XDG_CACHE_HOME": str(folder / "cache")}
        (folder / "machine.yaml").write_text(machine)

    def run(self, words: Sequence[str], program: Sequence[str] = PROGRAM) -> subprocess.CompletedProcess[str]:
        guest, *rest = program
        command = [str(TESSERA_RUN), "--emulate", "machine.yaml", "--json", "report.json", *words, "--"]
        return subprocess.run(
            [*command, sys.executable, str(HERE / guest), *rest],
            text=True,
            capture_output=True,
            env=self.environment,
            cwd=self.folder,
            timeout=100,
            check=False,
        )

    def report(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "report.json").read_text())
        return found

    def plan(self, requests: int = 8) -> Plan:
        """Of a profile that was made: by its figures whole requests, the second GPU each third one."""
        command = [str(TESSERA), "plan", "run.profile", "--requests", str(requests), "-o", "run.plan"]
        subprocess.run(command, env=self.environment, cwd=self.folder, check=True, capture_output=True, timeout=100)
        return planfile.read(self.folder / "run.plan")

    def followed(self, plan: Plan, program: Sequence[str] = PROGRAM) -> subprocess.CompletedProcess[str]:
        """What launches touch may be known too late for the first ones of a run, but is known in the next."""
        planfile.write(plan, self.folder / "run.plan")
        for _ in range(3):
            ran = self.run(["--plan", "run.plan"], program)
            if ran.returncode or not self.report()["plan"]["unplaced"]:
                break
        return ran
