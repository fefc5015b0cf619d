"""Machines of profiles: from what a driver says, and from names alone."""

from __future__ import annotations

from controlplane.machine.gpus import Answer, Gpu, Link
from controlplane.profile.machine import of_answer, of_names
from controlplane.profile.model import HOST


def _gpu(number: int, name: str, sm_count: int = 132) -> Gpu:
    address = f"0000:{number:02x}:00.0"
    return Gpu(number, name, address, 150 << 30, (9, 0), sm_count, True, True, True)


def test_what_the_driver_says_and_what_is_typical() -> None:
    links = tuple(Link(a, b, peer, True, 0, peer) for a, b, peer in ((0, 1, True), (1, 0, True), (0, 2, False)))
    names = ("NVIDIA H200", "NVIDIA H200", "Some Other GPU")
    found = of_answer(Answer(None, 13000, "580.1", tuple(map(_gpu, range(3), names)), links), 0, {1: 48})
    assert [found.types[of].name for of in found.gpus] == [*names]
    assert [found.types[of].sm_limit for of in found.gpus] == [0, 48, 0]
    h200, _, other = found.types
    assert (h200.key, h200.sm_count, h200.memory_bytes) == ("h200", 132, 150 << 30)
    assert h200.memory_bytes_per_s > 4 * 10**12
    assert (other.key, other.memory_bytes_per_s, other.sm_count) == ("", 0, 132)
    near, far = found.link(0, 1), found.link(0, 2)
    assert near is not None
    assert far is not None
    assert (near.kind, near.peer, near.measured) == ("nvlink", True, False)
    assert (far.kind, far.peer) == ("pcie", False)
    assert near.fence_ns > 0
    assert found.link(HOST, 2) is not None
    assert (found.driver, found.emulated) == ("580.1", False)


def test_names_alone() -> None:
    found = of_names(["NVIDIA L40S", "NVIDIA H200"])
    assert [kind.key for kind in found.types] == ["l40s", "h200"]
    assert found.call_ns > found.post_ns > 0
