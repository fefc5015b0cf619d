"""Unmodified programs whose launches all run on the other GPU: same output, and every launch counted there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import TESSERA_RUN, with_native
from tests.e2e.build import BuildError
from tests.sample import sampled

POLICY = """version: 1
devices: {home: 0, executors: [1]}
rules:
  - match: {function: "*"}
    device: 1
default: home
"""
TIMEOUT_S = 120
DEMO = Path(__file__).parents[2] / "scripts" / "demo" / "vector_add.py"


COMPUTE = ("gemm_tiled", "scan")
MEMORY = ("pitched_copies", "stream_ordered_memory")


@pytest.mark.parametrize("name", sampled([*COMPUTE, *MEMORY], ["stream_ordered_memory"]))
def test_all_launches_on_the_other_gpu(
    name: str, executables: dict[str, Path | BuildError], native_build: Path, tmp_path: Path
) -> None:
    executable = executables[name]
    assert isinstance(executable, Path), str(executable)
    policy, report = tmp_path / "policy.yaml", tmp_path / "report.json"
    policy.write_text(POLICY)
    base = [str(TESSERA_RUN), "--emulate", "2", "--json", str(report)]
    environment = with_native(native_build / "native")
    home = _run([*base, "--", str(executable)], environment)
    launches = sum(device["launches"] for device in json.loads(report.read_text())["devices"])
    away = _run([*base, "--policy", str(policy), "--", str(executable)], environment)
    counted = json.loads(report.read_text())
    assert away == home
    assert counted["launches"] == {"total": launches, "by_device": {"0": 0, "1": launches}, "kept_home": 0}
    assert [device["launches"] for device in counted["devices"]] == [0, launches]


@pytest.mark.full
def test_launches_on_a_gpu_that_the_program_chose_stay_there(native_build: Path, tmp_path: Path) -> None:
    policy, report = tmp_path / "policy.yaml", tmp_path / "report.json"
    policy.write_text(POLICY)
    command = [str(TESSERA_RUN), "--emulate", "3", "--json", str(report), "--policy", str(policy), "--"]
    environment = with_native(native_build / "native")
    assert "right" in _run([*command, sys.executable, str(DEMO)], environment)
    counted = json.loads(report.read_text())
    assert counted["launches"] == {"total": 2, "by_device": {"0": 0, "1": 1, "2": 1}, "kept_home": 0}


# Programs and how many of their launches stay home for their memory or a variable; more are in test_matrix.py.
PLACED = {
    "driver_ipc": 0,
    "driver_memory": 0,
    "driver_vmm": 0,
    "driver_vmm_growth": 1,
}


@pytest.mark.parametrize("name", sampled(PLACED, ["driver_memory", "driver_vmm_growth"]))
def test_memory_of_all_kinds(
    name: str, executables: dict[str, Path | BuildError], native_build: Path, tmp_path: Path
) -> None:
    executable = executables[name]
    assert isinstance(executable, Path), str(executable)
    policy, report = tmp_path / "policy.yaml", tmp_path / "report.json"
    policy.write_text(POLICY)
    base = [str(TESSERA_RUN), "--emulate", "2", "--json", str(report)]
    environment = with_native(native_build / "native")
    home = _run([*base, "--", str(executable)], environment)
    away = _run([*base, "--policy", str(policy), "--", str(executable)], environment)
    counted = json.loads(report.read_text())["launches"]
    assert away == home
    assert counted["kept_home"] == counted["by_device"]["0"] == PLACED[name]


def _run(command: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(command, text=True, capture_output=True, env=environment, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout
