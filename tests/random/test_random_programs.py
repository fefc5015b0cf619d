"""A sample of scripts/lab random-programs: seeds under some of its policies; differences are seen and made small."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from pathlib import Path

import pytest

from tests.random import campaign
from tests.random.campaign import (
    NONE,
    POLICIES,
    Chunk,
    Policy,
    Ran,
    Setting,
    Shrinker,
    named,
    run,
    run_campaign,
    run_chunk,
)
from tests.sample import sampled

FIRST = 50_000
ALL = ("all", "nth", "share", "moving", "stream", "no-peer", "verify", "stats", "pool")
SAMPLE = ("share", "verify", "moving")


@pytest.fixture
def setting(native_build: Path, tmp_path: Path) -> Setting:
    return Setting(native_build, tmp_path)


@pytest.mark.parametrize(("chunk", "names"), sampled([(6, SAMPLE), (30, ALL)], [(6, SAMPLE)]))
def test_launches_on_other_gpus_change_nothing(setting: Setting, chunk: int, names: tuple[str, ...]) -> None:
    policies = [POLICIES[name] for name in names]
    programs = chunk * len(policies)
    found = run_campaign(setting, policies, range(FIRST, FIRST + programs), chunk=chunk)
    assert found.failures == []
    assert found.programs == programs
    for name in {*names} & {"all", "nth", "share", "moving"}:
        assert found.rows[name].away > chunk, f"{name}: no launches ran elsewhere"


def test_a_stream_that_one_thread_gives_work_at_home_while_another_sends_it_elsewhere(setting: Setting) -> None:
    """Two threads use the legacy stream: one makes it wait for an event, while a launch of the other departs."""
    words = ["--seed", "922291", "--only", "0.0.14,3.0.10", "--repeat", "2000"]
    ran = run(setting, POLICIES["stream"], words, 2000)
    assert ran.bad == ""
    assert len(ran.digests) == 2000
    assert len({digest for _, digest in ran.digests}) == 1


@pytest.mark.full
def test_programs_are_the_same_each_time(setting: Setting) -> None:
    """All features, twice without a policy: a program whose bytes depend on time would show no error of ours."""
    runs = [run(setting, POLICIES[NONE], ["--seed", str(FIRST), "--programs", "50"], 50) for _ in range(2)]
    assert [ran.bad for ran in runs] == ["", ""]
    assert runs[0].digests == runs[1].digests
    assert len({digest for _, digest in runs[0].digests}) == 50


def test_a_policy_has_another_place_of_memory_and_another_number_of_gpus() -> None:
    policy = named("nth+copies@2")
    assert policy is not None
    assert (policy.gpus, policy.memory) == (2, "copies")
    assert [rule.rpartition("device: ")[2] for rule in policy.rules] == ["1}", "1}"]
    assert named("nth") == POLICIES["nth"]
    assert [named(name) for name in ("nth@1", "none@2", "shim+copies", "nobody", "nth@")] == [None] * 5


@pytest.mark.full
def test_other_bytes_and_errors_are_failures(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    real = campaign.run

    def run_wrongly(setting: Setting, policy: Policy, arguments: list[str], programs: int) -> Ran:
        ran = real(setting, policy, arguments, programs)
        if policy.name != NONE:
            ran.digests = [(seed, "0" * 16 if seed == FIRST + 1 else digest) for seed, digest in ran.digests]
        return ran

    monkeypatch.setattr(campaign, "run", run_wrongly)
    chunk: Chunk = run_chunk(setting, POLICIES["shim"], FIRST, 3)
    assert [(failure.seed, failure.alone) for failure in chunk.failures] == [(FIRST + 1, campaign.ALONE)]


@pytest.mark.full
def test_a_program_too_small_to_be_verified_is_no_failure_again(setting: Setting) -> None:
    rarely = Policy("rarely", rules=POLICIES["verify"].rules, options=("--verify=1000000",))
    ((_, digest),) = run(setting, POLICIES[NONE], ["--seed", str(FIRST)], 1).digests
    assert run(setting, rarely, ["--seed", str(FIRST)], 1).bad == "exit code 3"
    assert campaign.fails_again(setting, rarely, FIRST, digest) == 0


def test_a_process_that_takes_too_long_says_so(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "LEAST_SECONDS", 0.0)
    hasty = dataclasses.replace(setting, patience_s=0)
    assert run(hasty, POLICIES[NONE], ["--seed", str(FIRST)], 1).bad == "exit code -9 after 0 s"


@pytest.mark.full
def test_a_failing_program_is_made_small(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if two operations, together, made other bytes."""
    shrinker = Shrinker(setting, POLICIES["shim"], FIRST + 3, 1)
    operations = shrinker.operations()
    needed = {operations[1], operations[-2]}
    real, seen = campaign.run, dict[tuple[str, ...], Ran]()

    def run_wrongly(setting: Setting, policy: Policy, arguments: list[str], programs: int) -> Ran:
        if (*arguments,) not in seen:
            seen[*arguments,] = real(setting, POLICIES[NONE], arguments, programs)
        ran = dataclasses.replace(seen[*arguments,])
        parts = [set(value.split(",")) for name, value in pairwise(arguments) if name == "--only"]
        if policy.name != NONE:
            ran.digests = [
                (seed, "0" * 16 if needed <= part else digest)
                for (seed, digest), part in zip(ran.digests, parts, strict=True)
            ]
        return ran

    monkeypatch.setattr(campaign, "run", run_wrongly)
    left = shrinker.shrink(print)
    assert left is not None
    assert set(left) == needed
