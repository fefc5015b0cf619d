"""Programs that follow other plans when something changes (tessera-run --adapt), on emulated GPUs, in virtual time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.placement.plan_runs import Runs

WITHIN_NS, SLOWS_NS = 2e9, 1.5e9
FASTER = 0.95

# A GPU runs one launch at a time, for a millisecond.
ALONE = "gpu: h200, sm_count: 1, max_blocks_per_sm: 1, launch_latency_ns: 1000000"
# One fast SM, and several slow ones: each suits other launches.
SUITS = (
    "gpu: h200, sm_count: 1, max_blocks_per_sm: 1, clock_mhz: 64",
    "gpu: h200, sm_count: 8, max_blocks_per_sm: 1, clock_mhz: 24",
)


@dataclass(frozen=True, slots=True)
class Change:
    """gpus: of the machine that is profiled; `N` in the program's words is its number of requests, of each thread.
    at: the request before which the program changes, as `change` says; or changed_gpus: of the machine instead, which
    are other ones from SLOWS_NS on. faster: at most that of the time that the program takes which keeps its plan.
    """

    program: tuple[str, ...]
    gpus: tuple[str, ...]
    requests: int
    total: int
    reason: str
    at: int = 0
    change: str = ""
    changed_gpus: tuple[str, ...] = ()
    faster: float = FASTER

    def words(self, requests: int) -> tuple[str, ...]:
        return tuple(str(requests) if word == "N" else word for word in self.program)


FLIGHT = ("flight_guest.py", "N", "4", "7", "4", "800")
CHANGES = {
    "load step": Change(
        ("layers_guest.py", "N", "1", "2", "4", "1600"),
        (ALONE, ALONE),
        1,
        450,
        "requests in flight instead of 1",
        250,
        "4",
    ),
    "a GPU slowed by half": Change(
        FLIGHT,
        (ALONE, ALONE),
        4,
        1000,
        "GPU 1 takes 2.00 times as long as it did",
        changed_gpus=(ALONE, f"{ALONE}, slows: {{after_ms: {SLOWS_NS / 1e6:.0f}, times: 2}}"),
    ),
    "dead executor": Change(
        ("flight_guest.py", "N", "6", "7", "4", "800"),
        (ALONE, ALONE, ALONE),
        6,
        1200,
        "the executor of GPU 2 is lost",
        400,
        "2",
    ),
    "other shapes": Change(
        ("layers_guest.py", "N", "4", "4", "8", "1600"),
        SUITS,
        4,
        250,
        "1 classes of launches have other shapes",
        80,
        "wide",
        faster=0.99,  # the rule mostly places launches nearly as well that the plan does not know
    ),
}


def machine(gpus: tuple[str, ...]) -> str:
    return "devices:\n" + "".join(f"  - {{{gpu}}}\n" for gpu in gpus) + "link: nvlink4\n"


def measured(runs: Runs, words: list[str], program: tuple[str, ...]) -> tuple[str, dict[str, Any]]:
    ran = runs.run(words, program)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout, runs.report()


@pytest.mark.full
@pytest.mark.parametrize("name", CHANGES)
def test_the_better_plan_is_followed_within_two_seconds(name: str, native_build: Path, tmp_path: Path) -> None:
    of = CHANGES[name]
    runs = Runs(native_build / "native", tmp_path, machine(of.gpus))
    for _ in range(2):  # what launches touch is known in the second
        measured(runs, ["--profile", "run.profile", "--gpus", "all"], of.words(40))
    runs.plan(of.requests)
    after_ns = SLOWS_NS
    if of.at:  # that is how long the requests take before the change
        after_ns = measured(runs, ["--plan", "run.plan"], of.words(of.at))[1]["virtual_ns"]
    (tmp_path / "machine.yaml").write_text(machine(of.changed_gpus or of.gpus))
    program = (*of.words(of.total), *([f"{of.at}:{of.change}"] if of.at else []))
    output, kept = measured(runs, ["--plan", "run.plan"], program)
    adapted_output, adapted = measured(runs, ["--plan", "run.plan", "--adapt", "run.profile"], program)
    swaps = adapted["plan"]["swapped"]
    assert adapted_output == output
    assert of.reason in swaps[0]["reason"]
    assert swaps[0]["followed_ns"] < after_ns + WITHIN_NS, swaps
    assert not any(swap["is_back"] for swap in swaps)
    assert len(swaps) <= 2
    assert adapted["virtual_ns"] < of.faster * kept["virtual_ns"]
