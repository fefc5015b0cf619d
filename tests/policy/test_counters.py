"""Counters add up in every mode: all launches are counted once, and each that stayed home has a reason."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.command import TESSERA_RUN
from tests.policy.run import TIMEOUT_S, environment
from tests.sample import sampled

PROGRAM = Path(__file__).with_name("ways.py")
POLICY = 'version: 1\ndevices: {home: 0, executors: [1]}\nrules:\n  - {match: {function: "*"}, device: 1}\n'
DEFAULT = "version: 1\ndevices: {home: 0, executors: [1]}\ndefault: 1\n"


def run(native_build: Path, place: Path, policy: str, *options: str, gpus: str = "2") -> tuple[Any, Any]:
    """What the program says of itself, and the report."""
    file, report = place / "policy.yaml", place / "report.json"
    file.write_text(policy)
    command = [str(TESSERA_RUN), "--emulate", gpus, "--policy", str(file), "--json", str(report), *options]
    done = subprocess.run(
        [*command, "--", sys.executable, str(PROGRAM)],
        text=True,
        capture_output=True,
        env=environment(native_build),
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), json.loads(report.read_text())


CASES = [
    (POLICY, ()),
    (DEFAULT, ()),
    (POLICY, ("--stats",)),
    (POLICY, ("--stats", "--verify=2")),
    (DEFAULT, ("--verify",)),
]


@pytest.mark.parametrize(("policy", "options"), sampled(CASES, [CASES[3]]))
def test_each_launch_is_counted_once(policy: str, options: tuple[str, ...], native_build: Path, tmp_path: Path) -> None:
    told, report = run(native_build, tmp_path, policy, *options)
    launches, kept = report["launches"], report["kept_home_by_reason"]
    by_device = {int(gpu): count for gpu, count in launches["by_device"].items()}
    assert launches["total"] == sum(by_device.values()) == told["ran"]
    assert launches["kept_home"] == sum(kept.values())
    graphs = kept.get("graph_memory", 0)
    assert report["graph_launches"] == {"0": graphs}
    assert {reason: count for reason, count in kept.items() if reason != "graph_memory"} == told["kept"]
    assert by_device[0] == sum(kept.values()) - kept["capture"] - graphs
    if "--stats" in options:
        reasons = {reason.replace(" ", "_"): count for reason, count in launches["kept_home_by_reason"].items()}
        assert reasons == kept
        assert launches["captured"] == told["captured"]
        assert sum(kernel["launches"] for kernel in report["kernels"]) == told["ran"]
    if not any("verify" in option for option in options):
        assert by_device[1] == report["devices"][1]["launches"]  # what the GPU itself has counted


def test_without_its_executor_all_launches_have_a_reason(native_build: Path, tmp_path: Path) -> None:
    """It ends at its start, as on a GPU that others have for themselves."""
    file, report = tmp_path / "policy.yaml", tmp_path / "report.json"
    file.write_text(POLICY)
    broken = tmp_path / "native"
    broken.mkdir()
    for part in (native_build / "native").iterdir():
        (broken / part.name).symlink_to(part)
    (broken / "executor").unlink()
    (broken / "executor").mkdir()
    executor = broken / "executor" / "tessera-executor"
    executor.write_text("#!/bin/sh\nexit 1\n")
    executor.chmod(0o755)
    command = [str(TESSERA_RUN), "--emulate", "2", "--policy", str(file), "--json", str(report)]
    done = subprocess.run(
        [*command, "--", sys.executable, str(PROGRAM), "child"],
        text=True,
        capture_output=True,
        env={**environment(native_build), "TESSERA_NATIVE": str(broken)},
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "the executor for GPU 1 does not answer; all launches stay home" in done.stderr
    told, found = json.loads(done.stdout), json.loads(report.read_text())
    assert found["launches"]["by_device"] == {"0": told["ran"], "1": 0}
    assert found["launches"]["total"] == told["ran"]
    assert found["kept_home_by_reason"] == {"executor": told["ran"] + told["captured"]}
