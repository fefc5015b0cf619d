"""Graphs in a pool whose memory lies on several GPUs: each part runs where its weights are."""

from pathlib import Path

import pytest

from tests.placement.test_large import ACTIVATION, GUEST, KIB, RANDOM, ROWS, Machine, learn, run

LAYERS, WAITED, MORE = 24, 2, 4  # of 4 MiB each; requests
POOL = Machine(2, 50, 14)  # no GPU has room for all layers, nor for copies of the other's


@pytest.mark.full
def test_a_captured_request_is_cut_where_its_layers_go_to_the_next_gpu(native_build: Path, tmp_path: Path) -> None:
    """It takes as long as on one GPU that has room for it: no weights are read from afar, one activation crosses."""
    native, requests = native_build / "native", WAITED + MORE
    words = ("captured", LAYERS, WAITED, MORE, ROWS, KIB)
    alone = run(native, tmp_path, Machine(1), GUEST, *words)
    learn(native, tmp_path, POOL, GUEST, "captured", LAYERS, 1, 0, ROWS, KIB)
    ran = run(native, tmp_path, POOL, GUEST, *words)
    assert ran.output == alone.output
    assert ran.remote_bytes == 0
    assert ran.report["graph_launches"] == {"0": requests, "1": requests}
    assert ran.pulled_bytes == requests * (1 + 2) * ACTIVATION  # at the cut, its input and result
    assert ran.virtual_ns / alone.virtual_ns < 1.1


@pytest.mark.full
def test_what_saves_little_makes_no_parts(native_build: Path, tmp_path: Path) -> None:
    """A row of half of the layers lies on the other GPU. A part for each of them would save some bytes, but there would
    be too many; without any a GPU would read half of the weights from afar.
    """
    native, requests, near = native_build / "native", WAITED + MORE, {"TESSERA_LEAD": "500"}
    words = ("scattered", LAYERS, WAITED, MORE, ROWS, KIB)
    alone = run(native, tmp_path, Machine(1), GUEST, *words)
    learn(native, tmp_path, POOL, GUEST, "scattered", LAYERS, 1, 0, ROWS, KIB)
    ran = run(native, tmp_path, POOL, GUEST, *words, **near)
    assert ran.output == alone.output
    parts = ran.report["graph_launches"]
    assert min(parts["0"], parts["1"]) >= requests
    assert sum(parts.values()) <= 16 * requests
    assert ran.virtual_ns / alone.virtual_ns < 1.1


@pytest.mark.full
@pytest.mark.parametrize("reserve", [8, 44])
@pytest.mark.parametrize("seed", range(8))
def test_random_programs_that_keep_graphs_in_a_pool(
    seed: int, reserve: int, native_build: Path, tmp_path: Path
) -> None:
    """Every byte is right, with graphs that are cut wherever that moves a byte less."""
    native, machine = native_build / "native", Machine(4, 64 - reserve, reserve)
    words, near = (4 * machine.pool // 2, "graphs"), {"TESSERA_LEAD": "0"}
    learn(native, tmp_path, machine, RANDOM, seed, 60, *words, **near)
    ran = run(native, tmp_path, machine, RANDOM, seed, 600, *words, **near, TESSERA_DISORDER=str(seed + 1))
    assert min(ran.report["graph_launches"][gpu] for gpu in "0123") > 2
