"""Launches that no other GPU can run: those of NCCL, and those whose code does not exist there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import TESSERA_RUN
from tests.policy.held_later import LAUNCHES
from tests.policy.run import TIMEOUT_S, environment, outcome_of
from tests.sample import sampled

HERE = Path(__file__).parent
ALL = 'version: 1\ndevices: {home: 0, executors: [1]}\nrules:\n  - {match: {function: "*"}, device: 1}\n'
MARKED = ALL.replace("rules:\n", "rules:\n  - {match: {library_call: ncclBroadcast}, device: 1}\n")
COLLECTIVE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def run(native_build: Path, tmp_path: Path, policy: str, gpus: str, *program: str) -> Path:
    file, report = tmp_path / "policy.yaml", tmp_path / "report.json"
    file.write_text(policy)
    done = subprocess.run(
        [TESSERA_RUN, "--emulate", gpus, "--policy", file, "--json", report, "--", sys.executable, *program],
        text=True,
        capture_output=True,
        env=environment(native_build),
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["right"]
    return report


@pytest.mark.parametrize(
    ("policy", "inside"), sampled([(MARKED, 2), (ALL, 0)], [(MARKED, 2)]), ids=["calls are marked", "they are not"]
)
def test_collectives_stay_home(policy: str, inside: int, native_build: Path, tmp_path: Path) -> None:
    library = tmp_path / "libnccl.so.2"
    compiler = [os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-Wl,-soname,libnccl.so.2"]
    subprocess.run([*compiler, "-o", str(library), str(HERE / "nccl_like.c")], check=True)
    report = run(native_build, tmp_path, policy, "2", str(HERE / "collectives.py"), str(library))
    plain = {("plain", 0): inside, ("plain", 1): 3 - inside}
    expected = {(COLLECTIVE, 0): 1, **{place: count for place, count in plain.items() if count}}
    assert outcome_of(report).by_function == expected
    assert json.loads(report.read_text())["kept_home_by_reason"] == {"other_gpus": inside + 1}


@pytest.mark.parametrize(
    ("gpus", "kept"),
    sampled([("h100,l40s", {"architecture": 1}), ("h100,h200", {})], [("h100,l40s", {"architecture": 1})]),
)
def test_code_that_another_gpu_lacks_stays_home(
    gpus: str, kept: dict[str, int], native_build: Path, tmp_path: Path
) -> None:
    report = run(native_build, tmp_path, ALL, gpus, str(HERE / "other_code.py"))
    assert outcome_of(report).by_function == {("everywhere", 1): 1, ("here_only", 0 if kept else 1): 1}
    assert json.loads(report.read_text())["kept_home_by_reason"] == kept


def test_a_function_stays_home_from_when_its_variable_is_known(native_build: Path, tmp_path: Path) -> None:
    """What is known of a function after its first launches elsewhere does not outlive what it rests on."""
    report = run(native_build, tmp_path, ALL, "2", str(HERE / "held_later.py"))
    assert outcome_of(report).by_function == {("reader", 0): LAUNCHES, ("reader", 1): LAUNCHES}
    assert json.loads(report.read_text())["kept_home_by_reason"] == {"variable": LAUNCHES}
