"""More GPUs help more: scripts/bench/scale, in virtual time."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import with_native
from tests.emulated import TRIES
from tests.sample import sampled

SCALE = Path(__file__).parents[2] / "scripts" / "bench" / "scale"
WANTED = [
    *[(2, "server", 1.85), (4, "server", 3.5), (8, "server", 6.5), (16, "server", 13)],
    *[(4, "streams", 3.5), (8, "streams", 6.5), (4, "requests", 3.3), (8, "requests", 6.5)],
    *[(8, "guidance-2", 1.8), (8, "guidance-4", 3.4), (16, "guidance-4", 3.4)],
]


@pytest.mark.parametrize(("gpus", "program", "wanted"), sampled(WANTED, []))
def test_as_many_gpus_are_nearly_as_many_times_as_fast(
    gpus: int, program: str, wanted: float, native_build: Path, tmp_path: Path
) -> None:
    found = tmp_path / "found.json"
    command = [sys.executable, str(SCALE), "--gpus", str(gpus), "--json", str(found), program]
    factors = []
    for _ in range(TRIES):
        subprocess.run(command, env=with_native(native_build / "native"), check=True, timeout=300)
        (row,) = json.loads(found.read_text())["rows"]
        assert row["equal"]
        factors.append(row["factor"])
        if max(factors) > wanted:
            return
    assert max(factors) > wanted


@pytest.mark.full
def test_many_gpus_cost_a_launch_no_more(native_build: Path, tmp_path: Path) -> None:
    found = tmp_path / "found.json"
    command = [sys.executable, str(SCALE), "--gpus", "2,16", "--json", str(found), "guidance-2"]
    times = []
    for _ in range(TRIES):
        subprocess.run(command, env=with_native(native_build / "native"), check=True, timeout=300)
        few, many = json.loads(found.read_text())["launch"]
        assert many["directory_bytes"] < 1.5 * few["directory_bytes"]
        times.append(many["median_ns"] / few["median_ns"])
        if times[-1] < 1.5:
            return
    assert min(times) < 1.5
