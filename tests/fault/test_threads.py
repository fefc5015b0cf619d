"""Threads that allocate, map, free and launch at the same time have their results, whatever driver call takes long."""

from __future__ import annotations

import os
import subprocess
from itertools import product
from pathlib import Path

import pytest

from controlplane.run.unchecked import EXIT_CODE
from tests.command import TESSERA_RUN
from tests.fault.fault_driver import build, delays
from tests.sample import sampled

TIMEOUT_S = 120
POLICY = "version: 1\ndevices: {home: 0, executors: [1]}\n"
POLICY += "memory: {place: follow}\nrules:\n  - {match: {function: add}, device: 1}\n"
ALL_SORTS = "mpsavrhio"
VERIFY, VERIFY_SOME, CHECK = ("--verify=1",), ("--verify=3",), ("--check-writes=1",)
SLOW_US = 3000
SLOW = [
    ("cuMemFree_v2", "m", ()),
    ("cuMemFreeAsync", "p", ()),
    ("cuMemUnmap", "va", VERIFY),
    ("cuMemUnmap", "va", CHECK),
    ("cuMemSetAccess", "vvvvs", VERIFY),
    ("cuMemSetAccess", "vvvvs", CHECK),
    ("cuMemUnmap", "ia", VERIFY),
    ("cuMemUnmap", "ia", CHECK),
]


@pytest.fixture(scope="module")
def tree(native_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(native_build / "native", native_build / "cuda-headers", tmp_path_factory.mktemp("delay"))


def run(native_build: Path, tmp_path: Path, delayed: dict[str, str], program: list[str], *options: str) -> str:
    """What the run said on standard error. The program has its results. A second run knows its kernels."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    ruled = [] if options == CHECK else ["--policy", str(policy)]
    command = [str(TESSERA_RUN), "--emulate", "2", "--no-summary", *ruled, *options, "--"]
    for _ in range(2):
        done = subprocess.run(
            [*command, str(native_build / "fault" / "fault_threads"), *program],
            env={**os.environ, **delayed},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        if done.returncode != EXIT_CODE:
            break
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stderr
    return done.stderr


@pytest.mark.full
@pytest.mark.parametrize(
    ("calls", "sorts", "options"),
    SLOW,
)
def test_a_call_that_takes_long(
    calls: str, sorts: str, options: tuple[str, ...], native_build: Path, tree: Path, tmp_path: Path
) -> None:
    delayed = delays(native_build / "native", tree, 1, calls, SLOW_US)
    said = run(native_build, tmp_path, delayed, ["8", "1", sorts], *options)
    assert "error" not in said, said


@pytest.mark.parametrize(("seed", "options"), sampled([*product((1, 2), ((), VERIFY_SOME))], []))
def test_calls_delayed_by_seed(
    seed: int, options: tuple[str, ...], native_build: Path, tree: Path, tmp_path: Path
) -> None:
    delayed = delays(native_build / "native", tree, seed)
    run(native_build, tmp_path, delayed, ["12", str(seed), ALL_SORTS], *options)
