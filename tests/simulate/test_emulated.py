"""The simulator against the virtual clock of emulated GPUs: scenarios of scripts/bench/simulator."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.command import ROOT, with_native
from tests.sample import sampled


def _bench() -> ModuleType:
    loader = importlib.machinery.SourceFileLoader("simulator_bench", str(ROOT / "scripts" / "bench" / "simulator"))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[loader.name] = module
    loader.exec_module(module)
    return module


BENCH = _bench()
NAMES = {f"{n}: {each.name} {each.gpus} {each.link}": each for n, each in enumerate(BENCH.SCENARIOS)}
SAMPLE = [name for name in NAMES if "stream" in name]


@pytest.mark.parametrize("name", sampled(NAMES, SAMPLE))
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
    assert len(SAMPLE) == 1
