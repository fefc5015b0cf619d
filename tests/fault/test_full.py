"""A GPU that has no memory left in the middle of pulls: right results, and what it cannot hold is used at home."""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path

import pytest

from scripts.commands.lab import faults
from tests.fault.call_faults import APPLICATION, CALL, EXECUTOR
from tests.fault.executor_faults import Outcome

CALLS = [*product((EXECUTOR, APPLICATION), faults.MEMORY_CALLS[:2])]


@pytest.fixture(scope="module")
def setting(native_build: Path, tmp_path_factory: pytest.TempPathFactory) -> faults.Setting:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TESSERA_NATIVE", str(native_build / "native"))
        chosen = argparse.Namespace(memory="copies", real=False, seed=1, bound=5.0)  # on a busy machine
        return faults.prepared(tmp_path_factory.mktemp("full"), chosen)


@pytest.mark.full
def test_another_process_takes_the_memory_that_copies_need(setting: faults.Setting) -> None:
    run = faults.full_gpu(setting, 1)
    assert (run.wrong, run.said, run.happened) == ("", "right", True)


@pytest.mark.full
@pytest.mark.parametrize(("process", "function"), CALLS)
def test_a_call_for_a_copy_s_memory_fails(process: str, function: str, setting: faults.Setting) -> None:
    run = faults.failing(setting, 0, "memory", process, CALL, function)
    assert run.wrong == ""


def test_what_the_machine_itself_makes_wait_is_not_held_against_a_run(setting: faults.Setting, tmp_path: Path) -> None:
    outcome = Outcome("right", 0.0, "slowest round 6000000 us\n", "")
    assert faults.judged(setting, "memory", "full", outcome).wrong == "took 6.00 s"
    (tmp_path / "native").write_text("slowest round 1500000 us\n")
    slack = faults.slowest_natively(tmp_path / "native")
    assert faults.judged(setting, "memory", "full", outcome, slack).wrong == ""
    assert faults.slowest_natively(tmp_path / "none") == 0.0


def test_runs_are_shared_out_and_told() -> None:
    jobs = faults.plan(500, real=False)
    assert len(jobs) == len(set(jobs)) == 500
    assert {kind for kind, _ in faults.plan(100, real=True)} == {"executors", "memory"}
    runs = [
        faults.Run("calls", "one", "right", 0.5, ""),
        faults.Run("calls", "one", "error 2", 1.5, "took 1.50 s"),
        faults.Run("memory", "full", "right", 0.0, "", happened=False),
    ]
    said = faults.table(runs)
    assert "3 runs, 1 wrong" in said
    assert "in 1 of memory" in said
    assert any(line.split()[-5:] == ["1", "0", "1", "1.50", "s"] for line in said.splitlines())
