"""The contract suite on the emulated driver; `scripts/hardware contract` runs the same suite on a real one."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import TESSERA_RUN, with_native

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the suite is compiled once."""
    return tmp_path_factory.mktemp("contract")


def test_the_emulated_driver_keeps_the_contract(native_build: Path, place: Path) -> None:
    suite = [sys.executable, str(ROOT / "scripts" / "hardware"), "contract", "--build", str(place)]
    done = subprocess.run(
        [TESSERA_RUN, "--emulate", "2", "--no-summary", "--", *suite],
        env=with_native(native_build / "native"),
        text=True,
        capture_output=True,
        timeout=300,
    )
    said = done.stdout + done.stderr
    assert f"driver: {native_build / 'native' / 'emulator' / 'libcuda.so.1'}" in said
    assert done.returncode == 0, said
    checks = re.search(r"^(\d+) checks at", said, re.MULTILINE)
    assert checks, said
    assert int(checks[1]) >= 300


@pytest.mark.full
def test_a_program_whose_launches_run_elsewhere_sees_the_same_contract(native_build: Path, place: Path) -> None:
    suite = [sys.executable, str(ROOT / "scripts" / "hardware"), "contract", "--build", str(place), "--redirect", "2"]
    environment = with_native(native_build / "native")
    done = subprocess.run(suite, env=environment, text=True, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\d{3} passed, .* \d{3} of \d{3} launches on GPU 1; new: \[\]", done.stdout), done.stdout
