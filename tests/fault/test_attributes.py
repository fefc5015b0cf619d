"""An executor is told of a function's attribute when it changes, not at every call that sets it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import TESSERA_RUN
from tests.fault.call_faults import EXECUTOR
from tests.fault.fault_driver import build
from tests.policy.run import PROGRAM, TIMEOUT_S

POLICY = 'version: 1\ndevices: {home: 0, executors: [1]}\nrules:\n  - {match: {function: "*"}, device: 1}\n'


@pytest.fixture(scope="module")
def tree(native_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(native_build / "native", native_build / "cuda-headers", tmp_path_factory.mktemp("fault"))


@pytest.mark.full
@pytest.mark.parametrize(
    ("limits", "told"), [([4096] * 20, 1), ([4096, 4096, 8192, 8192, 4096], 3), ([4096] * 2 + [8192] * 9, 2)]
)
def test_what_does_not_change_is_not_sent(
    limits: list[int], told: int, native_build: Path, tree: Path, tmp_path: Path
) -> None:
    """The n-th time that the executor sets an attribute fails, if there is one: a mark is left."""
    policy, mark = tmp_path / "policy.yaml", tmp_path / "mark"
    policy.write_text(POLICY)
    launches = [{"function": "alpha"}, *({"function": "alpha", "shared_limit": limit} for limit in limits)]
    for number, is_told in ((told, True), (told + 1, False)):
        mark.unlink(missing_ok=True)
        variables = {
            "TESSERA_NATIVE": str(tree),
            "TESSERA_FAULT_DRIVER": str(native_build / "native" / "emulator" / "libcuda.so.1"),
            "TESSERA_FAULT": f"{EXECUTOR}:{number}:cuFuncSetAttribute",
            "TESSERA_FAULT_MARK": str(mark),
        }
        done = subprocess.run(
            [str(TESSERA_RUN), "--emulate", "2", "--policy", str(policy), "--", sys.executable, str(PROGRAM)],
            input=json.dumps(launches),
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert (done.returncode, done.stdout.split()) == (0, [str(len(launches))]), done.stderr
        assert mark.exists() == is_told
