"""What is said of a run in which a check that was asked for checked nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.base.screen import plain
from controlplane.machine import doctor
from controlplane.policy.table import Launches, Schedule
from controlplane.report.statistics import AnalysisReport
from controlplane.run import unchecked
from controlplane.run.closing import _analysis_lines
from controlplane.run.summary import to_text
from ptxtools.machine import disassembler

NOTHING = Launches({0: 3, 1: 0}, 0, {})
SCHEDULE = Schedule(3, 0, 0, 0, 0, 100, 100, 100, 0)


@pytest.mark.parametrize(
    ("launches", "verify", "said"),
    [
        (NOTHING, None, None),
        (NOTHING, 0, None),
        (replace(NOTHING, verified=1), 1, None),
        (NOTHING, 1, "of 3 launches, none ran elsewhere"),
        (NOTHING, 1, "the policy's rules say"),
        (replace(NOTHING, by_device={0: 0, 1: 0}), 1, "nothing was verified: the program launched nothing"),
        (replace(NOTHING, by_device={0: 0, 1: 0}, graphs={0: 2}), 1, "of 0 launches, none ran elsewhere"),
        (replace(NOTHING, schedule=SCHEDULE), 1, "of 3 launches, none ran elsewhere; which do, the schedule decides"),
        (replace(NOTHING, by_device={0: 0, 1: 3}), 5, "none that runs elsewhere was the 5th"),
        (replace(NOTHING, kept_home=2, kept_reasons={"heap": 2}), 1, "2 launches stayed home .* (heap: 2)"),
        (replace(NOTHING, not_verified=4), 1, "4 launches could not be"),
    ],
)
def test_verifying(launches: Launches, verify: int | None, said: str | None) -> None:
    found = unchecked.unchecked(launches, None, None, verify)
    if said is None:
        assert found == []
        return
    (text,) = found
    assert text.startswith("--verify: nothing was verified: ")
    assert all(part in text for part in said.split(" .* "))


def test_what_no_rule_placed_is_not_told_as_a_policy() -> None:
    placed = replace(NOTHING, schedule=SCHEDULE)
    by_rules, by_schedule = (plain(to_text(None, each, with_kernels=False)) for each in (NOTHING, placed))
    assert by_rules.startswith("where the policy sent launches")
    assert "although a rule sent them elsewhere: 0" in by_rules
    assert by_schedule.startswith("where launches were placed")
    assert "rule" not in by_schedule
    kept = replace(placed, kept_home=2, kept_reasons={"heap": 2})
    assert "2 (heap: 2)" in plain(to_text(None, kept, with_kernels=False))


def test_functions_are_counted_in_one_sentence() -> None:
    (said,) = _analysis_lines(AnalysisReport(5, 3, 1, 2, 0))
    assert "of 5, 3 are known, 1 are not, 1 were not analysed in time" in said


@pytest.mark.parametrize("missing", [[], ["zstandard"], ["zstandard", "nvidia-cuda-nvdisasm"]])
def test_packages_without_which_little_is_known(missing: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "installed", lambda name: None if name in missing else "1.0")
    monkeypatch.setattr(disassembler, "locate", lambda: None if disassembler.PACKAGE in missing else Path("nvdisasm"))
    _, *absent = _analysis_lines(AnalysisReport(2, 0, 2, 0, 2))
    assert [line.partition(" is not installed: ")[0] for line in absent] == sorted(missing)
    assert len(_analysis_lines(AnalysisReport(2, 2, 0, 0, 2))) == 1
