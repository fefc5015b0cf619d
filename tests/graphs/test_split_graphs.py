"""Graphs in a pool whose memory lies on several GPUs: each part runs where its weights are."""

from pathlib import Path

import pytest

from tests.placement.test_large import ACTIVATION, GUEST, KIB, RANDOM, ROWS, Machine, run
from tests.sample import sampled

LAYERS, WAITED, MORE = 24, 4, 8  # of 4 MiB each; requests
POOL = Machine(2, 50, 14)  # no GPU has room for all layers, nor for copies of the other's


def test_a_captured_request_is_cut_where_its_layers_go_to_the_next_gpu(native_build: Path, tmp_path: Path) -> None:
    """It takes as long as on one GPU that has room for it: no weights are read from afar, one activation crosses."""
    native = native_build / "native"
    few, many = (("captured", LAYERS, WAITED, more, ROWS, KIB) for more in (0, MORE))
    alone = [run(native, tmp_path, Machine(1), GUEST, *words) for words in (few, many)]
    run(native, tmp_path, POOL, GUEST, "captured", LAYERS, 1, 0, ROWS, KIB)  # learns what launches touch
    waited, ran = (run(native, tmp_path, POOL, GUEST, *words) for words in (few, many))
    assert [waited.output, ran.output] == [each.output for each in alone]
    assert ran.remote_bytes == 0
    assert ran.report["graph_launches"] == {"0": WAITED + MORE, "1": WAITED + MORE}
    assert ran.pulled_bytes - waited.pulled_bytes == MORE * (1 + 2) * ACTIVATION  # at the cut, its input and result
    alone_ns = alone[1].virtual_ns - alone[0].virtual_ns
    assert (ran.virtual_ns - waited.virtual_ns) / alone_ns < 1.1


@pytest.mark.parametrize(
    ("seed", "reserve"), sampled([(seed, reserve) for reserve in (8, 44) for seed in range(8)], [(1, 8)])
)
def test_random_programs_that_keep_graphs_in_a_pool(
    seed: int, reserve: int, native_build: Path, tmp_path: Path
) -> None:
    """Every byte is right, with graphs that are cut wherever that moves a byte less."""
    native, machine = native_build / "native", Machine(4, 64 - reserve, reserve)
    words, near = (4 * machine.pool // 2, "graphs"), {"TESSERA_LEAD": "0"}
    run(native, tmp_path, machine, RANDOM, seed, 60, *words, **near)  # learns what launches touch
    ran = run(native, tmp_path, machine, RANDOM, seed, 300, *words, **near, TESSERA_DISORDER=str(seed + 1))
    assert min(ran.report["graph_launches"][gpu] for gpu in "0123") > 2
