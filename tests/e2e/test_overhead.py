"""What the shim adds to cuLaunchKernel, in instructions of the calling thread: the same on every machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.bench import launch_overhead

MOST_THROUGH = 12  # measured: 4
MOST_RECORDED = 900  # measured: 450, of which a share for the launches that are timed


@pytest.mark.parametrize("observed", [(), pytest.param(("stats", "trace"), marks=pytest.mark.full)])
def test_instructions_per_launch(
    observed: tuple[str, ...], native_build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TESSERA_NATIVE", str(native_build / "native"))
    host = launch_overhead.compile_host(tmp_path)
    null = native_build / "null_driver" / "libcuda.so.1"
    counted = launch_overhead.instructions(host, null, ("through", *observed))
    assert 10 < counted["direct"] < 60
    assert 0 < counted["through"] - counted["direct"] <= MOST_THROUGH, counted
    for mode in observed:
        assert MOST_THROUGH < counted[mode] - counted["direct"] <= MOST_RECORDED, counted
