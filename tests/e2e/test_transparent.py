"""Programs do not notice the shim: what they print, how they end, and what ran on the GPUs are as without it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e import guest
from tests.e2e.build import BuildError, Program, programs

SAMPLE = {
    "driver_ipc",
    "faults",
    "graph_capture",
}
# The shim counts launches, the emulated GPU what ran to its end: kernels that fail, and those inside graphs, differ.
COUNTED_OTHERWISE = ("faults", "graph_capture", "graph_explicit")
FAILED_KERNELS = {"device_reset": {"_Z8write_toPi on 0": 1}}
CASES = [
    pytest.param(program, id=program.name, marks=() if program.name in SAMPLE else pytest.mark.full)
    for program in programs()
]


@pytest.mark.parametrize("program", CASES)
def test_program(
    program: Program, executables: dict[str, Path | BuildError], native_build: Path, tmp_path: Path
) -> None:
    executable = executables[program.name]
    assert isinstance(executable, Path), str(executable)
    native = native_build / "native"
    bare = guest.run("bare", native, [executable], tmp_path / "bare")
    assert bare.code == 0
    counted = replace(bare, counts=bare.counts | FAILED_KERNELS.get(program.name, {}))
    for mode in guest.SHIMMED:
        outcome = guest.run(mode, native, [executable], tmp_path / mode)
        if mode != "through" and program.name.startswith(COUNTED_OTHERWISE):
            outcome = replace(outcome, counts=bare.counts)
        assert outcome == (bare if mode == "through" else counted), mode
