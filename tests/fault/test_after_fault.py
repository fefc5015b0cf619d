"""What a kernel's fault on an executor leaves: nothing, once its context has ended, as without a policy."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import TESSERA_RUN, with_native
from tests.fault import after_fault

POLICY = """version: 1
devices: {home: 0, executors: [1, 2]}
memory: {place: follow}
rules:
  - {match: {function: store, nth: {every: 2}}, device: 1}
  - {match: {function: store}, device: 2}
"""


def answers(native_build: Path, case: str, *options: str, **variables: str) -> list[int]:
    done = subprocess.run(
        [
            str(TESSERA_RUN),
            "--emulate",
            "3",
            "--no-summary",
            *options,
            "--",
            sys.executable,
            after_fault.__file__,
            case,
        ],
        text=True,
        capture_output=True,
        env={**with_native(native_build / "native"), **variables},
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [int(word) for word in done.stdout.split()]


@pytest.mark.full
@pytest.mark.parametrize("case", after_fault.CASES)
def test_a_new_context_works_as_without_a_policy(case: str, native_build: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    alone = answers(native_build, case)
    assert 700 in alone
    assert answers(native_build, case, "--policy", str(policy)) == alone


@pytest.mark.full
@pytest.mark.parametrize("verify", ["", "verify: 1\n"], ids=["posted", "verified"])
def test_a_launch_does_not_answer_for_its_own_fault(verify: str, native_build: Path, tmp_path: Path) -> None:
    """The executor finds the fault while the thread that posted the launch is still in its call."""
    policy, late = tmp_path / "policy.yaml", tmp_path / "late"
    policy.write_text(POLICY + verify)
    preload = str(native_build / "fault" / "fault_late_poster.so")
    found = answers(native_build, "reset", "--policy", str(policy), LD_PRELOAD=preload, TESSERA_LATE_MARK=str(late))
    assert late.exists()
    assert found == answers(native_build, "reset")
