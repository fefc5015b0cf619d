"""Unmodified CUDA programs under ``tessera-run --emulate``: each checks itself against values computed on the CPU."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.command import TESSERA_RUN, with_native
from tests.e2e.build import BuildError, Program, programs

PROGRAMS = programs()
# What no other test in this folder runs by default, one of each kind.
SAMPLE = {
    *("atomics", "driver_library", "event_timing_runtime12", "gemm_wmma_sm90_zstd"),
}
CASES = [
    pytest.param(program, id=program.name, marks=() if program.name in SAMPLE else pytest.mark.full)
    for program in PROGRAMS
]
TIMEOUT_S = 120


def test_there_are_enough_programs() -> None:
    assert len({program.source for program in PROGRAMS}) >= 28


@pytest.mark.parametrize("program", CASES)
def test_program(program: Program, executables: dict[str, Path | BuildError], native_build: Path) -> None:
    executable = executables[program.name]
    if isinstance(executable, BuildError):
        pytest.fail(str(executable))
    command = [str(TESSERA_RUN), "--emulate", str(program.devices), "--", str(executable)]
    environment = with_native(native_build / "native")
    done = subprocess.run(command, text=True, capture_output=True, env=environment, timeout=TIMEOUT_S)
    said = f"{done.stdout}\n{done.stderr}"
    assert done.returncode == 0, said
    assert "PASS (" in done.stdout, said
