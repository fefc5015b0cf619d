"""Copies of memory on GPUs that do not see each other's memory, or must not: what one needs goes through the host."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.emulated import TRIES
from tests.placement.test_copies import BYTES, LAYERS, RANDOM, REQUESTS, THREADS, guest, serve
from tests.random.campaign import NONE, POLICIES, Setting, run
from tests.sample import sampled

RELAY = Path(__file__).with_name("relay_guest.py")
NO_PEER, CORRUPT = "pcie5-no-peer", "{type: pcie5, corrupts: true}"
MIXED = f"{NO_PEER}\nlinks: [{{between: [0, 1], type: nvlink4}}, {{between: [2, 3], type: nvlink4}}]"
EVERYTHING_AWAY = 'rules:\n  - {match: {function: "*"}, device: 1}\n'
PCIE5_BYTES_PER_MS = 53e6
RELAYED = [(1, 32 << 20), (3, (9 << 20) + 77), (40, 5000)]


@pytest.mark.full
def test_a_server_s_threads_share_two_gpus_without_peer_access(native_build: Path, tmp_path: Path) -> None:
    native = native_build / "native"
    alone = serve(native, tmp_path, None, link=NO_PEER)
    serve(native, tmp_path, "copies", link=NO_PEER)  # learns what launches touch
    ran = serve(native, tmp_path, "copies", link=NO_PEER)
    assert ran.output == alone.output
    assert [device["launches"] for device in ran.report["devices"]] == [LAYERS * (REQUESTS + 1) * THREADS // 2] * 2
    assert [device["remote_bytes"] for device in ran.report["devices"]] == [0, 0]
    assert ran.report["memory_copies"]["pulled_bytes"]["1"] <= (LAYERS + 2 * THREADS) * BYTES
    assert ran.report["memory_copies"]["through_host_bytes"] == ran.report["memory_copies"]["pulled_bytes"]
    assert [(pair["ok"], pair["why"]) for pair in ran.report["memory_copies"]["pairs"]] == [(False, "no_access")] * 2
    least = ran.virtual_ns
    for _ in range(TRIES):
        if alone.virtual_ns > 1.5 * least:
            break
        least = min(least, serve(native, tmp_path, "copies", link=NO_PEER).virtual_ns)
    assert alone.virtual_ns / least > 1.5


@pytest.mark.full
def test_gpus_whose_copies_of_each_other_arrive_wrong_go_without(native_build: Path, tmp_path: Path) -> None:
    """The emulated link changes a byte of each copy, and says nothing."""
    native = native_build / "native"
    alone = serve(native, tmp_path, None, link=CORRUPT)
    serve(native, tmp_path, "copies", link=CORRUPT)
    ran = serve(native, tmp_path, "copies", link=CORRUPT)
    assert ran.output == alone.output
    assert ran.report["devices"][1]["launches"] == LAYERS * (REQUESTS + 1) * THREADS // 2
    assert ran.report["memory_copies"]["through_host_bytes"] == ran.report["memory_copies"]["pulled_bytes"]
    assert [(pair["ok"], pair["why"]) for pair in ran.report["memory_copies"]["pairs"]] == [(False, "wrong")] * 2
    told = sorted(line[:41] for line in ran.errors.splitlines() if line.startswith("tessera: GPU"))
    assert told == [f"tessera: GPU {user}'s copies of GPU {1 - user}'s memory" for user in range(2)]


@pytest.mark.parametrize(("streams", "size"), sampled(RELAYED, [RELAYED[0]]))
def test_what_goes_through_host_memory_arrives(streams: int, size: int, native_build: Path, tmp_path: Path) -> None:
    """Many chunks, several streams at once, and more streams than have host memory of their own."""
    native, program = native_build / "native", [str(RELAY), str(streams), str(size)]
    guest(native, tmp_path, "copies", EVERYTHING_AWAY, program, NO_PEER)
    one_way_ms, least = size / PCIE5_BYTES_PER_MS, float("inf")
    for _ in range(TRIES):
        ran = guest(native, tmp_path, "copies", EVERYTHING_AWAY, program, NO_PEER)
        took_ms, right = ran.output.split()
        assert right == "right"
        assert ran.report["memory_copies"]["through_host_bytes"]["1"] >= streams * size
        assert ran.report["memory_copies"]["through_host_bytes"]["0"] >= streams * size
        least = min(least, float(took_ms))
        if streams > 1 or least < 1.6 * one_way_ms:
            break
    assert streams > 1 or one_way_ms < least < 1.6 * one_way_ms  # both halves of the way at once


@pytest.mark.full
@pytest.mark.parametrize("programs", [10, 60])
@pytest.mark.parametrize("name", RANDOM)
def test_random_programs_give_the_same_bytes_without_peer_access(
    name: str, programs: int, native_build: Path, tmp_path: Path
) -> None:
    setting = Setting(native_build, tmp_path, variables={"XDG_CACHE_HOME": str(tmp_path / "cache")})
    asked = ["--seed", str(RANDOM[name]), "--programs", str(programs)]
    plain = run(setting, POLICIES[NONE], asked, programs)
    policy = replace(POLICIES[name], link=MIXED if POLICIES[name].gpus == 4 else NO_PEER)
    first, second = (run(setting, policy, asked, programs) for _ in range(2))
    assert (plain.bad, first.bad, second.bad) == ("", "", "")
    assert plain.digests == first.digests == second.digests
    assert sum(second.report["memory_copies"]["through_host_bytes"].values()) > 0
