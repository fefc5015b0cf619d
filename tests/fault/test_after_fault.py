"""What a kernel's fault on an executor leaves: nothing, once its context has ended, as without a policy."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import TESSERA_RUN, with_native
from tests.fault import after_fault

POLICY = """version: 1
devices: {home: 0, executors: [1, 2]}
rules:
  - {match: {function: store, nth: {every: 2}}, device: 1}
  - {match: {function: store}, device: 2}
"""


def answers(native_build: Path, case: str, *options: str) -> list[int]:
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
        env=with_native(native_build / "native"),
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [int(word) for word in done.stdout.split()]


@pytest.mark.parametrize("case", after_fault.CASES)
def test_a_new_context_works_as_without_a_policy(case: str, native_build: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    alone = answers(native_build, case)
    assert 700 in alone
    assert answers(native_build, case, "--policy", str(policy)) == alone
