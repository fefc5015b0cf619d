"""`tessera plan`: what it says and writes, that it is the same each time, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.commands.main import main
from controlplane.plan import planfile
from controlplane.profile import file as profiles_file
from controlplane.profile.model import Allocation, Extent, Profile, Role
from controlplane.simulate.load import Load
from controlplane.simulate.place import Fixed
from controlplane.simulate.result import simulate
from controlplane.simulate.work import work_of
from ptxtools.errors import ConfigError
from tests import schemas
from tests.profile import by_hand as profiles


def written(folder: Path, profile: Profile, name: str = "p") -> str:
    profiles_file.write(profile, folder / name)
    return str(folder / name)


def planned(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    assert main(["plan", *words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    schemas.check("plan", found)
    return found


def chosen(found: dict[str, object]) -> dict[str, object]:
    assert isinstance(found["chosen"], dict)
    return found["chosen"]


def test_gpus_that_suit_different_launches_share_each_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, profiles.layered())
    found = planned(capsys, file, "--requests", "8")
    by_name = {each["name"]: each for each in found["candidates"]}  # type: ignore[attr-defined]
    assert by_name["one GPU (h200)"]["period_ns"] == pytest.approx(8 * 800e3)
    assert by_name["by request"]["period_ns"] == pytest.approx(1 / (1 / 6.4e6 + 1 / 10.4e6))
    assert chosen(found)["name"] in ("same in each layer", "by launch", "mixed")
    assert chosen(found)["period_ns"] < by_name["by request"]["period_ns"]
    assert found["bound_ns"] <= chosen(found)["period_ns"]  # type: ignore[operator]
    assert main(["plan", file, "--requests", "8"]) == 0
    text = capsys.readouterr().out
    assert "No placement has a shorter period than" in text
    assert "time on l40s: 1 % more speed there gives 0.55 %" in text


def test_equal_gpus_serve_whole_requests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where a router wins, the plan says so; where one GPU does, too."""
    file = written(tmp_path, profiles.layered(("h200", "h200")))
    assert chosen(planned(capsys, file, "--requests", "4"))["name"] == "by request"
    one = planned(capsys, file, "--requests", "1")
    assert str(chosen(one)["name"]).startswith("one GPU")
    slow = written(tmp_path, profiles.layered(bytes_per_s=10**7), "slow")
    assert chosen(planned(capsys, slow, "--requests", "2"))["name"] == "by request"


def test_what_no_gpu_can_hold_is_divided(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, profiles.layered(("h200", "h200", "h200"), 4, memory_bytes=350 << 20))
    found = planned(capsys, file, "--requests", "4")
    gpus = chosen(found)["gpus"]
    assert isinstance(gpus, list)
    assert len(gpus) == 3
    assert all(0 < gpu["memory_bytes"] <= gpu["capacity_bytes"] for gpu in gpus)
    assert set(found["left_out"]) == {"one GPU", "by request"}  # type: ignore[call-overload]
    tight = written(tmp_path, profiles.layered(("h200", "h200"), 4, memory_bytes=300 << 20), "tight")
    assert main(["plan", tight]) == 1
    assert "no plan fits in memory: the program needs 0.841 GB" in capsys.readouterr().err


def test_cost_and_energy_choose_the_gpus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, profiles.layered())
    prices = ["--price", "h200=30", "--price", "l40s=1"]
    cheap = planned(capsys, file, "--objective", "cost", "--requests", "4", *prices)
    assert chosen(cheap)["name"] == "one GPU (l40s)"
    assert chosen(cheap)["worth"] == pytest.approx(10.4e6 / 3600e9)
    powers = ["--power", "h200=700:100", "--power", "l40s=300:60"]
    frugal = planned(capsys, file, "--objective", "energy", "--requests", "4", *powers)
    assert chosen(frugal)["worth"] <= min(each["worth"] for each in frugal["candidates"])  # type: ignore[attr-defined]
    assert main(["plan", file, "--objective", "cost"]) == 1
    assert "no GPU has a price" in capsys.readouterr().err


def test_idle_gpus_may_draw_as_much_as_busy_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, profiles.layered(("h200",)))
    for power, joules in (("H200=500", 500 * 6.4e-3), ("h200=500:500", 500 * 6.4e-3), ("h200=500:0", 500 * 6.4e-3)):
        found = planned(capsys, file, "--objective", "energy", "--requests", "4", "--power", power)
        assert chosen(found)["worth"] == pytest.approx(joules)
    pair = written(tmp_path, profiles.layered(), "pair")
    found = planned(
        capsys, pair, "--objective", "energy", "--requests", "8", "--power", "h200=700:700", "--power", "l40s=700"
    )
    router = [each for each in found["candidates"] if each["name"] == "by request"]  # type: ignore[attr-defined]
    assert router[0]["worth"] == pytest.approx(2 * 0.7e-6 * router[0]["period_ns"])


def test_cheaper_gpus_are_looked_at_although_some_launches_are_pinned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, profiles.layered(unknown=5))
    found = planned(capsys, file, "--objective", "cost", "--price", "H200=3", "--price", "l40s=1")
    assert chosen(found)["name"] == "one GPU (h200)"
    cheap = written(tmp_path, profiles.layered(), "cheap")
    assert main(["plan", cheap, "--objective", "cost", "--price", "h200=30", "--price", "l40s=1"]) == 0
    assert "As good as one GPU (l40s)" not in capsys.readouterr().out


def test_gpus_with_fewer_shader_processors_have_the_price_of_their_type(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = profiles.layered(("h200",))
    few = replace(whole, machine=replace(whole.machine, types=(replace(whole.machine.types[0], sm_limit=66),)))
    found = planned(capsys, written(tmp_path, few), "--objective", "cost", "--price", "h200=3.6")
    assert chosen(found)["worth"] == pytest.approx(6.4e6 * 1e-12)


def test_what_each_request_has_for_itself_is_on_the_gpu_that_serves_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """100 GB for each of two requests fit on two GPUs, and not on one of them."""
    given = profiles.layered(("h200", "h200"), 4)
    own = Allocation(100 << 30, (Extent(0, 100 << 30, Role.OWN),))
    file = written(tmp_path, replace(given, allocations=(*given.allocations, own)))
    found = planned(capsys, file, "--requests", "2")
    assert found["left_out"] == {"one GPU": "h200 has 150 GB, 216 are needed"}
    assert [each["name"] for each in found["candidates"]] == ["by request"]  # type: ignore[attr-defined]
    memory = float(str(chosen(found)["gpus"][0]["memory_bytes"]))  # type: ignore[index]
    assert memory == (100 << 30) + (2 << 20) + 8 * (100 << 20)
    assert main(["plan", file, "--requests", "3"]) == 1
    assert "the program needs 323 GB with 3 requests in flight" in capsys.readouterr().err


def test_equal_gpus_with_unequal_links_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = profiles.layered(("h200", "l40s", "l40s"))
    links = tuple(
        replace(link, bytes_per_s=10**6) if {link.source, link.target} == {0, 1} else link
        for link in given.machine.links
    )
    file = written(tmp_path, replace(given, machine=replace(given.machine, links=links)))
    found = planned(capsys, file, "--requests", "6")
    assert chosen(found)["name"] == "mixed"
    assert [gpu["numbers"] for gpu in chosen(found)["gpus"]] == [[0], [1], [2]]  # type: ignore[attr-defined]
    assert main(["plan", file, "--requests", "6"]) == 0
    assert "time on l40s (GPU 2): 1 % more speed there gives" in capsys.readouterr().out
    slow = tuple(replace(link, bytes_per_s=10**6) for link in given.machine.links)
    file = written(tmp_path, replace(given, machine=replace(given.machine, links=slow)))
    found = planned(capsys, file, "--requests", "6")
    assert [gpu["numbers"] for gpu in chosen(found)["gpus"]] == [[0], [1, 2]]  # type: ignore[attr-defined]


def test_rules_pin_launches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, profiles.layered())
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "version: 1\ndevices: {home: 0, executors: [1]}\nrules:\n  - {match: {function: 'matmul*'}, device: 1}\n"
    )
    found = planned(capsys, file, "--policy", str(policy), "--requests", "4")
    gpus = chosen(found)["gpus"]
    assert isinstance(gpus, list)
    assert gpus[1]["busy_ns"] >= 8 * 900e3
    policy.write_text("version: 1\ndevices: {home: 0, executors: [7]}\nrules: []\n")
    assert main(["plan", file, "--policy", str(policy)]) == 2
    assert "its GPU 7 is not in the profile; expected a policy for GPUs 0 to 1" in capsys.readouterr().err


@pytest.mark.parametrize("condition", ["stream: default", "process: python", "library_call: cublas*"])
def test_a_rule_about_what_a_profile_does_not_know_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], condition: str
) -> None:
    """A profile's first stream need not be the default one."""
    file = written(tmp_path, profiles.layered())
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "version: 1\ndevices: {home: 0, executors: [1]}\nrules:\n"
        f"  - {{match: {{function: 'matmul*', {condition}}}, device: 1}}\n"
    )
    free = planned(capsys, file, "--requests", "4")
    found = planned(capsys, file, "--policy", str(policy), "--requests", "4")
    assert chosen(found) == chosen(free)
    word = condition.partition(":")[0].replace("_", " ")
    assert found["notes"] == [f"the rule in line 4 is not held: a profile does not say the {word} of launches"]


def test_what_may_touch_anything_stays_at_home(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, profiles.layered(unknown=5))
    plan = tmp_path / "plan"
    assert main(["plan", file, "--requests", "4", "-o", str(plan)]) == 0
    assert "1 of 16 operations have to be at home" in capsys.readouterr().out
    read = planfile.read(plan)
    for placement in read.placements:
        kind = next(run.kind for run in placement.runs if run.first <= 5 < run.end)
        assert read.groups[kind].gpus == (0,)


def test_candidates_for_an_emulated_machine_are_judged_as_that_machine_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    real = profiles.layered(layers=4)
    emulated = replace(real, machine=replace(real.machine, emulated=True))
    found = planned(capsys, written(tmp_path, emulated), "--requests", "4", "-o", str(tmp_path / "plan"))
    patterns = planfile.patterns(planfile.read(tmp_path / "plan"), emulated, tmp_path / "plan")
    same, _ = simulate(emulated, work_of(emulated), Fixed("plan", patterns), Load(48, (), 4))
    limit, period = (float(str(chosen(found)[name])) for name in ("limit_ns", "period_ns"))
    assert period == pytest.approx(max(same.period_ns, limit))
    others = planned(capsys, written(tmp_path, real), "--requests", "4")
    assert chosen(others)["period_ns"] != period


def test_the_same_profile_gives_the_same_bytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, gpus in enumerate((("h200", "l40s"), ("h200", "l40s", "a100"))):
        file = written(tmp_path, profiles.layered(gpus, 4))
        plans = []
        for turn in range(2):
            plan = tmp_path / f"{number}-{turn}.plan"
            assert main(["plan", file, "--requests", "4", "-o", str(plan)]) == 0
            plans.append(plan.read_bytes())
        assert plans[0] == plans[1]
    capsys.readouterr()


def test_a_plan_is_read_again_and_says_where_each_launch_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = profiles.layered(("h200", "h200", "l40s"))
    plan = tmp_path / "plan"
    assert main(["plan", written(tmp_path, profile), "--requests", "6", "-o", str(plan)]) == 0
    capsys.readouterr()
    read = planfile.read(plan)
    assert [group.gpus for group in read.groups] == [(0, 1), (2,)]
    patterns = planfile.patterns(read, profile, plan)
    assert sum(weight for weight, _ in patterns) == pytest.approx(1)
    assert {gpu for _, gpus in patterns for gpu in gpus} == {0, 1, 2}
    assert all(len(gpus) == 16 for _, gpus in patterns)
    assert {hint.function for hint in read.classes} == {"_Z6matmulv", "_Z6attendv"}
    assert read.predicted.period_ns >= read.predicted.bound_ns


def test_plans_for_others_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    profile = profiles.layered()
    plan = tmp_path / "plan"
    assert main(["plan", written(tmp_path, profile), "-o", str(plan)]) == 0
    capsys.readouterr()
    read = planfile.read(plan)
    with pytest.raises(ConfigError, match="it is for H200, L40S, the profile is of H200, H200"):
        planfile.patterns(read, profiles.layered(("h200", "h200")), plan)
    with pytest.raises(ConfigError, match=r"it is for other launches: of python app\.py"):
        planfile.patterns(read, profiles.layered(layers=9), plan)
    changed = replace(profile.classes[0], grid=(65, 1, 1))
    with pytest.raises(ConfigError, match="it is for other launches"):
        planfile.patterns(read, replace(profile, classes=(changed, *profile.classes[1:])), plan)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[: data.rindex(b'"end"')], "it was cut off"),
        (lambda data: data.replace(b"tessera.plan/2", b"tessera.plan/9"), "it is of another release"),
        (lambda data: data.replace(b"tessera.plan", b"tessera.profile"), "this is no plan, but 'tessera.profile/2'"),
        (lambda data: data.replace(b'"runs":[[0,', b'"runs":[[1,'), "placements.0.: .* does not continue it"),
        (lambda data: data.replace(b'"gpus":[1]', b'"gpus":[9]'), "groups.1.: its GPUs are .9.; expected numbers from"),
        (lambda data: data.replace(b'"weight":', b'"height":', 1), "this entry is not known"),
    ],
)
def test_plans_that_are_wrong_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: object, message: str
) -> None:
    plan = tmp_path / "plan"
    assert main(["plan", written(tmp_path, profiles.layered()), "--requests", "4", "-o", str(plan)]) == 0
    capsys.readouterr()
    data = plan.read_bytes()
    changed = change(data)  # type: ignore[operator]
    assert changed != data
    plan.write_bytes(changed)
    with pytest.raises(ConfigError, match=message):
        planfile.read(plan)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--devices", "gtx1080"], "no GPU 'gtx1080' in the catalogue"),
        (["--devices", "nowhere.yaml"], "tessera: nowhere.yaml: cannot be read (No such file or directory)"),
        (["--price", "h200"], "--price h200; expected GPU=DOLLARS, as in h100=2.5"),
        (["--price", "b200=4"], "there is no GPU 'b200' to plan for; expected one of h200, l40s"),
        (["--power", "h200=1:2:3"], "--power h200=1:2:3; expected GPU=WATTS"),
        (["--power", "h200=300:400"], "--power h200=300:400: more when it waits than when it works"),
        (["-o", "/nowhere/plan"], "-o /nowhere/plan: No such file or directory; expected a writable file"),
    ],
)
def test_what_is_asked_for_wrongly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert main(["plan", written(tmp_path, profiles.layered()), *words]) == 2
    assert message in capsys.readouterr().err


def test_profiles_that_are_wrong_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = Path(written(tmp_path, profiles.layered()))
    for data, message in (
        (file.read_bytes()[:300], "it was cut off; expected a whole profile"),
        (b"version: 1\n", "expected a profile of Tessera"),
    ):
        file.write_bytes(data)
        assert main(["plan", str(file)]) == 2
        assert message in capsys.readouterr().err
    assert main(["plan", str(tmp_path / "none")]) == 2
    assert "No such file or directory; expected a profile" in capsys.readouterr().err
