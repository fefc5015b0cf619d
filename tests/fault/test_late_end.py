"""A program that gives all back after its driver has ended is told so by each call, and nothing is said of it."""

import subprocess
from pathlib import Path

import pytest

from tests.command import TESSERA_RUN, with_native

POLICY = """version: 1
devices: {home: 0, executors: [1]}
memory: {place: PLACE}
rules:
  - {match: {function: add}, device: 1}
"""
CALLS = ("wait", "free", "unload", "stream", "context", "release")
DEINITIALIZED = 4


@pytest.mark.parametrize("place", ["follow", "copies"])
def test_nothing_is_said(place: str, native_build: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY.replace("PLACE", place))
    for _ in range(2):  # what the function touches may be known in the second one only
        done = subprocess.run(
            [
                TESSERA_RUN,
                "--emulate",
                "2",
                "--no-summary",
                "--policy",
                policy,
                "--",
                native_build / "fault" / "fault_late_end",
            ],
            env={**with_native(native_build / "native"), "XDG_CACHE_HOME": str(tmp_path / "cache")},
            text=True,
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert done.stdout.splitlines() == [f"{call} {DEINITIALIZED}" for call in CALLS]
        assert (done.returncode, done.stderr) == (0, "")
