"""Programs that follow plans (tessera-run --plan), on emulated GPUs of which the second takes twice as long."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controlplane.plan.planfile import Group, Placement, Plan, Run
from tests import bench_scripts
from tests.command import with_native
from tests.placement.plan_runs import Runs

REQUESTS, STEPS = 12, 8


@pytest.fixture(scope="module")
def profiled(native_build: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Runs, str, Plan]:
    """And what the program prints, and the plan."""
    runs = Runs(native_build / "native", tmp_path_factory.mktemp("profiled"))
    plain = runs.run(["--profile", "run.profile", "--gpus", "all"])
    assert plain.returncode == 0, plain.stderr
    return runs, plain.stdout, runs.plan()


def by_layer(plan: Plan) -> Plan:
    """The first half of each request at home, the other half on the second GPU."""
    whole = len(plan.operations)
    runs = (Run(0, whole // 2, 0), Run(whole // 2, whole, 1))
    return replace(plan, groups=(Group("h200", (0,)), Group("l40s", (1,))), placements=(Placement(1.0, runs),))


def test_plans_are_followed_by_request_and_by_layer(profiled: tuple[Runs, str, Plan]) -> None:
    runs, wanted, plan = profiled
    assert plan.chosen == "by request"
    ran, report = runs.followed(plan), runs.report()
    assert ran.stdout == wanted
    assert f"followed the plan run.plan (by request): {REQUESTS * STEPS} of {REQUESTS * STEPS}" in ran.stderr
    assert report["plan"]["followed"] == REQUESTS * STEPS
    assert report["plan"]["requests"] == REQUESTS
    assert report["launches"]["by_device"] == {"0": 8 * STEPS, "1": 4 * STEPS}
    # The GPUs run side by side: 8 requests of 56 us here, 4 of 112 us there.
    assert max(each["last_ns"] for each in report["devices"]) < 8 * 56_000 + 4 * 112_000
    ran, report = runs.followed(by_layer(plan)), runs.report()
    assert ran.stdout == wanted
    assert report["plan"]["followed"] == REQUESTS * STEPS
    assert report["launches"]["by_device"] == {"0": REQUESTS * STEPS // 2, "1": REQUESTS * STEPS // 2}
    slower = next(each for each in report["devices"] if each["device"] == 1)
    # 12 half requests of 4 launches of 14 us, without a gap.
    assert slower["busy_ns"] == REQUESTS * 4 * 14_000


@pytest.mark.full
def test_a_plan_of_other_code_or_hardware_is_refused(profiled: tuple[Runs, str, Plan]) -> None:
    runs, _, plan = profiled
    other = tuple(replace(each, function="_Z5otherv") for each in plan.classes)
    ran = runs.followed(replace(plan, classes=other, program="python other.py"))
    assert ran.returncode == 2
    assert "run.plan: it is for other code: of python other.py, this was " in ran.stderr
    assert "automatic_guest.py requests 11 8 8; no launch is in it" in ran.stderr
    assert runs.report()["plan"]["unknown"] == REQUESTS * STEPS
    changed = tuple(replace(each, module="0000000000000bad") for each in plan.classes)
    ran = runs.followed(replace(plan, classes=changed))
    assert ran.returncode == 2
    assert runs.report()["plan"]["other_code"] == REQUESTS * STEPS
    ran = runs.followed(replace(plan, gpus=("NVIDIA H200", "NVIDIA H200")))
    assert ran.returncode == 2
    assert "it is for NVIDIA H200, NVIDIA H200, this machine has NVIDIA H200, NVIDIA L40S" in ran.stderr
    text = (runs.folder / "run.plan").read_text()
    (runs.folder / "run.plan").write_text(text[: text.rindex('"end"')])
    ran = runs.run(["--plan", "run.plan"])
    assert ran.returncode == 2
    assert "it was cut off" in ran.stderr


@pytest.mark.full
def test_what_differs_from_the_plan_is_placed_by_the_rule_and_counted(profiled: tuple[Runs, str, Plan]) -> None:
    """Of answers, each request begins with a launch and a read that requests do not have."""
    runs, _, plan = profiled
    program = ("automatic_guest.py", "answers", "6", "8", "8")
    plain = runs.run(["--gpus", "all"], program)
    ran = runs.followed(plan, program)
    counts = runs.report()["plan"]
    assert ran.stdout == plain.stdout
    assert ran.returncode == 0
    assert counts["unknown"] == 7  # `look`, once for each answer, and once more
    assert counts["followed"] == 7 * STEPS
    assert "; 7 it does not have" in ran.stderr


BENCH = bench_scripts.load("follow")


@pytest.mark.full
@pytest.mark.parametrize("name", [each.name for each in BENCH.SCENARIOS])
def test_no_plan_is_slower_than_the_best_baseline(
    name: str, native_build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Measured, with equal results."""
    native = native_build / "native"
    monkeypatch.setenv("TESSERA_NATIVE", str(native))
    bench: Any = BENCH.Bench(tmp_path, {**with_native(native), "XDG_CACHE_HOME": str(tmp_path / "cache")})
    scenario = next(each for each in BENCH.SCENARIOS if each.name == name)
    for _ in range(3):  # threads share the machine that emulates with other tests, and so come in another order
        found = bench.found(scenario)
        if found.gain > 1 - BENCH.SLOWER:
            break
    assert found.gain > 1 - BENCH.SLOWER, found
