"""GPUs have the machine's numbers, whatever CUDA_VISIBLE_DEVICES shows of them to the program and in which order."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from controlplane.run.unchecked import EXIT_CODE
from tests.command import TESSERA, TESSERA_RUN
from tests.policy.run import PROGRAM, TIMEOUT_S, environment
from tests.sample import sampled

LAUNCHES = json.dumps([{"function": name} for name in ("alpha", "beta", "gamma")] * 2)
POLICY = """version: 1
devices: {{home: {home}, executors: [{away}]}}
rules:
  - {{match: {{function: "*"}}, device: {away}}}
"""
SECOND = (
    "GPU-74657373-6572-6100-0100-0000"  # digits that the second GPU alone begins with (controlplane/machine/file.py)
)
VISIBLE = [(None, 0, 1), ("1", 1, 0), ("2,1,0", 2, 0), (f"{SECOND},0", 1, 2), ("1,0", 1, 0), (SECOND, 1, 2)]
RANKS = """
import os, subprocess, sys
for rank in "0", "1":
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": rank}
    done = subprocess.run([sys.executable, sys.argv[1]], env=environment, input=sys.argv[2], text=True)
    assert done.returncode == 0
"""


def start(
    native_build: Path, place: Path, visible: str | None, *arguments: str, gpus: str = "3"
) -> subprocess.CompletedProcess[str]:
    variables = {name: value for name, value in environment(native_build).items() if name != "CUDA_VISIBLE_DEVICES"}
    if visible is not None:
        variables["CUDA_VISIBLE_DEVICES"] = visible
    command = [str(TESSERA_RUN), "--emulate", gpus, "--json", str(place / "json"), *arguments]
    return subprocess.run(
        command, input=LAUNCHES, text=True, capture_output=True, env=variables, timeout=TIMEOUT_S, check=False
    )


def report(place: Path) -> Any:
    return json.loads((place / "json").read_text())


@pytest.mark.parametrize(
    ("visible", "home", "away"),
    sampled(VISIBLE, [(f"{SECOND},0", 1, 2)]),
)
def test_launches_go_where_the_policy_says(
    visible: str | None, home: int, away: int, native_build: Path, tmp_path: Path
) -> None:
    policy, trace = tmp_path / "policy.yaml", tmp_path / "trace"
    policy.write_text(POLICY.format(home=home, away=away))
    observed = (f"--stats={tmp_path / 'stats'}", "--trace", str(trace))
    done = start(
        native_build, tmp_path, visible, "--policy", str(policy), *observed, "--", sys.executable, str(PROGRAM)
    )
    assert (done.returncode, done.stdout) == (0, "6\n"), done.stderr
    found = report(tmp_path)
    assert [gpu["launches"] for gpu in found["devices"]] == [
        6 * (gpu == away) for gpu in range(3)
    ]  # the machine's count
    assert found["launches"]["by_device"] == {str(away): 6}
    assert found["launches"]["kept_home"] == 0
    assert {kernel["device"] for kernel in found["kernels"]} == {away}
    assert {copy["device"] for copy in found["copies"]} == {home}
    shown = subprocess.run(
        [TESSERA, "trace", "show", trace, "--json"],
        text=True,
        capture_output=True,
        env=environment(native_build),
        check=True,
    )
    assert f'"device": {away}' in shown.stdout


@pytest.mark.full
@pytest.mark.parametrize(("visible", "gpu"), [("1", 1), ("2,0", 2), (SECOND, 1)])
def test_statistics_and_checks_without_a_policy(visible: str, gpu: int, native_build: Path, tmp_path: Path) -> None:
    options = (f"--stats={tmp_path / 'stats'}", "--check-writes")
    done = start(native_build, tmp_path, visible, *options, "--", sys.executable, str(PROGRAM))
    assert done.returncode in (0, EXIT_CODE), done.stderr  # the latter when the analysis was not in time
    assert done.stdout == "6\n"
    found = report(tmp_path)
    assert found["launches"]["by_device"] == {str(gpu): 6}
    assert {kernel["device"] for kernel in found["kernels"]} == {gpu}
    assert found["check"]["known"] + found["check"]["unknown"] > 0  # of launches at home, which is this GPU


def test_ranks_have_different_numbers(native_build: Path, tmp_path: Path) -> None:
    """Each child is shown another GPU, as its first."""
    program = (sys.executable, "-c", RANKS, str(PROGRAM), LAUNCHES)
    done = start(native_build, tmp_path, None, f"--stats={tmp_path / 'stats'}", "--", *program)
    assert done.returncode == 0, done.stderr
    assert report(tmp_path)["launches"]["by_device"] == {"0": 6, "1": 6}


@pytest.mark.full
def test_a_child_that_does_not_see_the_home_gpu_keeps_its_launches(native_build: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY.format(home=0, away=2))
    program = (sys.executable, "-c", RANKS, str(PROGRAM), LAUNCHES)
    done = start(native_build, tmp_path, None, "--policy", str(policy), "--stats", "--", *program)
    assert done.returncode == 0, done.stderr
    assert report(tmp_path)["launches"]["by_device"] == {"1": 6, "2": 6}
    assert "CUDA_VISIBLE_DEVICES hides GPU 0, the policy's home, from this process" in done.stderr


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        pytest.param("1", "as home a GPU that it sees: 1", marks=pytest.mark.full),
        ("2,1", "as home a GPU that it sees: 2, 1"),
        ("", "in CUDA_VISIBLE_DEVICES GPUs that exist: 0, 1, 2"),
        pytest.param("9", "in CUDA_VISIBLE_DEVICES GPUs that exist: 0, 1, 2", marks=pytest.mark.full),
    ],
)
def test_a_hidden_home_gpu_is_refused(visible: str, expected: str, native_build: Path, tmp_path: Path) -> None:
    policy, mark = tmp_path / "policy.yaml", tmp_path / "ran"
    policy.write_text(POLICY.format(home=0, away=1))
    done = start(native_build, tmp_path, visible, "--policy", str(policy), "--", "touch", str(mark))
    text = f"{policy}:2: CUDA_VISIBLE_DEVICES={visible} hides the home GPU 0 from the program; expected {expected}\n"
    assert (done.returncode, done.stderr) == (2, f"tessera-run: {text}")
    assert not mark.exists()


@pytest.mark.parametrize(
    ("devices", "wrong"),
    [
        ("{home: 0, executors: [1, 7]}", "GPU 7 does not exist: the machine has 2 GPUs"),
        ("{home: 2, executors: [1]}", "GPU 2 does not exist: the machine has 2 GPUs"),
        ("{home: 0, executors: [{gpu: 1, sm_limit: 200}]}", "sm_limit 200 of GPU 1 is more than its 132 SMs"),
    ],
)
def test_what_the_machine_does_not_have_is_refused(
    devices: str, wrong: str, native_build: Path, tmp_path: Path
) -> None:
    policy, mark = tmp_path / "policy.yaml", tmp_path / "ran"
    policy.write_text(f"version: 1\n\ndevices: {devices}\ndefault: 1\n")
    done = start(native_build, tmp_path, None, "--policy", str(policy), "--", "touch", str(mark), gpus="2")
    text = f"tessera-run: {policy}:3: {wrong}; expected GPUs that exist: 0, 1\n"
    assert (done.returncode, done.stderr) == (2, text)
    assert not mark.exists()


def test_a_real_driver_is_asked_for_its_gpus(native_build: Path, tmp_path: Path) -> None:
    """A driver that is not ours: of null_driver, which has GPUs and does nothing."""
    policy, mark = tmp_path / "policy.yaml", tmp_path / "ran"
    policy.write_text(POLICY.format(home=0, away=15))
    driver = native_build / "null_driver" / "libcuda.so.1"
    done = subprocess.run(
        [str(TESSERA_RUN), "--policy", str(policy), "--", "touch", str(mark)],
        text=True,
        capture_output=True,
        env={**environment(native_build), "TESSERA_DRIVER": str(driver)},
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 2
    assert f"{policy}:2: GPU 15 does not exist" in done.stderr, done.stderr
    assert not mark.exists()
