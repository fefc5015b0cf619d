"""Time on the GPU: every launch of a program that ends at once has one, and none when that is not wanted."""

from __future__ import annotations

import json
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.command import TESSERA_RUN, with_native
from tests.e2e.build import BuildError

TIMEOUT_S = 120


def run(
    executable: Path | BuildError, native: Path, place: Path, timing: str
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Statistics, and the events of the exported trace."""
    assert isinstance(executable, Path), str(executable)
    stats, trace, export = place / "stats.json", place / "run.trace", place / "run.json"
    options = ["--emulate", "2", "--no-summary", "--timing", timing, f"--stats={stats}", "--trace", str(trace)]
    environment = with_native(native / "native")
    subprocess.run([TESSERA_RUN, *options, "--", executable], env=environment, timeout=TIMEOUT_S, check=True)
    subprocess.run(
        [TESSERA_RUN.with_name("tessera"), "trace", "export", trace, "-o", export], check=True, env=environment
    )
    return json.loads(stats.read_text()), json.loads(export.read_text())["traceEvents"]


@pytest.mark.parametrize("name", ["vector_add", "streams_events", "softmax"])
def test_all_launches_are_timed(
    name: str, executables: dict[str, Path | BuildError], native_build: Path, tmp_path: Path
) -> None:
    stats, _ = run(executables[name], native_build, tmp_path, "all")
    assert stats["launches"]["total"] > 0
    assert stats["launches"]["timed"] == stats["launches"]["total"]
    assert stats["records"] == {"lost": 0, "times_lost": 0}
    for kernel in stats["kernels"]:
        assert kernel["gpu_ns"] >= kernel["virtual_ns"]  # what lies between the two events, the launch included


def test_launches_of_graphs_are_timed_one_after_the_other(
    executables: dict[str, Path | BuildError], native_build: Path, tmp_path: Path
) -> None:
    stats, events = run(executables["graph_explicit"], native_build, tmp_path, "all")
    graphs = sorted((event["ts"], event["dur"]) for event in events if event.get("cat") == "graph")
    assert len(graphs) == stats["graphs"]["launches"] > 1
    for (start, length), (later, _) in pairwise(graphs):
        assert length > 0
        assert start + length <= later


def test_copies_are_timed(executables: dict[str, Path | BuildError], native_build: Path, tmp_path: Path) -> None:
    _, events = run(executables["peer_copies"], native_build, tmp_path, "all")
    assert [event for event in events if event.get("cat") == "copy" and event["dur"] > 0]


def test_nothing_is_timed_when_it_is_off(
    executables: dict[str, Path | BuildError], native_build: Path, tmp_path: Path
) -> None:
    stats, _ = run(executables["vector_add"], native_build, tmp_path, "off")
    assert stats["launches"]["timed"] == 0
    assert stats["records"] == {"lost": 0, "times_lost": 0}
