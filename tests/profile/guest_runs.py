"""Runs of small programs on emulated GPUs, and their profiles."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from controlplane.profile import file
from controlplane.profile.model import Profile
from tests.command import TESSERA_RUN, with_native

PLACEMENT = Path(__file__).parents[1] / "placement"
STEP_NS = 7_000


def machine(place: Path, gpus: int, link: str = "nvlink4", gpu: str = "h200") -> Path:
    """An emulated machine whose launches take a while, as those of real programs do."""
    result = place / f"{gpu}-{gpus}-{link}.yaml"
    result.write_text(f"devices:\n  - {{gpu: {gpu}, count: {gpus}, launch_latency_ns: {STEP_NS}}}\nlink: {link}\n")
    return result


def run(native: Path, place: Path, options: tuple[str, ...], guest: str, *words: str) -> str:
    """What it says on standard error."""
    done = subprocess.run(
        [str(TESSERA_RUN), *options, "--", sys.executable, str(PLACEMENT / guest), *words],
        text=True,
        capture_output=True,
        env={**with_native(native), "XDG_CACHE_HOME": str(place / "cache")},
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def profiled(native: Path, place: Path, machine: Path, guest: str, *words: str) -> Profile:
    made = place / "run.profile"
    run(native, place, ("--emulate", str(machine), "--no-summary", "--profile", str(made)), guest, *words)
    return file.read(made)
