"""Programs of tests/placement on emulated machines, as benchmarks run them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.command import ROOT, TESSERA_RUN

GUESTS = ROOT / "tests" / "placement"
SECONDS = 300


@dataclass(frozen=True, slots=True)
class Ran:
    output: str
    report: dict[str, Any]

    @property
    def virtual_ns(self) -> float:
        return float(self.report["virtual_ns"])


def words(of: Sequence[str], count: int) -> list[str]:
    """A program's, with its number of requests for `N`."""
    return [str(count) if word == "N" else word for word in of]


def run(
    folder: Path,
    machine: Path,
    program: Sequence[str],
    options: Sequence[str] = (),
    environment: dict[str, str] | None = None,
) -> Ran:
    """program: a guest and its arguments. Ends with what the program says if it fails."""
    report, (guest, *rest) = folder / "report.json", program
    command = [str(TESSERA_RUN), "--emulate", str(machine), "--no-summary", "--json", str(report), *options, "--"]
    done = subprocess.run(
        [*command, sys.executable, str(GUESTS / guest), *rest],
        text=True,
        capture_output=True,
        env=environment,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(program)}: {done.stderr}")
    return Ran(done.stdout, json.loads(report.read_text()))
