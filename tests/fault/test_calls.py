"""Driver calls that fail in the executor and in the application's process: right results or an error, and an end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fault.call_faults import ALLOCATION, APPLICATION, EXECUTOR, is_right, run
from tests.fault.executor_faults import POLICY
from tests.fault.fault_driver import build


@pytest.fixture(scope="module")
def tree(native_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(native_build / "native", native_build / "cuda-headers", tmp_path_factory.mktemp("fault"))


@pytest.mark.parametrize(
    ("process", "number"),
    [(EXECUTOR, 1), (EXECUTOR, 8), (EXECUTOR, 27), (EXECUTOR, 35), (APPLICATION, 14), (APPLICATION, 40)],
)
def test_a_call_that_fails(process: str, number: int, native_build: Path, tree: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    outcome = run(native_build / "native", tree, policy, process, number)
    assert is_right(outcome), outcome
    assert (tree.parent / "mark").exists(), "the fault did not happen"


@pytest.mark.parametrize(("process", "number"), [(EXECUTOR, 20), (EXECUTOR, 27), (APPLICATION, 12), (APPLICATION, 30)])
def test_an_allocation_that_fails(process: str, number: int, native_build: Path, tree: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    outcome = run(native_build / "native", tree, policy, process, number, ALLOCATION)
    assert is_right(outcome), outcome
    assert (tree.parent / "mark").exists(), "the fault did not happen"


def test_faults_are_noticed(native_build: Path, tree: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    assert run(native_build / "native", tree, policy, APPLICATION, 0) == "right"
    assert run(native_build / "native", tree, policy, APPLICATION, 1) == "error 2"
