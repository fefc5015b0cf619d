"""Launches that the analysis does not understand are made again on poisoned memory; used if a policy says so."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controlplane.analysis.allocations import Allocations
from controlplane.analysis.cache import Key
from controlplane.analysis.observed import SUFFIX, Observations
from controlplane.analysis.poison import Experiment, Seen
from controlplane.analysis.probe import ATTRIBUTES, NO_PARAMETERS, TOO_LARGE, Buffer, Probe, probe_of, reason_against
from controlplane.analysis.traced import TracedLaunch
from tests.check import unknown
from tests.command import TESSERA_RUN

PROGRAM = Path(unknown.__file__)
TESSERA = [sys.executable, "-c", "import sys; from controlplane.commands.main import main; sys.exit(main())"]
TIMEOUT_S = 180
PLACE = Probe("kernel", (1, 2, 3), (4, 5, 6), 7, "00" * 16, (Buffer(100, ((0, 8), (8, 0))),))
KEY = Key(1, 2, 90, True, "kernel")


@pytest.fixture(autouse=True)
def _surroundings(tmp_path: Path, native_build: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TESSERA_NATIVE", str(native_build / "native"))


def said(*arguments: str) -> str:
    done = subprocess.run([*TESSERA, *arguments], text=True, stdout=subprocess.PIPE, timeout=TIMEOUT_S, check=True)
    return done.stdout


def coverage(trace: Path) -> dict[str, Any]:
    """With what was observed."""
    policy = trace.with_name("policy.yaml")
    policy.write_text("version: 1\ndevices: {executors: [1]}\nanalysis: {observed: use}\n")
    found: dict[str, Any] = json.loads(said("analyze", "--trace", str(trace), "--policy", str(policy), "--json"))
    return found


@pytest.mark.full
def test_what_is_unknown_is_observed(tmp_path: Path) -> None:
    trace = tmp_path / "run.trace"
    options = ["--emulate", "1", "--no-summary", "--trace", str(trace), "--trace-parameters", "--"]
    subprocess.run([TESSERA_RUN, *options, sys.executable, PROGRAM], timeout=TIMEOUT_S, check=True)
    asked = ("probe", "--trace", str(trace), "--emulate", "1", "--json")
    found = {each["name"]: each for each in json.loads(said(*asked))["functions"]}
    indirect, chase = found["indirect"], found["chase"]
    assert (indirect["tier"], indirect["launches"], indirect["not_probed"]) == ("observed", 2, {})
    for probed, count in zip(indirect["probed"], (unknown.COUNT, 3), strict=True):
        assert (probed["grid"], probed["block"], probed["complete"]) == ([4, 1, 1], [32, 1, 1], True)
        output, source = probed["buffers"]
        assert (output["parameters"], output["bytes"], output["matters"]) == ([0], unknown.OUTPUT_BYTES, False)
        assert output["written"] == [{"first": unknown.OFFSET, "last": unknown.OFFSET + 4 * count - 1}]
        assert (source["parameters"], source["bytes"]) == ([8], unknown.INPUT_BYTES)
        assert (source["written"], source["matters"]) == ([], True)
    assert chase["probed"] == []
    ((reason, count),) = chase["not_probed"].items()
    assert (count, reason.startswith("it fails: ")) == (1, True)
    before = time.time()
    assert "memory of 4096 bytes at parameter offset 0: bytes 256 to 655 written" in said(*asked[:-1])
    assert all(file.stat().st_mtime < before for file in (tmp_path / "cache").rglob(f"*{SUFFIX}"))
    used = coverage(trace)
    assert used["coverage"]["by_tier"] == {"observed": 3, "unknown": 1}
    assert {each["name"]: each["tier"] for each in used["functions"]} == {"indirect": "observed", "chase": "unknown"}


def test_what_cannot_be_made_again_says_why() -> None:
    launch = TracedLaunch(1, (1, 1, 1), (1, 1, 1), 0, bytes(8), is_complete=True, device=0)
    allocations = Allocations()
    allocations.add(0x1000, 64)
    block = (0x1010).to_bytes(8, "little") + (7).to_bytes(8, "little") + (0x1000).to_bytes(8, "little")
    probe = probe_of("kernel", replace(launch, parameters=block), allocations)
    assert probe.buffers == (Buffer(64, ((0, 16), (16, 0))),)
    assert probe.parameters == bytes(8).hex() + block[8:16].hex() + bytes(8).hex()
    assert reason_against(launch, probe, 64) == ""
    assert reason_against(launch, probe, 63) == TOO_LARGE
    assert reason_against(replace(launch, has_attributes=True), probe, 64) == ATTRIBUTES
    assert reason_against(replace(launch, is_complete=False), probe, 64) == NO_PARAMETERS


def test_observations_are_kept_for_launches_like_it(tmp_path: Path) -> None:
    kept = Observations(tmp_path)
    seen = Experiment([Seen(100, [(0, 3), (50, 59)], 14, matters=True)], 5, 1, is_stable=False)
    assert kept.get(KEY, PLACE) is None
    kept.put(KEY, PLACE, seen)
    assert kept.get(KEY, PLACE) == seen
    others = [
        Probe("kernel", (1, 2, 4), (4, 5, 6), 7, PLACE.parameters, PLACE.buffers),
        Probe("kernel", (1, 2, 3), (4, 5, 6), 7, "01" * 16, PLACE.buffers),
        Probe("kernel", (1, 2, 3), (4, 5, 6), 7, PLACE.parameters, (Buffer(101, ((0, 8), (8, 0))),)),
        Probe("kernel", (1, 2, 3), (4, 5, 6), 7, PLACE.parameters, (Buffer(100, ((0, 8), (8, 4))),)),
    ]
    assert [kept.get(KEY, other) for other in others] == [None] * len(others)
    assert kept.get(Key(1, 2, 80, True, "kernel"), PLACE) is None
    (file,) = tmp_path.rglob(f"*{SUFFIX}")
    data = file.read_bytes()
    for place in (0, 10, len(data) // 2, len(data) - 1):
        file.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        assert kept.get(KEY, PLACE) is None
