"""Graphs in a pool whose memory lies on several GPUs: each part runs where its weights are."""

from pathlib import Path

from tests.placement.test_large import ACTIVATION, GUEST, KIB, ROWS, Machine, run

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
