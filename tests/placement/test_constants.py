"""Constants of modules that kernels are given the address of: a kernel elsewhere reaches those that no code names."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import TESSERA_RUN, with_native

GUEST = Path(__file__).with_name("constants_guest.py")
POLICY = 'version: 1\ndevices: {home: 0, executors: [1]}\nrules:\n  - {match: {function: "*"}, device: 1}\n'
SUM, LAUNCHES = sum(range(64)), 3


@pytest.mark.parametrize(
    ("name", "kept"),
    [pytest.param("free", {}, marks=pytest.mark.full), ("named", {"memory_variable": LAUNCHES})],
)
def test_constants(native_build: Path, tmp_path: Path, name: str, kept: dict[str, int]) -> None:
    policy, report = tmp_path / "policy.yaml", tmp_path / "report.json"
    policy.write_text(POLICY)
    options = ["--emulate", "2", "--policy", str(policy), "--json", str(report), "--no-summary"]
    done = subprocess.run(
        [str(TESSERA_RUN), *options, "--", sys.executable, str(GUEST), name],
        env=with_native(native_build / "native"),
        stdout=subprocess.PIPE,
        timeout=120,
        check=True,
    )
    assert json.loads(done.stdout) == {name: {"same": True, "found": SUM, "written": 7 * 64, "anew": SUM}}
    told = json.loads(report.read_text())
    assert told["kept_home_by_reason"] == kept
    assert told["launches"]["by_device"]["1"] == (0 if kept else LAUNCHES)
