"""What --stats and --trace say of programs, against what the emulated GPUs counted; a control plane that dies."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.command import TESSERA, TESSERA_RUN, with_native
from tests.e2e.build import BuildError
from tests.sample import sampled
from tests.trace_events import check_trace_events

TIMEOUT_S = 120
NAME_BYTES = 111  # of a kernel in the emulated machine's table
LOOP = Path(__file__).parent / "guests" / "loop.py"


def observe(command: list[str | Path], native: Path, place: Path, *options: str) -> tuple[dict[str, Any], Path]:
    """Runs the program with statistics and a trace; the result is the emulated GPUs' counts and the statistics."""
    trace = place / "run.trace"
    arguments = [f"--stats={place / 'stats.json'}", "--trace", str(trace), "--timing", "all", *options]
    return run(command, native, *arguments), trace


def run(command: list[str | Path], native: Path, *options: str) -> dict[str, Any]:
    environment = with_native(native)
    done = subprocess.run(
        [TESSERA_RUN, "--emulate", "2", "--no-summary", *options, "--", *command],
        env=environment,
        text=True,
        capture_output=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr
    files = [Path(option.split("=", 1)[1]) for option in options if option.startswith(("--stats=", "--json="))]
    data: dict[str, Any] = json.loads(files[0].read_text())
    return data


PROGRAMS = ("vector_add", "softmax", "peer_copies", "pitched_copies", "stream_ordered_memory", "streams_events")


@pytest.mark.parametrize("name", sampled(PROGRAMS, ["stream_ordered_memory"]))
def test_counts_are_those_of_the_gpus(
    name: str, executables: dict[str, Path | BuildError], native_build: Path, tmp_path: Path
) -> None:
    executable = executables[name]
    assert isinstance(executable, Path), str(executable)
    native = native_build / "native"
    gpus = run([executable], native, f"--json={tmp_path / 'gpus.json'}")
    stats, _ = observe([executable], native, tmp_path)
    ran = {(row["device"], row["name"]): row["launches"] for row in gpus["kernels"]}
    seen = {(row["device"], row["name"].encode()[:NAME_BYTES].decode()): row["launches"] for row in stats["kernels"]}
    assert seen == ran
    by_device = {str(row["device"]): row["launches"] for row in gpus["devices"] if row["launches"]}
    assert stats["launches"]["by_device"] == by_device
    assert stats["launches"]["timed"] == stats["launches"]["total"]
    assert stats["records"] == {"lost": 0, "times_lost": 0}
    # A copy between two GPUs counts on both of them there.
    assert sum(row["copies"] for row in stats["copies"]) <= sum(row["copies"] for row in gpus["copies"])
    if name != "peer_copies":
        assert sum(row["copied_bytes"] for row in stats["copies"]) == sum(row["copied_bytes"] for row in gpus["copies"])


@pytest.mark.full
def test_kernels_in_graphs_are_counted(
    executables: dict[str, Path | BuildError], native_build: Path, tmp_path: Path
) -> None:
    executable = executables["graph_capture"]
    assert isinstance(executable, Path), str(executable)
    gpus = run([executable], native_build / "native", f"--json={tmp_path / 'gpus.json'}")
    stats, _ = observe([executable], native_build / "native", tmp_path)
    inside = stats["graphs"]["kernels"] + stats["launches"]["total"]
    assert inside == sum(row["launches"] for row in gpus["devices"])
    assert stats["launches"]["captured"] > 0


@pytest.mark.full
def test_a_trace_tells_the_same_and_is_exported(
    executables: dict[str, Path | BuildError], native_build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    executable = executables["streams_events"]
    assert isinstance(executable, Path), str(executable)
    stats, trace = observe([executable], native_build / "native", tmp_path)
    monkeypatch.setenv("TESSERA_NATIVE", str(native_build / "native"))
    command: list[str | Path] = [TESSERA, "trace", "show", "--json", "--limit", "1000", trace]
    shown = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=TIMEOUT_S).stdout)
    for part in ("launches", "copies", "memory", "graphs", "synchronisations"):
        assert shown["report"][part] == stats[part], part
    assert len(shown["launches"]) == stats["launches"]["total"]
    output = tmp_path / "run.json"
    subprocess.run([TESSERA, "trace", "export", trace, "-o", output], check=True, timeout=TIMEOUT_S)
    events = json.loads(output.read_text())["traceEvents"]
    check_trace_events(events)
    kernels = [event for event in events if event.get("cat") == "kernel"]
    assert len(kernels) == stats["launches"]["total"]
    assert [event for event in events if event["ph"] == "s" and event["name"] == "event"]


def start(native: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [TESSERA_RUN, "--emulate", "1", "--no-summary", *options, "--", sys.executable, LOOP],
        env=with_native(native),
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def control_plane_of(starter: int) -> int:
    children = Path(f"/proc/{starter}/task/{starter}/children").read_text().split()
    [found] = [one for one in children if b"controlplane.server.main" in Path(f"/proc/{one}/cmdline").read_bytes()]
    return int(found)


@pytest.mark.full
def test_a_control_plane_killed_in_the_middle_changes_nothing(native_build: Path, tmp_path: Path) -> None:
    trace = tmp_path / "t"
    with start(native_build / "native", "--stats", "--trace", str(trace)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "launched 500\n"
        time.sleep(1.5)  # a trace is written once a second
        os.kill(control_plane_of(process.pid), signal.SIGKILL)
        out, err = process.communicate("go on\n", timeout=TIMEOUT_S)
    assert (process.returncode, out) == (7, "launched 1000: 1000.0\n")
    how = "the control plane process was ended by signal 9 (Killed)"
    kept = f"{trace} holds what had come before; the program was not affected"
    assert err == f"tessera-run: no statistics of this run: {how}; {kept}\n"
    command: list[str | Path] = [TESSERA, "trace", "show", "--json", trace]
    environment = with_native(native_build / "native")
    shown = subprocess.run(command, check=True, capture_output=True, env=environment, timeout=TIMEOUT_S).stdout
    assert json.loads(shown)["report"]["kernels"][0]["launches"] == 500


@pytest.mark.full
def test_a_full_disk_ends_the_trace_and_nothing_else(native_build: Path, tmp_path: Path) -> None:
    """The limit stands for the disk; it is set for the control plane process alone, as programs know it, too."""
    stats, trace = tmp_path / "stats.json", tmp_path / "t"
    with start(native_build / "native", f"--stats={stats}", "--trace", str(trace)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "launched 500\n"
        time.sleep(1.5)
        limit = trace.stat().st_size + 100
        resource.prlimit(control_plane_of(process.pid), resource.RLIMIT_FSIZE, (limit, limit))
        out, err = process.communicate("go on\n", timeout=TIMEOUT_S)
    assert (process.returncode, out) == (7, "launched 1000: 1000.0\n")
    assert err == f"tessera-run: --trace {trace}: File too large; the trace ends here, the program goes on\n"
    assert json.loads(stats.read_text())["launches"]["total"] == 1000


def test_launches_that_a_policy_sends_away_are_on_their_gpu(
    executables: dict[str, Path | BuildError], native_build: Path, tmp_path: Path
) -> None:
    executable = executables["softmax"]
    assert isinstance(executable, Path), str(executable)
    policy = tmp_path / "policy.yaml"
    policy.write_text("version: 1\ndevices: {home: 0, executors: [1]}\nrules: [{match: {function: '*'}, device: 1}]\n")
    gpus = run([executable], native_build / "native", f"--json={tmp_path / 'gpus.json'}")
    stats, trace = observe([executable], native_build / "native", tmp_path, "--policy", str(policy))
    total = sum(row["launches"] for row in gpus["devices"])
    assert stats["launches"]["total"] == total > 0
    assert stats["launches"]["by_device"] == {"1": total}
    assert [row["launches"] for row in stats["devices"]] == [0, total]
    command: list[str | Path] = [TESSERA, "trace", "show", "--json", trace]
    environment = with_native(native_build / "native")
    shown = subprocess.run(command, check=True, capture_output=True, env=environment, timeout=TIMEOUT_S).stdout
    assert {tuple(launch["flags"]) for launch in json.loads(shown)["launches"]} == {("redirected",)}
