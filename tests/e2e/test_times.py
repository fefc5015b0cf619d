"""Time on the GPU: every launch of a program that ends at once has one, and none when that is not wanted."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.command import TESSERA_RUN, with_native
from tests.e2e.build import BuildError
from tests.sample import sampled

TIMEOUT_S = 120
LAUNCHES = Path(__file__).parents[1] / "policy" / "launches.py"


def run(
    executable: Path | str | BuildError,
    native: Path,
    place: Path,
    timing: str,
    *more: str,
    arguments: tuple[str | Path, ...] = (),
    given: str = "",
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Statistics, and the events of the exported trace. more: options; given: to the program, on its standard input."""
    assert isinstance(executable, Path | str), str(executable)
    stats, trace, export = place / "stats.json", place / "run.trace", place / "run.json"
    options = ["--emulate", "2", "--no-summary", "--timing", timing, f"--stats={stats}", "--trace", str(trace)]
    environment = with_native(native / "native")
    command = [TESSERA_RUN, *options, *more, "--", executable, *arguments]
    subprocess.run(command, env=environment, timeout=TIMEOUT_S, check=True, input=given, text=True)
    subprocess.run(
        [TESSERA_RUN.with_name("tessera"), "trace", "export", trace, "-o", export], check=True, env=environment
    )
    return json.loads(stats.read_text()), json.loads(export.read_text())["traceEvents"]


@pytest.mark.parametrize("name", sampled(["vector_add", "streams_events", "softmax"], ["softmax"]))
def test_all_launches_are_timed(
    name: str, executables: dict[str, Path | BuildError], native_build: Path, tmp_path: Path
) -> None:
    stats, _ = run(executables[name], native_build, tmp_path, "all")
    assert stats["launches"]["total"] > 0
    assert stats["launches"]["timed"] == stats["launches"]["total"]
    assert stats["records"] == {"lost": 0, "times_lost": 0}
    for kernel in stats["kernels"]:
        assert kernel["gpu_ns"] >= kernel["virtual_ns"]  # what lies between the two events, the launch included


@pytest.mark.full
def test_launches_of_graphs_are_timed_one_after_the_other(
    executables: dict[str, Path | BuildError], native_build: Path, tmp_path: Path
) -> None:
    stats, events = run(executables["graph_explicit"], native_build, tmp_path, "all")
    graphs = sorted((event["ts"], event["dur"]) for event in events if event.get("cat") == "graph")
    assert len(graphs) == stats["graphs"]["launches"] > 1
    for (start, length), (later, _) in pairwise(graphs):
        assert length > 0
        assert start + length <= later


@pytest.mark.full
def test_copies_are_timed(executables: dict[str, Path | BuildError], native_build: Path, tmp_path: Path) -> None:
    _, events = run(executables["peer_copies"], native_build, tmp_path, "all")
    assert [event for event in events if event.get("cat") == "copy" and event["dur"] > 0]


def test_nothing_is_timed_when_it_is_off(
    executables: dict[str, Path | BuildError], native_build: Path, tmp_path: Path
) -> None:
    stats, _ = run(executables["softmax"], native_build, tmp_path, "off")
    assert stats["launches"]["timed"] == 0
    assert stats["records"] == {"lost": 0, "times_lost": 0}


POLICY = "version: 1\ndevices: {home: 0, executors: [1]}\ndefault: 1\n"
HOST_CALL_NS = (
    2000  # controlplane/machine/emulate.py: what a call costs; one lies between the first event and the launch
)


@pytest.mark.full
def test_launches_on_executors_are_timed(
    executables: dict[str, Path | BuildError], native_build: Path, tmp_path: Path
) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    stats, events = run(executables["softmax"], native_build, tmp_path, "all", "--policy", str(policy))
    launches = stats["launches"]
    assert launches["by_device"] == {"1": launches["total"]}
    assert launches["timed"] == launches["total"] > 0
    assert stats["records"] == {"lost": 0, "times_lost": 0}
    for kernel in stats["kernels"]:
        within = 2 * HOST_CALL_NS * kernel["launches"]
        assert kernel["device"] == 1
        assert kernel["virtual_ns"] <= kernel["gpu_ns"] <= kernel["virtual_ns"] + within
    groups = {event["pid"]: event["args"]["name"] for event in events if event.get("name") == "process_name"}
    slices = [event for event in events if event.get("cat") == "kernel"]
    assert len(slices) == launches["total"]
    assert all(groups[event["pid"]].startswith("GPU 1 ") for event in slices)


@pytest.mark.full
def test_times_at_home_and_elsewhere_have_one_clock(native_build: Path, tmp_path: Path) -> None:
    """Two launches that follow each other in a stream, on two GPUs, do so in the trace."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "version: 1\ndevices: {home: 0, executors: [1]}\n"
        "memory: {place: follow}\nrules:\n  - {match: {function: alpha, nth: {every: 2, offset: 1}}, device: 1}\n"
    )
    launches = json.dumps([{"function": "alpha", "stream": 1}] * 6)
    options = ("--policy", str(policy))
    stats, events = run(sys.executable, native_build, tmp_path, "all", *options, arguments=(LAUNCHES,), given=launches)
    assert stats["launches"]["by_device"] == {"0": 3, "1": 3}
    slices = sorted((event["ts"], event["dur"], event["pid"]) for event in events if event.get("cat") == "kernel")
    assert len({gpu for _, _, gpu in slices}) == 2
    for (start, length, gpu), (later, _, other) in pairwise(slices):
        assert gpu != other  # they take turns
        assert start + length <= later
