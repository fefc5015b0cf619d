"""Data order: strands of one stream on several GPUs wait for each other where data flows, and only there."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.emulated import Machine, Ran, rules_of, with_copies
from tests.emulated import run as run_emulated
from tests.placement.order_cases_guest import CASES
from tests.sample import sampled

HERE = Path(__file__).parent
BY_NAME = (
    '{match: {function: "one_*"}, device: 1}',
    '{match: {function: "two_*"}, device: 2}',
)
SHARES = (
    "{match: {share: {fraction: 0.25, seed: 1}}, device: 1}",
    "{match: {share: {fraction: 0.33, seed: 2}}, device: 2}",
    "{match: {share: {fraction: 0.5, seed: 3}}, device: 3}",
)
HALF = ("{match: {share: {fraction: 0.5, seed: 1}}, device: 1}",)
FOUR = [(4, SHARES, ""), (4, SHARES, "copies,sets")]
ORDER = HERE / "order_guest.py"
STEPS, KIB, STEP_NS = 150, 8, 20_000
WANTED = 1.8


GPU = "sm_count: 4"


def run(
    native: Path,
    place: Path,
    machine: Machine,
    program: Sequence[object],
    rules: tuple[str, ...] = (),
    order: str = "data",
    disorder: int = 0,
    first: str = "1",
) -> Ran:
    """Without rules: on one GPU, without a policy. first: how the policy names the first executor."""
    policy = with_copies(machine.gpus, rules_of(rules), order, first) if rules else ""
    variables = {"TESSERA_DISORDER": str(disorder if rules else 0)}
    return run_emulated(native, place, machine, program, policy=policy, variables=variables)


PEERS = Machine(3, GPU)
MACHINES = {
    "peers": (PEERS, "1"),
    "no peer access": (Machine(3, GPU, "pcie5-no-peer"), "1"),
    "no room on GPU 1": (PEERS, "{gpu: 1, memory_limit: 1MiB}"),
}


@pytest.mark.full
def test_who_must_wait_waits(native_build: Path, tmp_path: Path) -> None:
    """What each case leaves behind, by machine, is what it leaves on one GPU."""
    native, program = native_build / "native", [HERE / "order_cases_guest.py"]
    alone = run(native, tmp_path, PEERS, program).lines
    assert [line.split()[0] for line in alone] == [*CASES]
    run(native, tmp_path, PEERS, program, BY_NAME)  # learns what launches touch
    for name, (machine, first) in MACHINES.items():
        ran = run(native, tmp_path, machine, program, BY_NAME, first=first)
        assert (name, ran.lines) == (name, alone)
        assert ran.by_device["1"] > len(CASES)
        assert ran.report["memory_copies"]["ties"] > len(CASES) // 2


@pytest.mark.parametrize("programs", sampled([8, 60], [8]))
@pytest.mark.parametrize(
    ("gpus", "rules", "features"),
    sampled([(2, HALF, ""), *FOUR], FOUR[:1]),
    ids=["two", "four", "four, one stream"],
)
def test_random_programs_in_disorder_give_the_same_bytes(
    gpus: int, rules: tuple[str, ...], features: str, programs: int, native_build: Path, tmp_path: Path
) -> None:
    native, machine = native_build / "native", Machine(gpus, GPU)
    program = [ORDER, 1000 * gpus, programs, 100, *([features] if features else [])]
    alone = run(native, tmp_path, machine, program)
    for disorder in range(2 if programs < 60 else 3):  # the first run learns what launches touch
        ran = run(native, tmp_path, machine, program, rules, disorder=disorder)
        assert ran.lines == alone.lines
    assert ran.report["memory_copies"]["ties"] > programs
    assert min(ran.by_device.values()) > 10 * programs


@pytest.mark.full
def test_random_programs_in_disorder_whose_pulls_are_staged(
    native_build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One stream has more staged pulls than are marked at a time."""
    monkeypatch.setenv("TESSERA_STAGE", "1")
    native, machine, program = native_build / "native", Machine(4, GPU), [ORDER, 4000, 60, 100, "copies,sets"]
    alone = run(native, tmp_path, machine, program)
    for disorder in (0, 1, 1, 2):
        ran = run(native, tmp_path, machine, program, SHARES, disorder=disorder)
        assert ran.lines == alone.lines


@pytest.mark.full
def test_work_that_comes_after_what_a_strand_has_signalled_is_waited_for(native_build: Path, tmp_path: Path) -> None:
    """A copy from the host that several strands make: one of them, tied to another, makes that signal before its part.

    It went wrong in one of six runs.
    """
    native, machine = native_build / "native", Machine(4, GPU, "pcie5")
    program = [ORDER, 103754, 2, 60, "streams,copies,sets,reads,pinned,host,gives"]
    shares = ((0.3, 21, 1), (0.4, 28, 2), (0.5, 27, 3))
    rules = tuple(
        f"{{match: {{share: {{fraction: {part}, seed: {seed}}}}}, device: {gpu}}}" for part, seed, gpu in shares
    )
    alone = run(native, tmp_path, machine, program)
    for _ in range(8):
        assert run(native, tmp_path, machine, program, rules, disorder=889).lines == alone.lines


@pytest.mark.full
@pytest.mark.parametrize("what", ["unknown", "place"])
def test_a_number_is_not_read_too_early(what: str, native_build: Path, tmp_path: Path) -> None:
    """Other streams bring its bytes home, for which its own does not wait; or its place at the host is still used."""
    native, program, machine = native_build / "native", [HERE / "brought_guest.py", what], Machine(2, GPU)
    alone = run(native, tmp_path, machine, program)
    for disorder in range(4):
        ran = run(native, tmp_path, machine, program, ("{match: {function: make}, device: 1}",), disorder=disorder)
        assert ran.lines == alone.lines
    assert ran.by_device["1"] == 6
    assert (ran.report["memory_copies"]["brought_home"] > 0) == (what == "unknown")


@pytest.mark.parametrize(
    "more", [(), pytest.param(("given",), marks=pytest.mark.full)], ids=["in turn", "given constants"]
)
def test_chains_of_one_stream_run_at_the_same_time(native_build: Path, tmp_path: Path, more: tuple[str, ...]) -> None:
    """One of two chains on GPU 1: they take half as long as one after the other.

    A step takes as long as ten calls of the driver: how many of these go into timing launches depends on when results
    of earlier ones are seen, and so on the machine that emulates.
    """
    native, program = native_build / "native", [HERE / "chains_guest.py", 2, STEPS, KIB, *more]
    machine, rules = Machine(2, f"{GPU}, launch_latency_ns: {STEP_NS}"), ("{match: {function: step_1}, device: 1}",)
    alone = run(native, tmp_path, machine, program)
    run(native, tmp_path, machine, program, rules)
    ran = {order: run(native, tmp_path, machine, program, rules, order) for order in ("stream", "data")}
    assert alone.lines == ran["stream"].lines == ran["data"].lines
    assert ran["data"].by_device == {"0": STEPS, "1": STEPS}
    assert alone.virtual_ns / ran["data"].virtual_ns > WANTED
    assert alone.virtual_ns / ran["stream"].virtual_ns < 1.05


@pytest.mark.full
@pytest.mark.parametrize("first", ["0", "1"])
def test_what_another_gpu_pulls_late_can_be_overwritten_early(
    native_build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """A GPU goes on in the same buffer before the other one has come to where it needs what was there.

    first: which GPU has the chain that ends with `use`, which pulls.
    """
    monkeypatch.setenv("TESSERA_STAGE", "1")
    native, program = native_build / "native", [HERE / "rounds_guest.py", 6, 60, KIB]
    machine = Machine(2, f"{GPU}, launch_latency_ns: {STEP_NS}")
    functions = ("make", "make_begin") if first == "0" else ("own", "use")
    rules = tuple(f"{{match: {{function: {name}}}, device: 1}}" for name in functions)
    alone = run(native, tmp_path, machine, program)
    run(native, tmp_path, machine, program, rules)
    ran = run(native, tmp_path, machine, program, rules)
    assert alone.lines == ran.lines
    assert ran.by_device["1"] == 6 * 62
    assert alone.virtual_ns / ran.virtual_ns > 1.6
