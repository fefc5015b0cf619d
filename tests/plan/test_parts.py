"""The planner's parts against naive versions: what placements use, splices, single steps, layers, bounds."""

import time
from dataclasses import replace

import numpy as np
import pytest

from controlplane.plan import exact, layers, planner, relax
from controlplane.plan.bound import certify
from controlplane.plan.cut import Cutter
from controlplane.plan.decompose import decompose
from controlplane.plan.expand import Expander
from controlplane.plan.improve import improve, single_steps
from controlplane.plan.list_schedule import ListSchedule
from controlplane.plan.net import join, tied
from controlplane.plan.problem import Ints, Kind, Problem, links, problem
from controlplane.plan.solve import Solver
from controlplane.plan.splice import Splicer
from controlplane.plan.steady import period
from controlplane.plan.uses import fits, scales, uses
from controlplane.plan.variants import finer, single
from ptxtools.errors import PlanError
from tests.plan import generated, naive

SEEDS = range(20)


def random_kinds(given: Problem, seed: int) -> Ints:
    draw = np.random.default_rng(seed)
    return np.array([draw.choice(np.flatnonzero(row)) for row in tied(given).allowed])


@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_placement_uses(seed: int) -> None:
    given = generated.small(seed, 2 + seed % 2)
    net, kind = tied(given), random_kinds(given, seed)
    used = uses(net, scales(given), kind)
    expected, memory = naive.rows(given, kind[net.of])
    assert np.allclose(used.rows[:-1], expected)
    assert np.allclose(used.memory, memory)


@pytest.mark.parametrize("seed", SEEDS)
def test_each_splice_is_judged_as_if_it_were_made(seed: int) -> None:
    given = generated.small(seed, 2 + seed % 2)
    net, scale = tied(given), scales(given)
    first, second = random_kinds(given, seed), random_kinds(given, seed + 100)
    rows, memory = Splicer(net, scale).rows(first, second)
    for cut in range(net.nodes + 1):
        used = uses(net, scale, np.concatenate([first[:cut], second[cut:]]))
        assert np.allclose(rows[cut], used.rows)
        assert np.allclose(memory[cut], used.memory)


@pytest.mark.parametrize("seed", SEEDS)
def test_each_single_step_is_judged_as_if_it_were_made(seed: int) -> None:
    given = generated.small(seed, 2 + seed % 2)
    net, scale, kind = tied(given), scales(given), random_kinds(given, seed)
    before = uses(net, scale, kind)
    rows, memory = single_steps(net, scale, kind)
    for node in range(net.nodes):
        for to in np.flatnonzero(net.allowed[node]).tolist():
            new = kind.copy()
            new[node] = to
            after = uses(net, scale, new)
            assert np.allclose(after.rows - before.rows, rows[node, to])
            assert np.allclose(after.memory - before.memory, memory[node, to])


def test_small_steps_never_make_it_worse() -> None:
    for seed in SEEDS:
        given = generated.small(seed, 3)
        net, scale, kind = tied(given), scales(given), random_kinds(given, seed)
        before = uses(net, scale, kind)
        if fits(scale, before.memory) and net.allowed[np.arange(net.nodes), kind].all():
            after = improve(net, scale, kind)[1]
            assert after.period <= before.period
            assert fits(scale, after.memory)


def test_a_cut_is_the_cheapest_placement_at_its_prices() -> None:
    for seed in SEEDS:
        given = generated.small(seed)
        net, scale = tied(given), scales(given)
        found = decompose(net, scale, Cutter(net, scale).cheapest)
        if found.mixture is None:
            continue
        prices = found.mixture.prices
        kind, least = Cutter(net, scale).cheapest(prices)
        costs = []
        for number in range(2**net.nodes):
            other = number >> np.arange(net.nodes) & 1
            if net.allowed[np.arange(net.nodes), other].all():
                used = uses(net, scale, other)
                costs.append(prices.rows @ used.rows + prices.memory @ used.memory)
        used = uses(net, scale, kind)
        assert prices.rows @ used.rows + prices.memory @ used.memory <= min(costs) * (1 + 1e-6) + 1e-9
        assert least <= min(costs) * (1 + 1e-9) + 1e-9


def test_layers_have_one_key_for_each_launch_of_a_layer() -> None:
    layer, other = [5, 6, 7, 6, 8], [1, 2]
    label = np.array([0, *layer * 20, 3, 4, *other, *layer * 20, 3, 4], dtype=np.int64)
    keys = layers.keys(label)
    assert len(set(keys.tolist())) < 20
    for key in set(keys.tolist()):
        assert len(set(label[keys == key].tolist())) == 1
    assert layers.keys(np.arange(50)).tolist() == list(range(50))


def test_joining_keeps_what_placements_use_that_are_alike_in_every_layer() -> None:
    given = generated.layered(3, 6, 3)
    net, scale = tied(given), scales(given)
    joined = join(net, layers.keys(net.label))
    assert joined.nodes < net.nodes / 4
    for seed in range(5):
        kind = np.random.default_rng(seed).integers(0, 2, joined.nodes)
        small, large = uses(joined, scale, kind), uses(net, scale, kind[joined.of])
        assert np.allclose(small.rows, large.rows)
        assert np.allclose(small.memory, large.memory)


def test_the_bound_from_one_layer_holds_for_all() -> None:
    """Three kinds: prices of the linear program of a layer bound the program whose layers differ a little."""
    given = generated.layered(5, 8, 2, ("h100", "a100", "l40s"), noise=0.1)
    net, scale = tied(given), scales(given)
    joined = join(net, layers.keys(net.label))
    found = relax.relax(joined, scale, None, 20.0)
    assert found is not None
    whole = relax.relax(net, scale, None, 60.0)
    assert whole is not None
    rough, better = (certify(net, scale, joined, found, period) for period in (np.inf, whole.period))
    assert 0.9 * whole.period <= rough <= better <= whole.period * (1 + 1e-6)
    cheap = Expander(joined, scale).cheapest(found.prices)[0]
    assert uses(net, scale, cheap[joined.of]).period >= better


@pytest.mark.parametrize("gpus", [("a100", "l40s"), ("h100", "a100", "l40s", "h20")])
def test_one_placement_comes_close_to_the_bound(gpus: tuple[str, ...]) -> None:
    solver = Solver(generated.layered(7, 24, 3, gpus, length=12))
    found = solver.decomposed(None)
    made = solver.spliced(found.used(), None, found.bound)
    assert made is not None
    assert found.bound <= made[1].period <= found.bound * (1.002 if len(gpus) == 2 else 1.01)


def test_with_memory_for_less_than_all_weights_there_is_a_placement() -> None:
    solver = Solver(generated.layered(7, 24, 1, ("a100", "l40s"), length=20, memory_share=0.6))
    found = solver.decomposed(None)
    made = solver.spliced(found.used(), None, found.bound)
    assert made is not None
    assert fits(solver.scale, made[1].memory)
    assert made[1].period <= found.bound * 1.02


def test_two_gpus_in_turn_need_as_many_requests_as_there_are_parts() -> None:
    """A chain of two parts on two GPUs: alone a request takes both; with more in flight, the longer one counts."""
    kinds = (Kind("a", 1, 1e9), Kind("b", 1, 1e9))
    ns = np.array([[3000.0, 9000.0], [9000.0, 2000.0]])
    given = problem(kinds, ns, [(0, 10.0, [1])], links(2, 1.0))
    kind = np.array([0, 1])
    assert ListSchedule(given).latency(kind) == 5010.0
    assert period(given, [(1.0, kind)], 1) == pytest.approx(5010.0, rel=1e-3)
    assert period(given, [(1.0, kind)], 4) == pytest.approx(3000.0, rel=0.02)


def test_what_takes_no_time_is_served_in_turn() -> None:
    given = problem((Kind("a", 1, 1e9), Kind("b", 1, 1e9)), np.zeros((2, 2)), [(0, 10.0, [1])], links(2, 1.0))
    assert planner.plan(given).chosen.period_ns == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("seed", [159, 341, 368])
def test_a_gpu_that_sends_after_its_last_launch_is_no_reason_to_stop_looking(seed: int) -> None:
    """Messages that take long of both streams: what the sender's takes is not a part of the request's time."""
    given = generated.small(seed, 2)
    given = single(replace(given, links=replace(given.links, stream_ns=given.links.stream_ns * 8)))
    solver = Solver(given)
    found = exact.soonest(given, ListSchedule(given), solver.net, solver.scale, float("inf"))
    assert found.complete
    assert found.value == pytest.approx(naive.best(given, latency=True))


def test_launches_that_are_alike_but_pinned_to_different_gpus_are_not_joined() -> None:
    """Joined, they could run nowhere."""
    kinds = (Kind("a", 1, 1e9), Kind("b", 1, 1e9))
    allowed = np.array([[True, False], [True, True], [False, True], [True, True]] * 6)
    ns = np.array([[1000.0, 2000.0], [3000.0, 2000.0]] * 12)
    given = problem(
        kinds, ns, [(n, 10.0, [n + 1]) for n in range(23)], links(2, 1.0), label=np.arange(24) % 2, allowed=allowed
    )
    found = planner.plan(given)
    for each in found.candidates:
        for _, kind in each.mixture:
            assert allowed[np.arange(24), kind].all(), each.name
    assert Solver(given).joined.nodes < given.nodes


def test_kinds_of_gpus_divided() -> None:
    given = generated.layered(1, 2, 1, ("a100", "l40s"), (4, 2))
    assert [[kind.count for kind in each.kinds] for each in finer(given)] == [[2, 2, 2], [1] * 6]
    assert [kind.name for kind in single(given).kinds] == ["a100"] * 4 + ["l40s"] * 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ns": np.zeros((0, 1))}, "there is nothing to plan: no launches"),
        ({"ns": np.array([[1.0], [-1.0]])}, "launch 1 takes -1.0 ns on a; expected a time, 0 or more"),
        ({"ns": np.array([[1.0], [np.nan]])}, "launch 1 takes nan ns on a"),
        ({"allowed": np.array([[True], [False]])}, "launch 1: no GPU may run it"),
        ({"values": [(0, -1.0, [1])]}, "values: a figure that is negative or not finite"),
        ({"values": [(0, 1.0, [2])]}, "readers of values: a launch that does not exist; expected numbers from 0 to 1"),
        ({"requests": 0}, "0 requests in flight; expected 1 at least"),
        ({"links": links(2, 1.0)}, r"links' ns_per_byte: an array of \(2, 2\); expected \(1, 1\)"),
        ({"kinds": (Kind("a", 0, 1e9),)}, r"GPU kind 0 \(a\): expected one GPU at least"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, object], message: str) -> None:
    good: dict[str, object] = {
        "kinds": (Kind("a", 1, 1e9),),
        "ns": np.array([[1.0], [2.0]]),
        "values": [(0, 1.0, [1])],
        "links": links(1, 1.0),
    }
    problem(**good)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match=message):
        problem(**{**good, **change})  # type: ignore[arg-type]


def test_without_an_answer_in_time_there_is_a_plan_with_a_weaker_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that solves the linear program is killed."""
    given = generated.layered(5, 4, 1, ("h100", "a100", "l40s"))
    good = Solver(given).decomposed(None)
    monkeypatch.setattr(relax, "START_S", 0.0)
    begun = time.monotonic()
    assert relax.relax(Solver(given).joined, scales(given), None, 0.01) is None
    assert time.monotonic() - begun < 10
    found = Solver(given, seconds=0.01).decomposed(None)
    assert found.mixture is not None
    assert 0 < found.bound <= good.bound * (1 + 1e-6)
