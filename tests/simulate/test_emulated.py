"""The simulator against the virtual clock of emulated GPUs: scenarios of scripts/bench/simulator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests import bench_scripts
from tests.command import with_native

BENCH = bench_scripts.load("simulator")
NAMES = {f"{n}: {each.name} {each.gpus} {each.link}": each for n, each in enumerate(BENCH.SCENARIOS)}


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_a_programs_period_is_predicted(
    name: str, native_build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    native = native_build / "native"
    monkeypatch.setenv("TESSERA_NATIVE", str(native))
    bench: Any = BENCH.Bench(tmp_path, {**with_native(native), "XDG_CACHE_HOME": str(tmp_path / "cache")})
    found = bench.found(NAMES[name])
    assert abs(found.error) < 0.05, found


def test_there_are_twenty_scenarios() -> None:
    assert len(BENCH.SCENARIOS) >= 20
