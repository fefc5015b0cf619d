"""An executor that is killed or stopped: right results or an error, soon, and nothing left behind."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from itertools import product
from pathlib import Path

import pytest

from tests.command import TESSERA_RUN, with_native
from tests.fault.executor_faults import COPIES, FOLLOW, MOVED, POLICY, POLICY_OF_THREE, Fault, judge, learn, run
from tests.sample import sampled

ROUNDS, WORK_SECONDS = 400, 2.0


@pytest.mark.parametrize(
    ("delay", "fault"),
    sampled([*product((0.0, 0.05), (signal.SIGKILL, signal.SIGSTOP))], [(0.0, signal.SIGSTOP), (0.05, signal.SIGKILL)]),
)
def test_an_executor_that_fails(fault: signal.Signals, delay: float, native_build: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY + FOLLOW)
    outcome = run(native_build / "native", policy, ROUNDS, Fault(fault, delay))
    assert judge(outcome, WORK_SECONDS) is None, outcome


@pytest.mark.parametrize("fault", sampled([signal.SIGKILL, signal.SIGSTOP], [signal.SIGSTOP]), ids=["kill", "stop"])
def test_an_executor_that_fails_while_there_are_copies(
    fault: signal.Signals, native_build: Path, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY_OF_THREE + COPIES)
    native = native_build / "native"
    outcome = run(native, policy, ROUNDS, Fault(fault, 0.02, 2), learn(native, policy, tmp_path / "cache"))
    assert judge(outcome, WORK_SECONDS) is None, outcome


@pytest.mark.full
@pytest.mark.parametrize("device", [1, 3])
def test_one_of_three_executors_that_fails(device: int, native_build: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY_OF_THREE + FOLLOW)
    outcome = run(native_build / "native", policy, ROUNDS, Fault(signal.SIGKILL, 0.02, device))
    assert judge(outcome, WORK_SECONDS) is None, outcome


@pytest.mark.full
@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP], ids=["kill", "stop"])
def test_what_an_executor_had_not_taken_runs_at_home(fault: signal.Signals, native_build: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY + FOLLOW)
    outcome = run(native_build / "native", policy, 20, Fault(fault, idle=True))
    assert outcome.said == "right", outcome
    assert MOVED in outcome.log or fault == signal.SIGKILL, outcome
    assert judge(outcome, WORK_SECONDS) is None, outcome


@pytest.mark.full
def test_an_executor_that_cannot_start_is_not_waited_for(native_build: Path, tmp_path: Path) -> None:
    policy, broken = tmp_path / "policy.yaml", tmp_path / "native"
    policy.write_text(POLICY + FOLLOW)
    broken.mkdir()
    for part in (native_build / "native").iterdir():
        (broken / part.name).symlink_to(part)
    (broken / "executor").unlink()
    (broken / "executor").mkdir()
    (broken / "executor" / "tessera-executor").symlink_to("/bin/false")
    (tmp_path / "fault").symlink_to(native_build / "fault")
    seconds = []
    for native in (native_build / "native", broken):
        start = time.monotonic()
        outcome = run(native, policy, 1, Fault(signal.SIGCONT))
        seconds.append(time.monotonic() - start)
        assert outcome.said == "right", outcome
    assert "the executor for GPU 1 does not answer" in outcome.log
    assert seconds[1] < seconds[0] + 2.5


@pytest.mark.full
def test_an_executor_without_a_cpu_is_waited_for(native_build: Path, tmp_path: Path) -> None:
    """On a busy machine: it has not failed, nothing is lost, and launches go on to it."""
    policy, report = tmp_path / "policy.yaml", tmp_path / "report.json"
    policy.write_text(POLICY + FOLLOW)
    slow = {"LD_PRELOAD": str(native_build / "fault" / "fault_slow_beat.so"), "TESSERA_SLOW_BEAT_NS": "1500000000"}
    worker = [str(native_build / "fault" / "fault_worker"), "2000"]
    done = subprocess.run(
        [TESSERA_RUN, "--emulate", "2", "--json", report, "--policy", policy, "--", *worker],
        input="\n",
        text=True,
        capture_output=True,
        env={**with_native(native_build / "native"), **slow},
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout.split()[:2]) == (0, ["started", "right"]), done.stderr
    assert json.loads(report.read_text())["launches"]["kept_home"] == 0, done.stderr
    assert "does not run" not in done.stderr
