"""Addresses that one launch leaves in memory, and another one uses: both run on the GPU whose addresses they are."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.command import TESSERA_RUN, with_native
from tests.e2e.build import BuildError

TIMEOUT_S = 120
POLICY = """version: 1
devices: {{home: 0, executors: [1]}}
memory: {{place: follow}}
rules:
  - {{match: {{function_regex: "{functions}"}}, device: 1}}
"""
USERS = "call_|add_|fill|scale_given|take"
LEAVERS = "make_objects|leave_|allocate"
KEPT = {
    ".": {"address": 5, "code": 6, "heap": 2, "variable": 4},
    USERS: {"address": 5, "code": 4, "variable": 1},
    LEAVERS: {"code": 2, "heap": 1, "variable": 1},
}


@pytest.mark.full
@pytest.mark.parametrize("functions", KEPT, ids=["all", "users", "leavers"])
def test_left_addresses_lead_where_they_did(
    functions: str, executables: dict[str, Path | BuildError], native_build: Path, tmp_path: Path
) -> None:
    executable = executables["left_addresses"]
    assert isinstance(executable, Path), str(executable)
    policy, report = tmp_path / "policy.yaml", tmp_path / "report.json"
    policy.write_text(POLICY.format(functions=functions))
    done = subprocess.run(
        [TESSERA_RUN, "--emulate", "2", "--json", report, "--policy", policy, "--", executable],
        text=True,
        capture_output=True,
        env=with_native(native_build / "native"),
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert json.loads(report.read_text())["kept_home_by_reason"] == KEPT[functions]
