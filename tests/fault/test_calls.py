"""Driver calls that fail in the executor and in the application's process: right results or an error, and an end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fault import checked_faults
from tests.fault.call_faults import ALLOCATION, APPLICATION, EXECUTOR, is_right, run
from tests.fault.executor_faults import COPIES, FOLLOW, POLICY, learn
from tests.fault.fault_driver import build
from tests.sample import sampled

ALLOCATIONS = [(EXECUTOR, 20), (EXECUTOR, 27), (APPLICATION, 12), (APPLICATION, 30)]
CALLS = [(EXECUTOR, 1), (EXECUTOR, 8), (EXECUTOR, 27), (EXECUTOR, 35), (APPLICATION, 14), (APPLICATION, 40)]


@pytest.fixture(scope="module")
def tree(native_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(native_build / "native", native_build / "cuda-headers", tmp_path_factory.mktemp("fault"))


@pytest.mark.parametrize(
    ("process", "number"),
    sampled(CALLS, [(EXECUTOR, 1), (APPLICATION, 14)]),
)
def test_a_call_that_fails(process: str, number: int, native_build: Path, tree: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY + FOLLOW)
    outcome = run(native_build / "native", tree, policy, process, number)
    assert is_right(outcome), outcome
    assert (tree.parent / "mark").exists(), "the fault did not happen"


@pytest.fixture(scope="module")
def copies(native_build: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A policy, and variables with which its copies are used from the first launch on."""
    place = tmp_path_factory.mktemp("copies")
    policy = place / "policy.yaml"
    policy.write_text(POLICY + COPIES)
    return policy, learn(native_build / "native", policy, place / "cache")


# The 28th to 36th events recorded are those of streams that end, or of others that pulls come after.
COPIED = [(APPLICATION, f"{number}:cuEventRecord") for number in (28, 30, 33, 36)]
COPIED += [(APPLICATION, f"{number}:cuMemcpyDtoDAsync_v2") for number in (1, 9)]
COPIED += [(APPLICATION, f"{number}:cuStreamGetDevice") for number in (1, 5)]
COPIED += [(EXECUTOR, f"{number}:cuMemcpyDtoDAsync_v2") for number in (1, 2)]


@pytest.mark.parametrize(("process", "number"), sampled(COPIED, [COPIED[0], COPIED[-2]]))
def test_a_call_that_fails_while_there_are_copies(
    process: str, number: str, native_build: Path, tree: Path, copies: tuple[Path, dict[str, str]]
) -> None:
    policy, variables = copies
    outcome = run(native_build / "native", tree, policy, process, number, variables=variables)
    assert is_right(outcome), outcome
    assert (tree.parent / "mark").exists(), "the fault did not happen"


@pytest.mark.parametrize(("process", "number"), sampled(ALLOCATIONS, ALLOCATIONS[1::2]))
def test_an_allocation_that_fails(process: str, number: int, native_build: Path, tree: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY + FOLLOW)
    outcome = run(native_build / "native", tree, policy, process, number, ALLOCATION)
    assert is_right(outcome), outcome
    assert (tree.parent / "mark").exists(), "the fault did not happen"


# What a check asks for, each for the first time, and the third look-up of a variable: the program has two of its own.
OF_CHECKS = [
    "3:cuStreamGetCtx",
    "1:cuLibraryLoadData",
    "1:cuLibraryGetKernel",
    "3:cuModuleGetGlobal_v2",
    "5:cuModuleGetGlobal_v2",
    "1:cuMemcpyDtoDAsync_v2",
    "1:cuLibraryGetGlobal",
    "1:cuMemcpyHtoDAsync_v2",
    "1:cuCtxRecordEvent",
    "1:cuEventQuery",
]
LAUNCHES = 13  # of the program


@pytest.mark.full
def test_what_fails_in_a_check_is_not_noticed(native_build: Path, tree: Path) -> None:
    asked = ["--calls", ",".join(["0", *OF_CHECKS]), "--allocations", "9,40,43"]
    found = list(checked_faults.outcomes(native_build / "native", tree, asked))
    assert [each.number for each in found if each.sort == "call"] == ["0", *OF_CHECKS]
    assert [each for each in found if each.wrong] == []
    assert {each.said for each in found if each.sort == "call"} == {"right"}
    assert found[0].tested == LAUNCHES
    assert all(0 < each.tested < LAUNCHES for each in found[1:] if each.sort == "call")


def test_faults_are_noticed(native_build: Path, tree: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY + FOLLOW)
    assert run(native_build / "native", tree, policy, APPLICATION, 0) == "right"
    assert run(native_build / "native", tree, policy, APPLICATION, 1) == "error 2"
