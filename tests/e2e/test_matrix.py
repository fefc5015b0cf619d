"""A sample of the matrix; with -m full all but most seeds. `scripts/lab matrix` runs any part and draws a table."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.build import BuildError, programs
from tests.e2e.matrix import MACHINES, Machine, Placing, compare, placings, run

TWO, TWO_ALONE, FOUR, FOUR_ALONE = MACHINES
SAMPLE = [
    ("driver_launch", FOUR, "half"),
    ("driver_streams", FOUR, "random-1"),
    ("driver_vmm", TWO_ALONE, "one"),
]
FULL_SEEDS = 1  # of SEEDS
FULL = [(program.name, machine) for program in programs() for machine in MACHINES]


@pytest.mark.parametrize(("program", "machine", "policy"), SAMPLE, ids=lambda value: getattr(value, "name", value))
def test_sample(
    program: str,
    machine: Machine,
    policy: str,
    executables: dict[str, Path | BuildError],
    native_build: Path,
    tmp_path: Path,
) -> None:
    _check(executables[program], machine, [Placing(policy)], native_build / "native", tmp_path)


@pytest.mark.full
@pytest.mark.parametrize(("program", "machine"), FULL, ids=lambda value: getattr(value, "name", value))
def test_all(
    program: str,
    machine: Machine,
    executables: dict[str, Path | BuildError],
    native_build: Path,
    tmp_path: Path,
) -> None:
    _check(executables[program], machine, list(placings(FULL_SEEDS)), native_build / "native", tmp_path)


def _check(
    executable: Path | BuildError, machine: Machine, policies: list[Placing], native: Path, folder: Path
) -> None:
    assert isinstance(executable, Path), str(executable)
    bare = run(executable, machine, None, native, folder)
    for placing in policies:
        placed = run(executable, machine, placing, native, folder)
        assert compare(executable.name, machine, placing, bare, placed).faults == []
