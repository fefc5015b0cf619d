"""--strict: a difference, a rule without effect, and a policy that verified nothing are failures of the run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from controlplane.policy.table import Launches, RuleUse
from controlplane.run.strict import failures
from controlplane.run.unchecked import EXIT_CODE
from tests.command import TESSERA_RUN
from tests.policy.run import ended

HEAD = "version: 1\ndevices: {home: 0, executors: [1]}\nrules:\n"
ALL, NONE = '  - {match: {function: "*"}, device: 1}\n', "  - {match: {function: aplha}, device: 1}\n"
SUM = [{"function": "alpha"}]
ASKS = [{"function": "sm_count"}]
CASES = {
    "all is well": (HEAD + ALL, SUM, ["--verify"], 0, ""),
    "a difference": (HEAD + ALL, ASKS, ["--verify"], EXIT_CODE, "1 of 1 verified launches gave other bytes"),
    "a rule without effect": (HEAD + NONE + ALL, SUM, [], EXIT_CODE, "rules matched no launch: line 4 of the policy"),
    "the policy's verify": (HEAD + ALL + "verify: 5\n", SUM, [], EXIT_CODE, "--verify: nothing was verified"),
}


@pytest.mark.full
@pytest.mark.parametrize("case", CASES)
def test_what_is_a_failure(case: str, native_build: Path, tmp_path: Path) -> None:
    text, launches, options, code, said = CASES[case]
    for strict in ([], ["--strict"]):
        done = ended(native_build, tmp_path, text, launches, *options, *strict, gpus="h200,l40s")
        assert done.returncode == (code if strict else 0), done.stderr
        if strict:
            assert said in done.stderr


def test_many_rules_are_told_shortly() -> None:
    rules = tuple(RuleUse(line, 0, ()) for line in range(4, 20))
    (told,) = failures(Launches({0: 1}, 0, {}, rules=rules), None)
    assert told == "rules matched no launch: line 4, 5, 6, 7, 8, 9, 10, 11, 12, 13 and 6 more of the policy"


def test_strict_needs_something_to_be_strict_about() -> None:
    done = subprocess.run([TESSERA_RUN, "--emulate", "1", "--strict", "--", "true"], text=True, capture_output=True)
    assert (done.returncode, "--strict is about rules and checks" in done.stderr) == (2, True)
