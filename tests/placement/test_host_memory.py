"""Host memory as the last part of a pool (--host): what fits no GPU lies there, and is fetched before it is used."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests import emulated
from tests.emulated import Ran
from tests.fault.fault_driver import build, delays
from tests.placement.test_large import GUEST, MEBIBYTE, RANDOM, Machine, learn, run

LAYERS, ROWS, KIB = 18, 128, 16  # of 2 MiB each
POOL, RESERVE, HOST = 24, 12, 32  # MiB: a third of the layers fits no GPU
POLICY = f"""\
version: 1
devices: {{executors: []}}
memory: {{pool: true, reserve: {RESERVE}MiB, limit: {POOL + RESERVE}MiB, host: {HOST}MiB}}
"""
LINK_BYTES_PER_S = 48e9  # what a copy of 2 MiB from the host gets of it
PAGED_NS = 20_000 + 2 * (2 << 20) / LINK_BYTES_PER_S * 1e9  # a model: a fault, and 2 MiB in and out


def limited(native: Path, place: Path, *words: object, **variables: str) -> Ran:
    """On one GPU, of which a policy leaves as much as its pool has."""
    program = (GUEST, *words)
    ran = emulated.run(native, place, emulated.Machine(1), program, policy=POLICY, variables=variables, timeout_s=200)
    assert "the GPUs' memory is full" in ran.errors
    return ran


@pytest.mark.full
@pytest.mark.parametrize("fetch", ["1", "2"])
def test_what_fits_no_gpu_lies_on_the_host(fetch: str, native_build: Path, tmp_path: Path) -> None:
    """Launches read copies that have been fetched; none reads host memory itself, once it is known what they touch."""
    native, words = native_build / "native", ("layers", LAYERS, 4, 0, ROWS, KIB)
    alone = run(native, tmp_path, Machine(1), GUEST, *words)
    limited(native, tmp_path, *words)  # learns what launches touch
    ran = limited(native, tmp_path, *words, TESSERA_FETCH=fetch)
    host = ran.report["pool"]["host"]
    assert ran.output == alone.output
    assert ran.report["pool"]["gpus"][0]["owned_bytes"] == POOL * MEBIBYTE
    assert host["most_owned_bytes"] >= (2 * LAYERS - POOL) * MEBIBYTE
    assert host["through_link"] == host["refused"] == 0
    assert (host["prefetched_used"] > 0) == (fetch == "2")
    assert host["evicted"] > host["written_back"] > 0  # the layers, as they are made
    assert ran.report["devices"][0]["remote_bytes"] == 0


@pytest.mark.full
def test_a_chain_of_layers_too_large_by_a_third(native_build: Path, tmp_path: Path) -> None:
    """Virtual time of a pass through all layers against its bound: what the GPU computes, or the link brings."""
    native, ns, bytes_ = native_build / "native", {}, {}
    few, many = (("layers", LAYERS, count, 0, ROWS, KIB) for count in (2, 10))
    limited(native, tmp_path, *few)
    for fetch in "012":
        less, more = (limited(native, tmp_path, *words, TESSERA_FETCH=fetch) for words in (few, many))
        ns[fetch] = (more.virtual_ns - less.virtual_ns) / 8
        bytes_[fetch] = (more.pulled_bytes - less.pulled_bytes) / 8
    alone = [run(native, tmp_path, Machine(1), GUEST, *words).virtual_ns for words in (few, many)]
    computing = (alone[1] - alone[0]) / 8
    bringing = bytes_["2"] / LINK_BYTES_PER_S * 1e9
    assert ns["2"] < 1.1 * max(computing, bringing)
    assert ns["2"] <= 1.02 * ns["1"]
    assert ns["1"] < ns["0"]
    assert ns["2"] < (computing + LAYERS * PAGED_NS) / 3  # the least recently used block is the one that comes next


# in the one left out all requests that are refused are larger than what is left: the host is never full
SHAPES = [
    (gpus, seed, reserve)
    for gpus in (1, 2)
    for reserve in (8, 20, 44)
    for seed in range(4)
    if (gpus, seed, reserve) != (2, 3, 20)
]


@pytest.mark.full
@pytest.mark.parametrize(("gpus", "seed", "reserve"), SHAPES)
def test_a_random_program_and_its_model(gpus: int, seed: int, reserve: int, native_build: Path, tmp_path: Path) -> None:
    """Every byte is right, and memory is refused exactly when the GPUs and the host are full."""
    native, machine = native_build / "native", Machine(gpus, 64 - reserve, reserve, 40)
    pages = (gpus * machine.pool + machine.host) // 2
    learn(native, tmp_path, machine, RANDOM, seed, 60, pages)
    fetch = "2" if seed % 2 else "1"
    ran = run(native, tmp_path, machine, RANDOM, seed, 300, pages, TESSERA_DISORDER=str(seed + 1), TESSERA_FETCH=fetch)
    refused, given = map(int, ran.output.split())
    assert refused > 0
    assert given > 10
    assert ran.report["pool"]["host"]["most_owned_bytes"] == machine.host * MEBIBYTE
    assert ran.report["launches"]["kept_home"] == 0


REPEATED = Path(__file__).parent / "repeated_guest.py"


@pytest.mark.full
@pytest.mark.parametrize(
    ("seed", "reserve", "stream"), [(0, 12, ()), (1, 20, ("legacy",)), (2, 12, ("legacy",)), (3, 20, ())]
)
def test_what_repeats_is_foreseen(
    seed: int, reserve: int, stream: tuple[str, ...], native_build: Path, tmp_path: Path
) -> None:
    """Every byte is right, also where pieces are fetched ahead, and in whatever order what is ready begins."""
    native, machine = native_build / "native", Machine(1, 64 - reserve, reserve, 40)
    pages = (machine.pool + machine.host) // 2 - 2
    learn(native, tmp_path, machine, REPEATED, seed, 24, 2, pages, *stream)
    for fetch in "12":
        orders = {"TESSERA_DISORDER": str(seed + 1), "TESSERA_FETCH": fetch}
        ran = run(native, tmp_path, machine, REPEATED, seed, 24, 24, pages, *stream, **orders)
        host = ran.report["pool"]["host"]
        assert host["written_back"] > 0
        assert (host["prefetched_used"] > 0) == (fetch == "2")


def test_room_is_made_beside_captures(native_build: Path, tmp_path: Path) -> None:
    """Once it is known what launches touch. It takes a while until a capture that has begun is known."""
    native, program = native_build / "native", (Path(__file__).with_name("captured_room_guest.py"), 26, 6)
    tree = build(native, native_build / "cuda-headers", tmp_path)
    slow = delays(native, tree, 1, "cuStreamBeginCapture_v2", 50_000)

    def once() -> Ran:
        return emulated.run(native, tmp_path, emulated.Machine(1), program, policy=POLICY, variables=slow)

    ran = emulated.until_known(once, ["CUDA_SUCCESS"])
    assert ran.report["pool"]["host"]["evicted"] > 0


def test_it_is_device_memory_to_the_program(native_build: Path, tmp_path: Path) -> None:
    native, program = native_build / "native", (Path(__file__).with_name("kinds_guest.py"), POOL // 2)
    alone = emulated.run(native, tmp_path, emulated.Machine(1), program)
    ran = emulated.run(native, tmp_path, emulated.Machine(1), program, policy=POLICY)
    assert ran.output == alone.output
    assert ran.report["pool"]["host"]["most_owned_bytes"] > 0


def test_the_driver_has_no_host_memory(native_build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That is said; the program is refused what fits no GPU, and --strict fails."""
    native = native_build / "native"
    tree = build(native, native_build / "cuda-headers", tmp_path)
    monkeypatch.setenv("TESSERA_FAULT_DRIVER", str(native / "emulator" / "libcuda.so.1"))
    monkeypatch.setenv("TESSERA_FAULT_MARK", str(tmp_path / "mark"))
    monkeypatch.setenv("TESSERA_FAULT", f"{Path(sys.executable).name}:{POOL // 2 + 1}:cuMemCreate")
    program, options = (GUEST, "fill", LAYERS, ROWS, KIB), ("--strict", "--no-summary")
    line = emulated.command(tmp_path, emulated.Machine(1), program, options, POLICY)
    around = emulated.environment(tree, tmp_path)
    done = subprocess.run(line, text=True, capture_output=True, env=around, timeout=100, check=False)
    assert (tmp_path / "mark").read_text() == "cuMemCreate"
    assert done.stdout.strip() == f"{POOL // 2} of {LAYERS}"
    assert "the pool has no host memory, or no more: the driver refuses it (error 2)" in done.stderr
    assert "--strict: the driver refused host memory that the pool was to have" in done.stderr
    assert done.returncode == 3


def test_a_size_without_a_pool_is_refused(tmp_path: Path) -> None:
    line = emulated.command(tmp_path, emulated.Machine(2), (GUEST, "info"), ("--host", "1GiB"), "")
    done = subprocess.run(line, text=True, capture_output=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "--host is about the pool of --pool" in done.stderr
