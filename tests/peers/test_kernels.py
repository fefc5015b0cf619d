"""Kernels that other projects' compilers make, under `tessera-run --emulate`: each program checks itself.

Needs the extra `peers` (Numba, Triton, NVRTC); without it these tests are not selected (marker `peers`).
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import TESSERA_RUN

HERE = Path(__file__).parent
TIMEOUT_S = 300


@pytest.mark.peers
@pytest.mark.parametrize(
    ("program", "environment"),
    [
        ("numba_kernels.py", {}),
        ("nvrtc_kernels.py", {}),
        ("triton_kernels.py", {"TRITON_TEST_ARCH": "80"}),
        ("triton_kernels.py", {"TRITON_TEST_ARCH": "90"}),
    ],
)
def test_kernels(program: str, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    command = [str(TESSERA_RUN), "--emulate", "1", "--", sys.executable, str(HERE / program)]
    done = subprocess.run(command, text=True, capture_output=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "right" in done.stdout.splitlines()
