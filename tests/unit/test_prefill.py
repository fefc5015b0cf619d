"""scripts/bench/prefill.py without GPUs: its policies, how it takes turns, what it reads and says."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.policy.language import FOLLOW
from controlplane.policy.read import read_policy
from scripts.bench import prefill
from scripts.bench.launch_overhead import Interval

WORKER = """import sys
print("a line of the program's own")
print("ready", flush=True)
for number, _ in enumerate(sys.stdin):
    print({seconds} + number, flush=True)
"""
SAID = """k_home: median 2813 ns, least 2700 ns per launch
k_away: median 391 ns, least 350 ns per launch
k_away: median 250 ns, least 240 ns per launch
"""


def test_the_policies_are_good(tmp_path: Path) -> None:
    policies = {place: prefill.mode(2, place, "*", tmp_path) for place in prefill.PLACES}
    read = {place: read_policy(tmp_path / f"{place}-all.yaml") for place in policies}
    assert {place: policy.memory_place for place, policy in read.items()} == {"home": 0, "follow": FOLLOW}
    assert all(policy.rules[0].device == 2 for policy in read.values())
    assert policies["home"].report != policies["follow"].report


def test_each_mode_has_its_turn(tmp_path: Path) -> None:
    worker = tmp_path / "worker.py"
    worker.write_text(WORKER.format(seconds=5))
    modes = {"native": prefill.Mode(), "other": prefill.Mode()}
    taken = prefill.batches(modes, [sys.executable, str(worker)], worker, 3)
    assert taken == {"native": [5.0, 6.0, 7.0], "other": [5.0, 6.0, 7.0]}


def test_a_worker_that_ends_is_named() -> None:
    with pytest.raises(SystemExit, match="native: the program ended early"):
        prefill.batches({"native": prefill.Mode()}, [sys.executable, "-c", ""], Path("unused"), 1)


def test_times_of_launches_are_read() -> None:
    assert prefill.launch_times(SAID) == {"k_home": 2813, "k_away": 391}


def test_throughput_is_compared_by_medians() -> None:
    ratio = prefill.throughput_ratio([2.0, 2.0, 9.0], [1.9, 1.9, 1.9])
    assert ratio.value == pytest.approx(0.95)
    assert ratio.low < ratio.value <= ratio.high


def test_what_is_aimed_at_is_both() -> None:
    sure = Interval(0.96, 0.95, 0.97)
    rates = {"native": 29.2, "home": 8.0, "follow": 28.1}
    ratio = {"home": Interval(0.27, 0.26, 0.28), "follow": sure}
    result = prefill.Result(1, {}, rates, ratio, {"native": 2800, "redirected": 390})
    assert result.reached
    text = prefill.to_text(result)
    assert text.splitlines()[3:] == [
        "follow        28.10       0.96 [0.95, 0.97]",
        "launch, native: 2800 ns of the calling thread",
        "launch, redirected: 390 ns of the calling thread",
        "reached",
    ]
    assert not replace(result, launch_ns={"native": 2800, "redirected": 2900}).reached
    assert not replace(result, ratio={**ratio, "follow": Interval(0.94, 0.9, 0.97)}).reached
