"""Accesses beyond memory under a policy: the driver's answers and messages are those without one."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.run.unchecked import EXIT_CODE
from tests.command import TESSERA_RUN, with_native
from tests.policy import bounds_guest
from tests.sample import sampled

GUEST = Path(bounds_guest.__file__)
POLICY = """version: 1
devices: {home: 0, executors: [1]}
memory: {place: follow}
rules:
  - {match: {function: store}, device: 1}
"""
SAMPLE = ["past_the_rounding", "freed_in_a_pool", "unmapped"]
STAYS = POLICY.replace("store", "nothing")
FOLLOWS = POLICY.replace("follow", "follow, move_after: 2")
FAULT = re.compile(r"kernel store.*")
ADDRESS = re.compile(r"0x[0-9a-f]+")


def run(native_build: Path, case: str, *options: str) -> tuple[list[int], list[str]]:
    """The driver's answers and what it said of faults, without the addresses, which differ."""
    done = subprocess.run(
        [str(TESSERA_RUN), "--emulate", "2", "--no-summary", *options, "--", sys.executable, str(GUEST), case],
        text=True,
        capture_output=True,
        env=with_native(native_build / "native"),
        timeout=60,
        check=False,
    )
    unchecked = EXIT_CODE if {"--verify", "--check-writes"} & {*options} else 0  # a kernel that fails is not compared
    assert done.returncode in (0, unchecked), done.stderr
    return [int(word) for word in done.stdout.split()], [ADDRESS.sub("0x", said) for said in FAULT.findall(done.stderr)]


def policy_file(tmp_path: Path, text: str) -> str:
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    return str(file)


@pytest.mark.full
@pytest.mark.parametrize("case", bounds_guest.CASES)
def test_faults_are_those_without_a_policy(case: str, native_build: Path, tmp_path: Path) -> None:
    alone = run(native_build, case)
    assert run(native_build, case, "--policy", policy_file(tmp_path, POLICY)) == alone
    assert alone[0]
    assert (700 in alone[0]) == (case not in ("inside", "used_before_it_is_freed", "copies"))
    assert len(alone[1]) == alone[0].count(700)


@pytest.mark.parametrize("case", sampled(["past_the_end", "freed_in_a_pool"], ["past_the_end"]))
def test_launches_that_stay_home_are_checked_too(case: str, native_build: Path, tmp_path: Path) -> None:
    assert run(native_build, case, "--policy", policy_file(tmp_path, STAYS)) == run(native_build, case)


@pytest.mark.full
def test_memory_that_moves_keeps_its_bounds(native_build: Path, tmp_path: Path) -> None:
    policy = policy_file(tmp_path, FOLLOWS)
    for case in ("inside", "past_the_rounding", "copies"):
        assert run(native_build, case, "--policy", policy)[0] == run(native_build, case)[0]


@pytest.mark.full
@pytest.mark.parametrize("option", ["--verify", "--check-writes"])
def test_what_copies_all_memory_is_not_taken_for_the_program(option: str, native_build: Path, tmp_path: Path) -> None:
    policy = policy_file(tmp_path, POLICY)
    answers, faults = run(native_build, "inside", "--policy", policy, f"{option}")
    assert answers == run(native_build, "inside")[0]
    assert not faults
    assert run(native_build, "past_the_end", "--policy", policy, f"{option}")[0] == [700]


def test_the_check_can_be_switched_off(native_build: Path, tmp_path: Path) -> None:
    answers, faults = run(native_build, "past_the_end", "--policy", policy_file(tmp_path, POLICY), "--no-bounds")
    assert answers == [0]
    assert not faults


def test_bounds_without_a_policy_are_a_mistake(native_build: Path) -> None:
    done = subprocess.run(
        [str(TESSERA_RUN), "--emulate", "2", "--bounds", "--", "true"],
        text=True,
        capture_output=True,
        env=with_native(native_build / "native"),
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "--policy" in done.stderr
