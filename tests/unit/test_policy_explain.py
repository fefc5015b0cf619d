"""Explanations of policies, what is found wrong in them, and decisions as the shim makes them."""

import json
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.commands.main import main
from controlplane.policy.assign import LATELY_NS, Assigner
from controlplane.policy.decide import Decider, Launch, drawn, holds
from controlplane.policy.explain import (
    Gpu,
    Severity,
    explain_default,
    explain_memory,
    explain_rule,
    findings,
    implies,
    main_gpu,
)
from controlplane.policy.language import BY_STREAM, BY_THREAD, FOLLOW, Interval, Match, Nth, Policy, Rule, Share
from controlplane.policy.read import read_policy
from tests import schemas

POLICY = """version: 1
devices: {home: 0, executors: [1, {gpu: 2, sm_limit: 400, memory_limit: 1TiB}, 9]}
rules:
  - match: {function: "*gemm*", grid: {blocks: ">= 128"}, nth: {every: 2, offset: 1}}
    device: 1
  - match: {function_regex: "^relu", module: "libt*", process: "python*", stream: 2, share: {fraction: 0.5, seed: 3}}
    device: 2
  - match: {function: "*", nth: 3, grid: {threads: 1..64, block_threads: 32}}
    device: home
  - match: {function: "sgemm_*", grid: {blocks: 256..512}, nth: {every: 4, offset: 3}}
    device: 2
  - match: {function: "gemv", share: 0}
    device: 1
  - match: {stream: default}
    device: 1
default: 1
"""
EXPLAINED = """
launches of functions named *gemm*, with at least 128 blocks, \
that are every 2nd of their function from the 1st on run on GPU 1
launches of functions whose name contains a match of /^relu/, of modules named libt*, in processes named python*, \
in the 2nd stream that the program makes, chosen as if at random (50 %, seed 3) run on GPU 2
launches with 1 to 64 threads, with 32 threads per block, that are the 3rd of their function stay on GPU 0 (home)
launches of functions named sgemm_*, with 256 to 512 blocks, that are every 4th of their function from the 3rd on \
run on GPU 2
launches of functions named gemv, chosen as if at random (0 %, seed 0) run on GPU 1
launches in a default stream run on GPU 1
"""
GPUS = [Gpu("a", 132, 141 << 30)] * 3


@pytest.fixture
def policy(tmp_path: Path) -> Policy:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    return read_policy(file)


def test_rules_in_plain_words(policy: Policy) -> None:
    explained = "\n".join(explain_rule(policy, rule) for rule in policy.rules)
    assert explained == EXPLAINED.strip()
    assert explain_default(policy) == "launches that no rule matches run on GPU 1"
    copies = "each GPU has a copy of the program's memory, and of its bytes those that its launches use"
    assert explain_memory(policy) == copies
    follows = "the program's memory lies on the GPU whose launches use it, and on GPU 1 at first"
    assert explain_memory(replace(policy, memory_place=FOLLOW)) == follows
    assert explain_memory(replace(policy, memory_place=0)) == "the program's memory lies on GPU 0 (home)"


def test_rules_that_give_gpus_in_plain_words(policy: Policy) -> None:
    given = replace(policy, rules=(Rule(Match(function="a*"), BY_STREAM, 4),), default=BY_THREAD)
    gpus = "GPU 0 (home), GPU 1, GPU 2, GPU 9"
    assert explain_rule(given, given.rules[0]) == (
        "launches of functions named a* run on their stream's GPU: "
        f"each new stream is given the one with the least to do of {gpus}"
    )
    assert explain_default(given) == (
        "launches that no rule matches run on their thread's GPU: "
        f"each new thread is given the one with the least to do of {gpus}"
    )
    assert main_gpu(given) == 0
    assert not any("no rule sends anything" in finding.text for finding in findings(given, None))


class Model:
    """The shim's way, from its words: lists and sorting in the place of counters."""

    def __init__(self, gpus: tuple[int, ...]) -> None:
        self.gpus = gpus
        self.owners: dict[int, tuple[int, list[int]]] = {}  # GPU, and when it was given and was seen to have launched
        self.unseen: set[int] = set()

    def gpu_of(self, owner: int, now: int) -> int:
        if owner not in self.owners:
            for other in self.unseen & self.owners.keys():
                self.owners[other][1].append(now)
            self.unseen.clear()
            all_there = [gpu for gpu, _ in self.owners.values()]
            lately = [gpu for gpu, seen in self.owners.values() if now - seen[-1] < LATELY_NS]
            order = sorted(self.gpus, key=all_there.count)
            self.owners[owner] = min(order, key=lately.count), [now]
        self.unseen.add(owner)
        return self.owners[owner][0]


def test_owners_are_assigned_as_they_should_be() -> None:
    source = random.Random(15)
    for _ in range(300):
        gpus = tuple(range(source.randint(1, 4)))
        assigner, model, now = Assigner(gpus), Model(gpus), 10**12
        for _ in range(200):
            owner = source.randrange(12)
            now += source.choice([0, 1, LATELY_NS // 3, LATELY_NS]) if source.random() < 0.2 else 1000
            if source.random() < 0.1:
                assigner.end(owner)
                model.owners.pop(owner, None)
                model.unseen.discard(owner)
            else:
                assert assigner.gpu_of(owner, now) == model.gpu_of(owner, now)


def test_newcomers_are_divided_evenly() -> None:
    for gpus in (2, 3, 4):
        for before in range(6):
            assigner = Assigner(tuple(range(gpus)))
            for owner in range(before):
                assigner.gpu_of(("before", owner), 0)
            given = [assigner.gpu_of(owner, 10**9 + owner) for owner in range(2 * gpus)]
            assert Counter(given) == dict.fromkeys(range(gpus), 2)


def test_what_is_wrong_is_found(policy: Policy) -> None:
    assert [(f.severity, f.line, f.text) for f in findings(policy, GPUS)] == [
        (Severity.ERROR, 2, "sm_limit 400 of GPU 2 is more than its 132 SMs"),
        (Severity.WARNING, 2, f"memory_limit of GPU 2 is more than its {141 << 30} bytes"),
        (Severity.ERROR, 2, "GPU 9 does not exist: the machine has 3 GPUs"),
        (Severity.WARNING, 2, "no rule sends anything to GPU 9, which is an executor"),
        (Severity.WARNING, 10, "the rule is never reached: the one in line 4 takes every launch that it matches"),
        (Severity.WARNING, 12, "the rule never holds: its share is 0"),
    ]
    assert not any("GPU 2" in f.text for f in findings(policy, None))


@pytest.mark.parametrize(
    ("match", "reason"),
    [
        (Match(block_threads=Interval(1025, 4096)), "a block has at most 1024 threads"),
        (Match(blocks=Interval(0, 0)), "at least one block"),
        (Match(blocks=Interval(100, 200), threads=Interval(1, 99)), "no grid has that many"),
        (Match(blocks=Interval(1, 2), threads=Interval(4096, 9999)), "no grid has that many"),
        (Match(function="_Z4reluPf", function_regex="^gemm"), "does not match"),
    ],
)
def test_rules_that_never_hold(match: Match, reason: str, tmp_path: Path) -> None:
    policy = Policy(tmp_path, 0, (), (Rule(match, 0, 7),), 0)
    (finding,) = findings(policy, None)
    assert reason in finding.text


def random_match(source: random.Random) -> Match:
    def maybe(value: object) -> object:
        return value if source.random() < 0.35 else None

    low = source.randint(1, 6)
    every = source.choice([0, 1, 2, 3, 4])
    offset = source.randint(1, 5) if every == 0 else source.randrange(every)
    return Match(
        function=maybe(source.choice(["*", "a*", "ab*", "*b", "ab", "a?", "a?c", "[ab]*", "abc"])),  # type: ignore[arg-type]
        function_regex=maybe(source.choice(["a", "^ab", "c$", "b."])),  # type: ignore[arg-type]
        blocks=maybe(Interval(low, low + source.randint(0, 4))),  # type: ignore[arg-type]
        stream=maybe(source.randint(0, 1)),  # type: ignore[arg-type]
        nth=maybe(Nth(every, offset)),  # type: ignore[arg-type]
        share=maybe(Share(source.choice([0.2, 0.6, 1.0]), source.randint(0, 1))),  # type: ignore[arg-type]
    )


@pytest.mark.full
def test_what_is_implied_holds() -> None:
    """Against all launches of a small world: a rule is never called hidden that some launch could reach."""
    source = random.Random(4)
    world = [
        (Launch(name, blocks, stream=stream), number)
        for name in ("a", "b", "ab", "ac", "abc", "abb", "cab", "aabc")
        for blocks in range(1, 11)
        for stream in (0, 1)
        for number in range(1, 13)
    ]
    implied = 0
    for _ in range(3000):
        narrow, wide = random_match(source), random_match(source)
        if implies(narrow, wide):
            implied += 1
            assert all(holds(wide, *one) for one in world if holds(narrow, *one)), (narrow, wide)
    assert implied > 100


def test_the_first_rule_that_holds_decides(policy: Policy) -> None:
    decider = Decider(policy)
    big, small = Launch("sgemm", blocks=128, stream=1), Launch("sgemm", blocks=1, stream=1)
    assert [decider.decide(launch) for launch in (big, big, big, small)] == [0, None, 0, None]
    assert decider.decide(Launch("other", block_threads=32)) == 5
    assert decider.decide(Launch("other", stream=1)) is None
    assert decider.decide(Launch("other", stream=1, block_threads=32)) == 2
    assert decider.decide(Launch("other", stream=1, block_threads=32, owner="another module")) is None


def test_shares_are_drawn_evenly() -> None:
    for fraction in (0.1, 0.5, 0.9):
        for seed in (0, 1, 2**63):
            count = sum(drawn(Share(fraction, seed), "kernel", number) for number in range(1, 10001))
            assert abs(count - 10000 * fraction) < 250


def test_the_command_explains_and_judges(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    assert main(["policy", "check", str(file), "--emulate", "3"]) == 1
    text = capsys.readouterr().out
    assert "line 14: launches in a default stream run on GPU 1\n" in text
    assert f"{file}:2: error: GPU 9 does not exist" in text
    assert main(["policy", "check", "--json", str(file), "--emulate", "10"]) == 1
    value = json.loads(capsys.readouterr().out)
    schemas.check("policy", value)
    assert value["rules"][2] == {
        "line": 8,
        "device": 0,
        "text": "launches with 1 to 64 threads, with 32 threads per block, that are the 3rd of their function "
        "stay on GPU 0 (home)",
    }
    assert {finding["severity"] for finding in value["findings"]} == {"error", "warning"}


def test_a_good_policy_has_no_findings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text('version: 1\ndevices: {executors: [1]}\nrules: [{match: {function: "*"}, device: 1}]\n')
    assert main(["policy", "check", str(file), "--emulate", "2"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "home: GPU 0",
        "executor: GPU 1",
        "line 3: all launches run on GPU 1",
        "default: launches that no rule matches stay on GPU 0 (home)",
        "memory: the program's memory lies on the GPU whose launches use it, and on GPU 1 at first",
    ]


def test_a_mistake_ends_with_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY.replace("share", "chare"))
    assert main(["policy", "check", str(file)]) == 2
    assert f"{file}:6: rules.match: unknown key 'chare', did you mean 'share'?" in capsys.readouterr().err


def test_the_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "schema"]) == 0
    assert json.loads(capsys.readouterr().out)["properties"]["rules"]["items"]["required"] == ["match", "device"]
