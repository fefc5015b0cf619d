"""Profiles of programs as they run on emulated GPUs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from controlplane.commands.main import main
from controlplane.graph.versions import dependencies
from controlplane.profile import file
from controlplane.profile.model import Kind, Role, Source
from controlplane.profile.program import unrolled
from tests.command import TESSERA_RUN, with_native
from tests.profile.guest_runs import STEP_NS, machine, profiled, run

GUEST = "automatic_guest.py"


def test_a_run_writes_a_profile_of_what_it_does_again_and_again(
    native_build: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = machine(tmp_path, 1)
    profile = profiled(native_build / "native", tmp_path, one, GUEST, "answers", "8", "40", "8")
    iteration = profile.iteration
    assert (len(iteration.operations), iteration.count, iteration.carried) == (42, 8, ())
    names = [profile.classes[each.of].name for each in iteration.operations]
    assert sorted(set(names)) == ["copy to host", "look", "step"]
    step = next(of for of in profile.classes if of.name == "step")
    assert (step.grid, step.block, step.bytes) == ((8, 1, 1), (256, 1, 1), 2 * 8192)
    (time,) = step.times
    assert time is not None
    assert (time.ns, time.spread_ns, time.source, time.error) == (STEP_NS, 0, Source.MEASURED, 0)
    assert sum(bool(each.waits) for each in iteration.operations) == 1
    assert [each.host_ns for each in iteration.operations if not each.waits] == [2000.0] * 41
    assert profile.constant_bytes() == 4 * 8192 + 4  # the weights, and a variable of the module
    chain = next(each for each in iteration.operations if profile.classes[each.of] == step)
    assert [access.kind for access in chain.accesses] == [Kind.READ, Kind.READ, Kind.WRITE]
    own = profile.allocations[chain.accesses[0].allocation]
    assert [(extent.size, extent.role) for extent in own.extents] == [(8192, Role.OWN)]
    found = dependencies(unrolled(profile, 3))
    assert not any(writer // 42 != number // 42 for number, edges in enumerate(found.raw) for writer, _ in edges)

    made = tmp_path / "run.profile"
    assert main(["profile", "show", str(made)]) == 0
    shown = capsys.readouterr().out
    assert "an iteration of 42 operations in 3 classes, seen 8 times" in shown
    assert "the host waits 1 times in it" in shown
    assert "step 8x1x1 256x1x1" in shown
    assert main(["profile", "show", str(made), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["iteration"]["count"] == 8


@pytest.mark.full
def test_what_iterations_pass_on_is_kept(native_build: Path, tmp_path: Path) -> None:
    profile = profiled(native_build / "native", tmp_path, machine(tmp_path, 1), GUEST, "guidance", "6", "20", "8")
    iteration = profile.iteration
    assert len(iteration.operations) == 41
    assert sum(each.bytes for each in iteration.carried) >= 8192
    assert all(each.back == 1 for each in iteration.carried)
    assert any(extent.role is Role.CARRIED for each in profile.allocations for extent in each.extents)
    found = dependencies(unrolled(profile, 2))
    assert any(writer < 41 <= number for number, edges in enumerate(found.raw) for writer, _ in edges)


@pytest.mark.full
def test_a_trace_becomes_a_profile_later(
    native_build: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    native, one = native_build / "native", machine(tmp_path, 1)
    monkeypatch.setenv("TESSERA_NATIVE", str(native))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    trace, made, again = tmp_path / "run.trace", tmp_path / "made", tmp_path / "again"
    options = ("--emulate", str(one), "--no-summary", "--trace", str(trace), "--trace-parameters", "--timing", "all")
    run(native, tmp_path, options, GUEST, "requests", "5", "20", "8")
    for output in (made, again):
        assert main(["profile", "make", str(trace), "-o", str(output), "--machine", str(one)]) == 0
    assert "wrote" in capsys.readouterr().out
    assert made.read_bytes() == again.read_bytes()
    profile = file.read(made)
    assert (len(profile.iteration.operations), profile.iteration.period_ns) == (20, 20 * STEP_NS)
    assert main(["profile", "make", str(trace), "-o", str(made)]) == 0
    assert file.read(made).machine.types[0].key == "h200"
    assert main(["profile", "show", str(trace)]) == 2
    assert "this is no text, and no profile" in capsys.readouterr().err


def test_a_program_without_launches_has_no_profile(native_build: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [str(TESSERA_RUN), "--emulate", "1", "--profile", str(tmp_path / "p"), "--", "true"],
        text=True,
        capture_output=True,
        env=with_native(native_build / "native"),
        timeout=60,
        check=False,
    )
    assert done.returncode == 3
    assert "there is no profile: no kernel was launched in it" in done.stderr
    assert not (tmp_path / "p").exists()
