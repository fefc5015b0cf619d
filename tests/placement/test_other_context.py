"""A program that makes a context of another GPU than the one that it uses: copies of memory and the pool go on."""

from pathlib import Path

import pytest

from tests import emulated
from tests.emulated import ALL_GPUS, Machine, Ran, run, until_analysed

GUEST = Path(__file__).parent / "other_context_guest.py"
ROUNDS, WARM = 4, 4
WEIGHTS_BYTES = 10 * 4 << 20
PLAIN = "launch_latency_ns: 7000"
RULES = """version: 1
devices: {home: 0, executors: [2]}
memory: {place: copies}
rules: [{match: {function: "*"}, device: 2}]
default: home
"""
SMALL = Machine(2, f"{PLAIN}, memory_gib: {64 / 1024}")
POOL = (*ALL_GPUS, "--pool", "--show", "all", "--reserve", "38MiB")


def placed(native: Path, place: Path, what: str) -> Ran:
    """In a pool, of which the first GPU has room for a half."""

    def once(*words: int) -> Ran:
        return run(native, place, SMALL, (GUEST, what, *words), POOL)

    assert emulated.is_analysed(until_analysed(lambda: once(1, WARM)).report)
    return once(ROUNDS)


def alone(native: Path, place: Path, what: str) -> Ran:
    return run(native, place, Machine(2, PLAIN), (GUEST, what, ROUNDS))


@pytest.mark.full
def test_a_context_alone_changes_nothing(native_build: Path, tmp_path: Path) -> None:
    """Layers run where their weights are; none are read through the link."""
    native = native_build / "native"
    ran = placed(native, tmp_path, "none")
    assert ran.lines == alone(native, tmp_path, "none").lines
    assert ran.remote_bytes == 0
    assert min(ran.by_device.values()) > 0


@pytest.mark.parametrize(
    "what", ["copy", *(pytest.param(what, marks=pytest.mark.full) for what in ("peer", "kernel", "set", "give"))]
)
def test_what_the_other_gpu_does_is_in_order(what: str, native_build: Path, tmp_path: Path) -> None:
    """From then on that memory has no copies; weights of the second GPU are read through the link, at most so often."""
    native = native_build / "native"
    ran = placed(native, tmp_path, what)
    assert ran.lines == alone(native, tmp_path, what).lines
    assert 0 < ran.remote_bytes < 2 * WEIGHTS_BYTES


@pytest.mark.full
def test_a_launch_says_that_its_memory_is_fixed(native_build: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(RULES)

    def once(*asked: str) -> Ran:
        return run(native_build / "native", tmp_path, Machine(3, PLAIN), (GUEST, "copy", ROUNDS), asked)

    assert emulated.is_analysed(until_analysed(lambda: once("--policy", str(policy))).report)
    ran = once("--policy", str(policy))
    assert ran.lines == once().lines
    assert ran.by_device["2"] > ran.by_device["0"] > 0
    assert set(ran.report["kept_home_by_reason"]) == {"memory_fixed"}


@pytest.mark.full
@pytest.mark.parametrize("what", ["copy", "peer"])
def test_the_other_gpu_copies_without_peer_access(what: str, native_build: Path, tmp_path: Path) -> None:
    """As it does natively: the driver carries the bytes through the host."""
    policy, machine = tmp_path / "policy.yaml", Machine(3, PLAIN, "pcie5-no-peer")
    policy.write_text(RULES)

    def once(*asked: str) -> Ran:
        return run(native_build / "native", tmp_path, machine, (GUEST, what, 1, WARM), asked)

    assert emulated.is_analysed(until_analysed(lambda: once("--policy", str(policy))).report)
    ran = once("--policy", str(policy))
    assert ran.lines == once().lines
    assert ran.by_device["2"] > 0
