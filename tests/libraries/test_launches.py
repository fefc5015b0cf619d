"""Launches inside calls, on an emulated GPU: the bytes that are touched are those that the call names."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import TESSERA_RUN
from tests.emulated import ALL_GPUS, TRIES, Machine, until_known
from tests.emulated import run as emulated
from tests.libraries.guest import CALLS
from tests.libraries.placed import CALLS as PLACED
from tests.libraries.stand_ins import build
from tests.policy.run import TIMEOUT_S, environment
from tests.sample import sampled

HERE = Path(__file__).parent
POLICY = """version: 1
devices: {home: 0, executors: [1]}
rules:
  - {match: {library_call: "cublas*"}, device: home}
"""
COPIES = """version: 1
devices: {home: 0, executors: [1]}
memory: {place: copies}
rules:
  - {match: {function: product, nth: {every: 2, offset: OFFSET}}, device: 1}
"""


GRAPHS = """version: 1
devices: {home: 0, executors: [1]}
memory: {place: copies}
rules:
  - {match: {nth: {every: 2}}, device: 1}
"""


def run(native: Path, stand_ins: Path, program: str, arguments: list[str], *options: str) -> str:
    command = [str(TESSERA_RUN), "--emulate", "2", "--no-summary", *options, "--"]
    done = subprocess.run(
        [*command, sys.executable, str(HERE / program), str(stand_ins), *arguments],
        text=True,
        capture_output=True,
        env=environment(native),
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def write_home(place: Path) -> Path:
    """A policy under which nothing runs elsewhere."""
    file = place / "home.yaml"
    file.write_text(POLICY)
    return file


def bytes_of(intervals: list[tuple[int, int]]) -> set[int]:
    return {byte for begin, end in intervals for byte in range(begin, end)}


def test_launches_touch_the_operands_of_their_calls(native_build: Path, tmp_path: Path) -> None:
    policy, trace = tmp_path / "policy.yaml", tmp_path / "accesses"
    policy.write_text(POLICY)
    build(tmp_path, (native_build / "native" / "include" / "tessera" / "library_calls.h").read_text())
    done = subprocess.run(
        [
            *(str(TESSERA_RUN), "--emulate", "2", "--policy", str(policy), "--"),
            *(sys.executable, str(HERE / "guest.py"), str(tmp_path)),
        ],
        text=True,
        capture_output=True,
        env={**environment(native_build), "TESSERA_ACCESS_TRACE": str(trace)},
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    predicted = [json.loads(line) for line in done.stdout.splitlines()]
    traced = [json.loads(line) for line in trace.read_text().splitlines()]
    assert len(predicted) == len(traced) == CALLS
    for named, touched in zip(predicted, traced, strict=True):
        work = set(range(*named["work"]))
        for kind in ("reads", "writes"):
            assert bytes_of(touched[kind]) <= set(named[kind])
            assert bytes_of(touched[kind]) - work == set(named[kind]) - work
        assert work <= set(named["writes"])
        assert not touched["atomics"]


@pytest.mark.parametrize("offset", sampled([0, 1], [1]))
def test_calls_say_what_gpus_with_copies_must_have(native_build: Path, tmp_path: Path, offset: int) -> None:
    policy, report = tmp_path / "policy.yaml", tmp_path / "report.json"
    policy.write_text(COPIES.replace("OFFSET", str(offset)))
    build(tmp_path, (native_build / "native" / "include" / "tessera" / "library_calls.h").read_text())

    away = run(native_build, tmp_path, "placed.py", [], "--policy", str(policy), "--json", str(report))
    assert away == run(native_build, tmp_path, "placed.py", [], "--policy", str(write_home(tmp_path)))
    assert json.loads(report.read_text())["launches"]["by_device"]["1"] == PLACED // 2


def test_counters_that_a_library_sets_hold_no_gpu_up(native_build: Path, tmp_path: Path) -> None:
    """Launches are placed: each is in a call that sets its counters before. On one GPU all stay by a rule."""
    build(tmp_path, (native_build / "native" / "include" / "tessera" / "library_calls.h").read_text())
    native, program = native_build / "native", (HERE / "counted.py", tmp_path)
    alone = emulated(native, tmp_path, Machine(2, ""), program, policy=POLICY)
    gains: list[float] = []
    while len(gains) < TRIES and max(gains, default=0) < 1.85:
        ran = until_known(lambda: emulated(native, tmp_path, Machine(2, ""), program, ALL_GPUS), alone.lines)
        assert ran.report["memory_copies"]["ties"] < 10
        gains.append(alone.virtual_ns / ran.virtual_ns)
    assert max(gains) > 1.85


@pytest.mark.full
def test_calls_say_what_graphs_touch_that_they_were_captured_into(native_build: Path, tmp_path: Path) -> None:
    """Graphs of captured calls run on the other GPU: as they are, as child graphs, and after an update."""
    policy, report = tmp_path / "policy.yaml", tmp_path / "report.json"
    policy.write_text(GRAPHS)
    build(tmp_path, (native_build / "native" / "include" / "tessera" / "library_calls.h").read_text())
    away = run(native_build, tmp_path, "captured.py", ["4"], "--policy", str(policy), "--json", str(report))
    assert away == run(native_build, tmp_path, "captured.py", ["4"], "--policy", str(write_home(tmp_path)))
    launches = json.loads(report.read_text())
    assert launches["graph_launches"] == {"0": 6, "1": 6}
    assert "ranges" not in launches["kept_home_by_reason"]


@pytest.mark.full
def test_what_a_call_said_is_not_said_of_nodes_made_by_hand(native_build: Path, tmp_path: Path) -> None:
    """They launch the same, and follow the same pointer, but it leads elsewhere by then. Their graph stays home."""
    policy, report = tmp_path / "policy.yaml", tmp_path / "report.json"
    policy.write_text(GRAPHS)
    build(tmp_path, (native_build / "native" / "include" / "tessera" / "library_calls.h").read_text())
    words = ["1", "4", "hand"]
    away = run(native_build, tmp_path, "reduced.py", words, "--policy", str(policy), "--json", str(report))
    assert away == run(native_build, tmp_path, "reduced.py", words, "--policy", str(write_home(tmp_path)))
    launches = json.loads(report.read_text())
    assert launches["graph_launches"]["0"] == 4
    assert launches["kept_home_by_reason"]["ranges"] == 2


@pytest.mark.full
@pytest.mark.parametrize(("calls", "how"), [(600, "itself"), (300, "child")])
def test_layers_share_a_launch_in_a_graph(native_build: Path, tmp_path: Path, calls: int, how: str) -> None:
    """Its nodes say in which call it is; in a copy of the graph all calls hold, what they have in common once."""
    policy, report = tmp_path / "policy.yaml", tmp_path / "report.json"
    policy.write_text(GRAPHS)
    build(tmp_path, (native_build / "native" / "include" / "tessera" / "library_calls.h").read_text())
    words = [str(calls), "4", how]
    away = run(native_build, tmp_path, "reduced.py", words, "--policy", str(policy), "--json", str(report))
    assert away == run(native_build, tmp_path, "reduced.py", words, "--policy", str(write_home(tmp_path)))
    launches = json.loads(report.read_text())
    assert launches["graph_launches"] == {"0": 2, "1": 2}
    assert "ranges" not in launches["kept_home_by_reason"]
