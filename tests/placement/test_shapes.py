"""What launches touch is found before they are made, if there were some like them in an earlier run."""

import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.analysis.cache import Cache
from controlplane.analysis.recent import Recent
from ptxtools.machine.consent import Consent
from tests.command import TESSERA_RUN, with_native

RUN = [str(TESSERA_RUN), "--no-summary", "--emulate", "2"]
CHAINS = [sys.executable, str(Path(__file__).with_name("chains_guest.py"))]
POLICY = """version: 1
devices: {home: 0, executors: [1]}
memory: {place: copies}
rules:
  - {match: {function: step_1}, device: 1}
"""
KERNELS, STEPS = 3, 200


def run(native: Path, place: Path, kib: int) -> tuple[str, int]:
    """What the program prints, and bytes of all launches that had to be evaluated in this run and earlier ones."""
    (place / "policy.yaml").write_text(POLICY)
    done = subprocess.run(
        [*RUN, "--policy", str(place / "policy.yaml"), "--", *CHAINS, str(KERNELS), str(STEPS), str(kib)],
        text=True,
        capture_output=True,
        env={**with_native(native), "XDG_CACHE_HOME": str(place)},
        timeout=100,
        check=True,
    )
    recent = Recent(Cache(place / "tessera" / "analysis"), Consent.OPEN, clones=False)
    return done.stdout, len(recent.shapes())


@pytest.mark.full
def test_launches_of_earlier_runs_are_not_evaluated_again(native_build: Path, tmp_path: Path) -> None:
    native = native_build / "native"
    first, _ = run(native, tmp_path, 4)
    _, before = run(native, tmp_path, 4)  # now all is known from the beginning
    again, after = run(native, tmp_path, 4)
    assert first == again
    assert before == after > 0
    _, other = run(native, tmp_path, 8)  # a grid and a number are others
    assert other > after
    assert run(native, tmp_path, 8)[1] == other
