"""Each condition of a rule, seen in where launches of a program run."""

import random
from collections import Counter
from pathlib import Path

import pytest

from controlplane.base.content import content_hash
from controlplane.policy import decide
from controlplane.policy.read import read_policy
from tests.policy.launches import FUNCTIONS, MANGLED
from tests.policy.run import Launch, run
from tests.sample import sampled

HEAD = "version: 1\ndevices: {home: 0, executors: [1, 2]}\nrules:\n"
SEVERAL: list[Launch] = [{"function": name} for name in ("alpha", "beta", "gamma") for _ in range(4)]


def rules(*lines: str) -> str:
    return HEAD + "".join(f"  - {line}\n" for line in lines) + "memory: {place: follow}\n"


CONDITIONS: list[tuple[str, dict[tuple[str, int], int]]] = [
    (
        rules('{match: {function: "al*"}, device: 1}', '{match: {function_regex: "^(alpha|beta)$"}, device: 2}'),
        {("alpha", 1): 4, ("beta", 2): 4, ("gamma", 0): 4},
    ),
    (
        rules('{match: {function: "beta"}, device: home}') + "default: 2\n",
        {("alpha", 2): 4, ("beta", 0): 4, ("gamma", 2): 4},
    ),
    (
        rules("{match: {nth: {every: 2, offset: 1}}, device: 1}", "{match: {nth: 2}, device: 2}"),
        {(name, gpu): count for name in ("alpha", "beta", "gamma") for gpu, count in ((0, 1), (1, 2), (2, 1))},
    ),
    (
        rules('{match: {process: "python*", function: alpha}, device: 1}', '{match: {process: "perl"}, device: 2}'),
        {("alpha", 1): 4, ("beta", 0): 4, ("gamma", 0): 4},
    ),
    (
        rules("{match: {share: 0}, device: 1}", "{match: {share: 1}, device: 2}"),
        {(n, 2): 4 for n in ("alpha", "beta", "gamma")},
    ),
    (rules('{match: {module: "nothing*"}, device: 1}'), {(n, 0): 4 for n in ("alpha", "beta", "gamma")}),
]


@pytest.mark.parametrize(("policy", "expected"), sampled(CONDITIONS, [CONDITIONS[0], CONDITIONS[2], CONDITIONS[4]]))
def test_conditions_on_functions(
    policy: str, expected: dict[tuple[str, int], int], native_build: Path, tmp_path: Path
) -> None:
    outcome = run(native_build, tmp_path, policy, SEVERAL)
    assert outcome.by_function == expected
    by_device = {str(gpu): sum(n for (_, where), n in expected.items() if where == gpu) for gpu in range(3)}
    assert outcome.report["launches"] == {"total": 12, "by_device": by_device, "kept_home": 0}


def test_conditions_on_sizes(native_build: Path, tmp_path: Path) -> None:
    policy = rules(
        '{match: {grid: {blocks: ">= 128", threads: "< 32768"}}, device: 1}',
        "{match: {grid: {block_threads: 64..96}}, device: 2}",
    )
    launches = [
        {"function": "alpha", "blocks": 128, "threads": 32},
        {"function": "beta", "blocks": 127, "threads": 64},
        {"function": "beta", "blocks": 512, "threads": 64},
        {"function": "gamma", "blocks": 127, "threads": 97},
    ]
    assert run(native_build, tmp_path, policy, launches).by_function == {
        ("alpha", 1): 1,
        ("beta", 2): 2,
        ("gamma", 0): 1,
    }


def test_conditions_on_streams(native_build: Path, tmp_path: Path) -> None:
    policy = rules("{match: {stream: 2}, device: 1}", "{match: {stream: default}, device: 2}")
    launches = [{"function": name, "stream": stream} for name, stream in (("alpha", 2), ("beta", 0), ("gamma", 1))]
    assert run(native_build, tmp_path, policy, launches).by_function == {
        ("alpha", 1): 1,
        ("beta", 2): 1,
        ("gamma", 0): 1,
    }


def test_a_module_is_matched_by_the_hash_of_its_image(native_build: Path, tmp_path: Path) -> None:
    from tests.policy.launches import PTX

    value = content_hash(PTX.encode() + b"\0")
    outcome = run(native_build, tmp_path, rules(f'{{match: {{module: "{value:016x}"}}, device: 1}}'), SEVERAL)
    assert outcome.by_function == {(name, 1): 4 for name in ("alpha", "beta", "gamma")}


@pytest.mark.full
def test_a_share_depends_on_its_seed_only(native_build: Path, tmp_path: Path) -> None:
    launches: list[Launch] = [{"function": "alpha"} for _ in range(400)]
    seen = [
        run(
            native_build, tmp_path, rules(f"{{match: {{share: {{fraction: 0.3, seed: {seed}}}}}, device: 1}}"), launches
        )
        for seed in (1, 1, 2)
    ]
    counts = [outcome.by_function["alpha", 1] for outcome in seen]
    assert counts[0] == counts[1]
    assert all(80 <= count <= 160 for count in counts)


def test_decisions_are_logged_once_per_function(native_build: Path, tmp_path: Path) -> None:
    policy = rules("{match: {function: beta}, device: 1}") + "log: decisions\n"
    errors = run(native_build, tmp_path, policy, SEVERAL).errors
    assert errors.count("beta: line 4 of the policy holds, GPU 1") == 1
    assert errors.count("alpha: no rule of the policy holds, GPU 0") == 1


GLOBS = ["_ZN4some5delta*", "some::delta<float, 3>", "some::*", "void some::delta<*>(float[*])", "*::delta<*3>*"]


@pytest.mark.parametrize("glob", sampled(GLOBS, [GLOBS[3]]))
def test_globs_match_the_names_that_people_know(glob: str, native_build: Path, tmp_path: Path) -> None:
    several: list[Launch] = [{"function": name} for name in FUNCTIONS]
    outcome = run(native_build, tmp_path, rules(f'{{match: {{function: "{glob}"}}, device: 1}}'), several)
    assert outcome.by_function == {**{(name, 0): 1 for name in FUNCTIONS[:3]}, (MANGLED, 1): 1}
    assert outcome.report["rules"] == [{"line": 4, "launches": 1, "nearest": []}]
    assert "matched no launch" not in outcome.errors


def test_rules_that_matched_nothing_are_named_with_what_is_like_them(native_build: Path, tmp_path: Path) -> None:
    policy = rules(
        "{match: {function: alpha}, device: 1}",
        "{match: {function: aplha}, device: 1}",
        '{match: {function: "some::dleta*"}, device: 1}',
        "{match: {function: detla}, device: 1}",
        "{match: {function: nothing}, device: 1}",
        "{match: {nth: 100}, device: 2}",
    )
    launches: list[Launch] = [{"function": name} for name in (*FUNCTIONS, "alpha")]
    outcome = run(native_build, tmp_path, policy, launches)
    delta = "some::delta<float, 3>"
    found = [(each["line"], each["launches"], each["nearest"]) for each in outcome.report["rules"]]
    assert found == [(4, 2, []), (5, 0, ["alpha"]), (6, 0, [delta]), (7, 0, [delta]), (8, 0, []), (9, 0, [])]
    assert "line 4 matched" not in outcome.errors
    assert f"the rule in line 6 matched no launch; did you mean {delta}?" in outcome.errors
    assert "the rule in line 8 matched no launch\n" in outcome.errors


def random_rule(source: random.Random) -> str:
    conditions = {
        "function": source.choice(['"*"', '"a*"', '"?e*"', '"[bg]*"', '"some::*"', '"*float*"']),
        "function_regex": source.choice(['"^(al|ga)"', '"ta$"', '"m+a"']),
        "grid": source.choice(['{blocks: ">= 8"}', '{threads: "< 64"}', "{block_threads: 16..32}"]),
        "stream": source.choice(["default", "1", "2"]),
        "nth": source.choice(["3", "{every: 2}", "{every: 5, offset: 4}"]),
        "share": source.choice(["0.3", "{fraction: 0.7, seed: 9}"]),
    }
    chosen = source.sample(sorted(conditions), source.randint(1, 3))
    match = ", ".join(f"{key}: {conditions[key]}" for key in chosen)
    return f"{{match: {{{match}}}, device: {source.choice(['0', '1', '2', 'home'])}}}"


@pytest.mark.parametrize("seed", sampled(range(6), [0]))
def test_the_shim_decides_as_the_model_does(seed: int, native_build: Path, tmp_path: Path) -> None:
    """Random policies and launches: where each function's launches ran is what the evaluation in Python says."""
    source = random.Random(seed)
    policy = rules(*(random_rule(source) for _ in range(8)))
    launches = [
        decide.Launch(
            source.choice(FUNCTIONS), source.choice([1, 4, 8, 16]), source.choice([1, 16, 32, 64]), source.randint(0, 2)
        )
        for _ in range(120)
    ]
    told: list[Launch] = [
        {"function": one.function, "blocks": one.blocks, "threads": one.block_threads, "stream": one.stream}
        for one in launches
    ]
    outcome = run(native_build, tmp_path, policy, told)
    read = read_policy(tmp_path / "policy.yaml")
    decider = decide.Decider(read)
    expected: Counter[tuple[str, int]] = Counter()
    for launch in launches:
        place = decider.decide(decide.Launch(launch.function, launch.blocks, launch.block_threads, launch.stream))
        expected[launch.function, read.default if place is None else read.rules[place].device] += 1
    assert outcome.by_function == expected
    assert outcome.report["launches"]["kept_home"] == 0
