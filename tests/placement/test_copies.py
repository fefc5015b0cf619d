"""Memory of which each GPU has a copy: results are the same, bytes move once, and a server's threads share two GPUs."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.command import TESSERA_RUN, with_native
from tests.random.campaign import NONE, POLICIES, Setting, run

SERVER = Path(__file__).with_name("server_guest.py")
CROWD = Path(__file__).with_name("crowd_guest.py")
CAPTURE = Path(__file__).with_name("capture_guest.py")
THREADS, REQUESTS, LAYERS, BYTES = 4, 48, 3, 65536
MACHINE = "devices:\n  - {gpu: h200, count: 2, sm_count: 4}\nlink: pcie5\n"
STREAMS = "rules:\n  - {match: {stream: 2}, device: 1}\n  - {match: {stream: 4}, device: 1}\n"
HEAD = "version: 1\ndevices: {home: 0, executors: [1]}\n"
RANDOM = {"copies": 90_000, "copies-nth": 91_000, "copies-share": 92_000, "copies-stream": 93_000}
PROGRAMS = 60


@dataclass(frozen=True, slots=True)
class Ran:
    output: str
    report: dict[str, Any]

    @property
    def virtual_ns(self) -> int:
        return int(self.report["virtual_ns"])


def serve(native: Path, place: Path, memory: str | None) -> Ran:
    """On the emulated machine; without `memory` on one GPU."""
    (place / "machine.yaml").write_text(MACHINE)
    (place / "policy.yaml").write_text(f"{HEAD}memory: {{place: {memory}}}\n{STREAMS}")
    policy = [] if memory is None else ["--policy", str(place / "policy.yaml")]
    report = place / "report.json"
    options = ["--emulate", str(place / "machine.yaml"), "--json", str(report), *policy]
    done = subprocess.run(
        [str(TESSERA_RUN), *options, "--", sys.executable, str(SERVER), str(THREADS), str(REQUESTS)],
        text=True,
        capture_output=True,
        env={**with_native(native), "XDG_CACHE_HOME": str(place / "cache")},
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Ran(done.stdout, json.loads(report.read_text()))


def test_a_server_s_threads_share_two_gpus(native_build: Path, tmp_path: Path) -> None:
    native = native_build / "native"
    alone = serve(native, tmp_path, None)
    serve(native, tmp_path, "copies")  # from now on it is known what launches touch
    ran, afar = serve(native, tmp_path, "copies"), serve(native, tmp_path, "home")
    assert ran.output == alone.output == afar.output
    assert [device["launches"] for device in ran.report["devices"]] == [LAYERS * (REQUESTS + 1) * THREADS // 2] * 2
    assert [device["remote_bytes"] for device in ran.report["devices"]] == [0, 0]
    assert afar.report["devices"][1]["remote_bytes"] > 100 * BYTES
    # Each weight once. A thread's own buffers, twice two of them: before it has written them, and for the program.
    assert ran.report["copies"]["pulled_bytes"]["1"] <= (LAYERS + 2 * THREADS) * BYTES
    assert ran.report["copies"]["pulled_bytes"]["0"] <= THREADS * BYTES
    assert ran.report["copies"]["brought_home"] == 0
    assert alone.virtual_ns / ran.virtual_ns > 1.6
    assert ran.virtual_ns < afar.virtual_ns


@pytest.mark.parametrize("name", RANDOM)
def test_random_programs_give_the_same_bytes(name: str, native_build: Path, tmp_path: Path) -> None:
    """The first run learns what their functions touch."""
    setting = Setting(native_build, tmp_path, variables={"XDG_CACHE_HOME": str(tmp_path / "cache")})
    asked = ["--seed", str(RANDOM[name]), "--programs", str(PROGRAMS)]
    plain = run(setting, POLICIES[NONE], asked, PROGRAMS)
    first, second = (run(setting, POLICIES[name], asked, PROGRAMS) for _ in range(2))
    assert (plain.bad, first.bad, second.bad) == ("", "", "")
    assert plain.digests == first.digests == second.digests
    assert sum(second.report["copies"]["pulls"].values()) > 10


def test_memory_is_offered_to_others_while_there_are_too_many_streams(native_build: Path, tmp_path: Path) -> None:
    """What has to be forgotten then is forgotten by somebody who does not have the memory lock."""
    policy, report = tmp_path / "policy.yaml", tmp_path / "report.json"
    policy.write_text(f"{HEAD}memory: {{place: copies}}\nrules:\n  - {{match: {{nth: {{every: 2}}}}, device: 1}}\n")
    variables = {**with_native(native_build / "native"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    options = ["--emulate", "2", "--json", str(report), "--policy", str(policy)]
    for _ in range(2):  # the first learns what launches touch
        command = [str(TESSERA_RUN), *options, "--", sys.executable, str(CROWD)]
        done = subprocess.run(command, text=True, capture_output=True, env=variables, timeout=100, check=False)
        assert (done.returncode, done.stdout) == (0, "[7]\n"), done.stderr
    assert json.loads(report.read_text())["launches"]["by_device"]["1"] > 2000


@pytest.mark.parametrize("writer", ["joined", "legacy"])
def test_a_capture_keeps_nobody_from_coming_after_others(writer: str, native_build: Path, tmp_path: Path) -> None:
    """A stream that becomes part of it, and the default one that it does not concern."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(f"{HEAD}memory: {{place: copies}}\nrules:\n  - {{match: {{function: store}}, device: 1}}\n")
    variables = {**with_native(native_build / "native"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [str(TESSERA_RUN), "--emulate", "2", "--no-summary", "--policy", str(policy)]
    for _ in range(2):  # the first learns what launches touch
        done = subprocess.run(
            [*command, "--", sys.executable, str(CAPTURE), writer],
            text=True,
            capture_output=True,
            env=variables,
            timeout=60,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, "7\n"), done.stderr


def test_a_full_gpu_uses_home_s_memory_and_this_is_said_once(native_build: Path, tmp_path: Path) -> None:
    """A pool's extent alone takes half of the other GPUs' 64 MiB. Programs that use GPU 1 themselves need that, too."""
    setting = Setting(native_build, tmp_path, "peer,contexts,ipc", {"XDG_CACHE_HOME": str(tmp_path / "cache")})
    asked = ["--seed", "94000", "--programs", "40"]
    plain = run(setting, POLICIES[NONE], asked, 40)
    first, second = (run(setting, POLICIES["copies-full"], asked, 40) for _ in range(2))
    assert (plain.bad, first.bad, second.bad) == ("", "", "")
    assert plain.digests == first.digests == second.digests
    assert [second.output.count(f"GPU {gpu} has no room for copies") for gpu in (1, 2)] == [1, 1]
    assert sum(second.report["copies"]["pulls"].values()) > 10
    assert second.report["launches"]["by_device"]["1"] > 10
