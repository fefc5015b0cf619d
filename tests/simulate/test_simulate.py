"""What programs would do on GPUs, where it can be said by hand; and the command with what it refuses."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.commands.main import main
from controlplane.profile import file, scale
from controlplane.profile.model import (
    Profile,
    Source,
    Time,
)
from controlplane.simulate import place
from controlplane.simulate.comparison import compare
from controlplane.simulate.curve import Curve
from controlplane.simulate.load import Load, arrivals
from controlplane.simulate.place import Placement
from controlplane.simulate.result import Result, simulate
from controlplane.simulate.work import work_of
from ptxtools.errors import ConfigError
from tests import schemas
from tests.simulate.programs import SIZE, STEP, chain, machine


def ran(profile: Profile, how: Placement, load: Load) -> Result:
    return simulate(profile, work_of(profile), how, load)[0]


def pattern(*gpus: int) -> place.Fixed:
    return place.Fixed("pattern", [(1.0, gpus)])


def test_one_gpu_does_one_launch_after_the_other() -> None:
    found = ran(chain(10), place.alone(10, 0), Load(20))
    assert found.period_ns == pytest.approx(10 * STEP)
    assert found.busy[0] == pytest.approx(1.0, abs=0.01)
    assert found.busy[1] == 0
    assert found.moved_bytes == 0


def test_a_slow_thread_is_what_limits() -> None:
    assert ran(chain(10, host_ns=150e3), place.alone(10, 0), Load(20)).period_ns == pytest.approx(1.5e6)


def test_a_router_gives_each_gpu_its_share() -> None:
    found = ran(chain(10), place.router(10, [1.0, 1.0]), Load(40))
    assert found.period_ns == pytest.approx(5 * STEP, rel=0.02)
    dealt = ran(chain(10), place.router(10, [3.0, 1.0]), Load(40))
    assert dealt.launches == (300, 100)
    assert dealt.period_ns == pytest.approx(7.5 * STEP, rel=0.05)


def test_the_rule_sends_independent_requests_to_both_gpus() -> None:
    found = ran(chain(20), place.ByRule(machine()), Load(40))
    assert found.period_ns == pytest.approx(10 * STEP, rel=0.05)


@pytest.mark.parametrize("how", [place.router(10, [1.0, 1.0]), place.ByRule(machine())])
def test_what_is_carried_on_keeps_one_client_on_one_gpu_at_a_time(how: Placement) -> None:
    assert ran(chain(10, carried=True), how, Load(20)).period_ns >= 10 * STEP * 0.999


def test_clients_with_states_of_their_own_run_beside_each_other() -> None:
    found = ran(chain(10, carried=True), place.router(10, [1.0, 1.0]), Load(40, (), 2))
    assert found.period_ns == pytest.approx(5 * STEP, rel=0.1)


def test_a_cut_costs_a_fence_and_a_copy_and_is_hidden_by_the_next_request() -> None:
    profile = chain(10)
    link = profile.machine.link(0, 1)
    assert link is not None
    cut = pattern(*([0] * 5 + [1] * 5))
    alone = ran(profile, cut, Load(20, (), 1))
    copy_ns = link.latency_ns + SIZE / link.bytes_per_s * 1e9
    assert alone.latency_ns[50] == pytest.approx(10 * STEP + link.fence_ns + copy_ns, rel=0.005)
    assert alone.moved_bytes == SIZE
    two = ran(profile, pattern(*([0] * 5 + [1] * 5)), Load(40, (), 3))
    assert two.period_ns == pytest.approx(5 * STEP, rel=0.02)


def test_slow_links_limit() -> None:
    profile = chain(10)
    slow = tuple(replace(link, bytes_per_s=10**9) for link in profile.machine.links)
    found = ran(replace(profile, machine=replace(profile.machine, links=slow)), pattern(*[0, 1] * 5), Load(20, (), 8))
    assert found.period_ns == pytest.approx(5 * (SIZE + 3000), rel=0.05)  # 5 copies each way


def test_a_thread_that_waits_does_not_run_ahead() -> None:
    profile = chain(10, host_ns=10e3, waits=True)
    assert ran(profile, place.alone(10, 0), Load(20)).period_ns == pytest.approx(10 * STEP + 10e3)


def test_arrivals_by_chance_are_the_same_each_time_and_wait_in_line() -> None:
    load = arrivals("poisson:500", 400, 1)
    assert load == arrivals("poisson:500", 400, 1)
    assert load.at_ns[-1] == pytest.approx(400 / 500 * 1e9, rel=0.15)
    found = ran(chain(10), place.alone(10, 0), load)
    # M/D/1 with half of the time busy: on average half a service time in line.
    assert found.latency_ns[50] < 10 * STEP * 1.5 < found.latency_ns[99]
    assert found.busy[0] == pytest.approx(0.5, rel=0.15)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Timestamp,Model,Request tokens,Response tokens\n5,ChatGPT,472,18\n45,GPT-4,1087,230\n", (0, 40e9)),
        (
            "TIMESTAMP,ContextTokens\n2023-11-16 18:15:46.6805900,374\n2023-11-16 18:15:50.9951690,396\n",
            (0, 4.314579e9),
        ),
    ],
)
def test_arrivals_as_services_saw_them(text: str, wanted: Sequence[float], tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(text)
    assert arrivals(str(tmp_path / "a.csv"), 10, 2).at_ns == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize(
    ("spec", "text", "what"),
    [
        ("poisson:fast", None, "poisson:fast has no usable rate"),
        ("poisson:0", None, "poisson:0 has no usable rate"),
        ("a.csv", None, "No such file"),
        ("a.csv", "when,what\n1,2\n", r"a.csv:1: its heading has no column Timestamp"),
        ("a.csv", "Timestamp\n1\nlater\n", r"a.csv:3: 'later' is no time"),
        ("a.csv", "Timestamp\n", "there are no requests in it"),
    ],
)
def test_arrivals_that_cannot_be_used(
    spec: str, text: str | None, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if text is not None:
        Path(spec).write_text(text)
    with pytest.raises(ConfigError, match=what):
        arrivals(spec, 10, 1)


def test_bookings_go_where_there_is_room() -> None:
    curve = Curve()
    assert curve.place(1.0, 10, 0) == 0
    assert curve.place(0.5, 10, 20) == 20
    assert curve.place(0.5, 10, 15) == 15  # beside the one before
    assert curve.place(0.6, 5, 0) == 10
    assert curve.place(1.0, 10, 0) == 30
    assert curve.busy_ns == 40


def test_other_gpus_by_what_they_can_do_with_the_error_stated() -> None:
    """A launch whose bytes explain its time scales with the memory, one of arithmetic with that."""
    profile = chain(1, "h200")
    bytes_of = round(profile.machine.types[0].memory_bytes_per_s * STEP / 1e9)
    streams = replace(profile.classes[0], bytes=bytes_of)
    gemm = replace(profile.classes[0], name="nvjet_gemm", bytes=1000)
    empty = replace(profile.classes[0], bytes=1000, times=(Time(2100.0, 10),))
    profile = replace(profile, classes=(streams, gemm, empty))
    other = scale.on_machine(profile, machine("h200,l40s"))
    h200, l40s = other.machine.types
    for of, ratio in (
        (other.classes[0], h200.memory_bytes_per_s / l40s.memory_bytes_per_s),
        (other.classes[1], h200.tensor_ops_per_s / l40s.tensor_ops_per_s),
    ):
        home, there = of.times
        assert home == Time(STEP, 10)
        assert there is not None
        assert there.ns == pytest.approx(STEP * ratio, rel=0.02)
        assert there.source is Source.SCALED
        assert 0.1 < there.error < 0.4
    short = other.classes[2].times[1]
    assert short is not None
    assert short.ns == pytest.approx(2100, rel=0.1)
    assert scale.error_of(other, 0) == 0
    assert scale.error_of(other, 1) > 0.1


def test_all_ways_are_compared_with_the_home_gpu_alone() -> None:
    found = compare(chain(10, "h200,l40s"), Load(0, (), 4))
    assert [each.name for each in found.results] == ["GPU 0 alone", "GPU 1 alone", "router", "rule"]
    assert found.gain(found.results[0]) == 1.0
    assert found.gain(found.results[2]) == pytest.approx(2.0, rel=0.05)


@pytest.fixture
def profile(tmp_path: Path) -> str:
    file.write(chain(10), tmp_path / "p")
    return str(tmp_path / "p")


def test_the_command_says_what_each_placement_gives(profile: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", profile, "--devices", "h200,l40s", "--requests", "4"]) == 0
    shown = capsys.readouterr().out
    assert "4 at a time, 10 operations each, on NVIDIA H200, NVIDIA L40S" in shown
    assert "times on NVIDIA L40S are scaled from another GPU: +-" in shown
    assert main(["simulate", profile, "--devices", "h200,l40s", "--requests", "1"]) == 0
    assert "1 at a time, more GPUs have something to do only where requests are divided" in capsys.readouterr().out
    assert main(["simulate", profile, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    schemas.check("simulate", found)
    assert [each["name"] for each in found["placements"]] == [
        "GPU 0 alone",
        "router",
        "rule",
    ]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--devices", "h900"], "--devices h900: no GPU 'h900' in the catalogue"),
        (["--arrivals", "poisson:no"], "no usable rate"),
        (["--at-a-time", "2"], "--at-a-time is about requests that arrive"),
    ],
)
def test_words_that_cannot_be_used(
    words: list[str], text: str, profile: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", profile, *words]) == 2
    assert text in capsys.readouterr().err
