"""Launches that follow pointers which earlier launches left in memory: known, and never less than what is touched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from controlplane.analysis.pointers import Kernel, Pointers
from controlplane.analysis.traced import TracedLaunch, events, used
from controlplane.commands.main import main
from controlplane.observe import trace
from ptxtools.access import flat
from ptxtools.access.build import build
from ptxtools.access.template import AccessKind
from ptxtools.machine.consent import Consent
from ptxtools.ranges import Launch, Result
from ptxtools.reader import read
from tests.command import TESSERA_RUN

GUEST = Path(__file__).parent / "guests" / "pointers.py"
TIMEOUT_S = 120
KINDS = {"reads": AccessKind.READ, "writes": AccessKind.WRITE}


@pytest.fixture(scope="module")
def ran(native_build: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The directory with the trace and the exact bytes of each launch, and what the guest printed."""
    place = tmp_path_factory.mktemp("pointers")
    command = [str(TESSERA_RUN), "--emulate", "1", "--no-summary", "--trace", str(place / "run.trace")]
    surroundings = {**os.environ, "TESSERA_NATIVE": str(native_build / "native"), "XDG_CACHE_HOME": str(place)}
    done = subprocess.run(
        [*command, "--trace-parameters", "--", sys.executable, str(GUEST)],
        env={**surroundings, "TESSERA_ACCESS_TRACE": str(place / "exact")},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return place, json.loads(done.stdout)


def predicted(place: Path) -> list[tuple[str, Result]]:
    """Each launch's function and ranges."""
    (text,) = place.glob("exact.*.ptx")
    module = read(text.read_text())
    kernels = {f.name: Kernel(flat.write(build(module, f)), needs_parameters=True) for f in module.kernels}
    (process,) = trace.load(place / "run.trace").processes
    found, pointers = [], Pointers()
    of = used(process, Consent.OPEN)
    for event, allocations in events(of):
        if not isinstance(event, TracedLaunch):
            pointers.forget(*((event.begin, event.end) if event.end else ()))
            continue
        kernel = kernels[of.functions[event.function].name]
        launch = Launch(event.parameters, event.grid, event.block, allocations)
        result = pointers.followed(kernel, launch, allocations)
        pointers.after(kernel, launch, result)
        found.append((of.functions[event.function].name, result))
    return found


def test_what_is_known_holds_every_byte(ran: tuple[Path, dict[str, Any]]) -> None:
    place, said = ran
    launches = predicted(place)
    exact = [json.loads(line) for line in (place / "exact").read_text().splitlines()]
    assert [each["function"] for each in exact] == [name for name, _ in launches]
    for touched, (_, result) in zip(exact, launches, strict=True):
        for key, kind in KINDS.items() if not result.unknown else ():
            inside = {byte for each in result.ranges if each.kind is kind for byte in range(each.begin, each.end)}
            assert inside >= {byte for begin, end in touched[key] for byte in range(begin, end)}, (
                touched["launch"],
                key,
            )
    assert [not result.unknown for name, result in launches if name == "follow"] == said["known"]


def test_arrays_that_one_launch_fills_are_told_apart(ran: tuple[Path, dict[str, Any]]) -> None:
    """What is read through one array is not written, though the other array follows it in memory."""
    place, said = ran
    first = next(result for name, result in predicted(place) if name == "follow")
    whole = {
        (each.kind, each.begin, each.end) for each in first.ranges if each.base in (said["source"], said["target"])
    }
    assert whole == {
        (AccessKind.READ, said["source"], said["source"] + said["bytes"]),
        (AccessKind.WRITE, said["target"], said["target"] + said["bytes"]),
    }


def test_coverage_counts_them(
    ran: tuple[Path, dict[str, Any]],
    tmp_path: Path,
    native_build: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    place, said = ran
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("TESSERA_NATIVE", str(native_build / "native"))
    assert main(["analyze", "--trace", str(place / "run.trace"), "--json"]) == 0
    total = json.loads(capsys.readouterr().out)["coverage"]
    assert total["by_tier"]["pointers in memory"] == sum(said["known"])
    assert total["by_reason"] == {"pointer loaded from memory": len(said["known"]) - sum(said["known"])}
