"""When it cannot be found out whether GPUs copy each other's memory rightly, that is said, and they are used."""

from pathlib import Path

import pytest

from tests.fault.call_faults import CALL, EXECUTOR
from tests.fault.fault_driver import build
from tests.placement.test_copies import serve


@pytest.mark.full
def test_a_proof_that_fails(native_build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    native = native_build / "native"
    alone = serve(native, tmp_path, None)
    tree = build(native, native_build / "cuda-headers", tmp_path)
    monkeypatch.setenv("TESSERA_FAULT_DRIVER", str(native / "emulator" / "libcuda.so.1"))
    monkeypatch.setenv("TESSERA_FAULT_MARK", str(tmp_path / "mark"))
    monkeypatch.setenv(CALL, f"{EXECUTOR}:1:cuMemCreate")
    ran = serve(tree, tmp_path, "copies")
    assert (tmp_path / "mark").read_text() == "cuMemCreate"
    assert ran.output == alone.output
    assert [(pair["ok"], pair["why"]) for pair in ran.report["memory_copies"]["pairs"]] == [(None, "failed")] * 2
    assert "whether GPU 1 copies memory of GPU 0 rightly could not be found out (error 2)" in ran.errors
