"""Pulls in a trace: when each ran on its GPU, why, which launch wrote its bytes, and which one they were for."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from controlplane.observe import perfetto, timeline, trace
from controlplane.observe.report import report
from tests.command import TESSERA_RUN, with_native
from tests.fault.executor_faults import COPIES, POLICY, learn
from tests.trace_events import check_trace_events

ROUNDS = 4


def recorded(native: Path, place: Path, link: str) -> dict[str, Any]:
    """A run of a program whose launches alternate between two GPUs, all timed; its trace is `place / "trace"`."""
    policy, machine, out = place / "policy.yaml", place / "machine.yaml", place / "report.json"
    policy.write_text(POLICY + COPIES)
    machine.write_text(f"devices:\n  - {{gpu: h200, count: 2}}\nlink: {link}\n")
    known = learn(native, policy, place / "cache")
    options = ["--timing", "all", "--trace", str(place / "trace"), "--json", str(out)]
    command = [str(TESSERA_RUN), "--emulate", str(machine), "--policy", str(policy), *options]
    done = subprocess.run(
        [*command, "--", str(native.parent / "fault" / "fault_worker"), str(ROUNDS)],
        env={**with_native(native), **known},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.endswith("right\n"), done.stderr
    assert "what streams waited for that" in done.stderr
    found: dict[str, Any] = json.loads(out.read_text())
    return found


@pytest.mark.full
@pytest.mark.parametrize("link", ["nvlink4", "pcie5-no-peer"])
def test_pulls_are_slices_with_arrows(
    link: str, native_build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TESSERA_NATIVE", str(native_build / "native"))
    said = recorded(native_build / "native", tmp_path, link)
    copies = said["memory_copies"]
    for gpu in ("0", "1"):
        of_gpu = [pull for pull in said["pulls"] if str(pull["device"]) == gpu]
        assert sum(pull["pulls"] for pull in of_gpu) == copies["pulls"][gpu]
        assert sum(pull["bytes"] for pull in of_gpu) == copies["pulled_bytes"][gpu]
    assert {pull["cause"] for pull in said["pulls"]} == {"launch", "copy"}
    assert all(pull["timed"] == pull["pulls"] for pull in said["pulls"])
    assert copies["waited_ns"] == sum(pull["gpu_ns"] for pull in said["pulls"]) > 0

    found = trace.load(tmp_path / "trace")
    assert [pull.bytes for pull in report(found.statistics()).pulls] == [pull["bytes"] for pull in said["pulls"]]
    line = timeline.build(found)
    check_trace_events([json.loads(json.dumps(event)) for event in perfetto.events(line)])
    pulls = [
        (group.device, slice_)
        for group in line.groups
        for track in group.tracks
        for slice_ in track.slices
        if slice_.category == "pull"
    ]
    assert Counter(str(device) for device, _ in pulls) == copies["pulls"]
    assert sum(slice_.end_ns - slice_.start_ns for _, slice_ in pulls) == copies["waited_ns"]
    assert {slice_.details["from GPU"] for device, slice_ in pulls if device == 1} == {0}
    assert all((slice_.details.get("way") is not None) == (link != "nvlink4") for _, slice_ in pulls)

    written = [flow for flow in line.flows if flow.name == "written"]
    used = [flow for flow in line.flows if flow.name == "pulled for"]
    # Bytes that the program copied to the GPU were written by no launch, and those for its own copies are used by none.
    assert len({id(flow.target[1]) for flow in written}) == len(written) >= len(pulls) - 2
    assert len(used) == sum(slice_.details["for"] == "launch" for _, slice_ in pulls)
    gpu_of = {id(track): group.device for group in line.groups for track in group.tracks}
    for flow in written:
        (source, before), (target, pull) = flow.source, flow.target
        assert before.end_ns <= pull.start_ns
        assert gpu_of[id(source)] == pull.details["from GPU"] != gpu_of[id(target)]
    for flow in used:
        (source, pull), (target, after) = flow.source, flow.target
        assert pull.end_ns <= after.start_ns
        assert gpu_of[id(source)] == gpu_of[id(target)]
        assert pull.details["stream"] == after.details["stream"]


@pytest.mark.full
def test_a_sample_of_pulls_is_timed(native_build: Path, tmp_path: Path) -> None:
    """The first ones of a thread, and some of the others: what all take is estimated."""
    native, policy, out = native_build / "native", tmp_path / "policy.yaml", tmp_path / "report.json"
    policy.write_text(POLICY + COPIES)
    known = learn(native, policy, tmp_path / "cache")
    command = [str(TESSERA_RUN), "--emulate", "2", "--no-summary", "--policy", str(policy), "--json", str(out)]
    command += [f"--stats={tmp_path / 'stats'}", "--", str(native.parent / "fault" / "fault_worker"), "60"]
    subprocess.run(command, env={**with_native(native), **known}, check=True, capture_output=True)
    pulls = json.loads(out.read_text())["pulls"]
    count, timed = sum(pull["pulls"] for pull in pulls), sum(pull["timed"] for pull in pulls)
    assert count > 400
    assert 8 < timed < count / 4
    assert all(pull["gpu_ns"] > 1000 * pull["pulls"] for pull in pulls if pull["timed"])
