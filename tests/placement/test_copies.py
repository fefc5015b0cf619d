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
RING = Path(__file__).with_name("ring_guest.py")
SIZES = Path(__file__).with_name("sizes_guest.py")
THREADS, REQUESTS, LAYERS, BYTES = 4, 48, 3, 65536
MACHINE = "devices:\n  - {gpu: h200, count: 2, sm_count: 4}\nlink: pcie5\n"
STREAMS = "rules:\n  - {match: {stream: 2}, device: 1}\n  - {match: {stream: 4}, device: 1}\n"
NTH = "rules:\n  - {match: {nth: {every: 3, offset: 1}}, device: 1}\n"
RANDOM = {
    "copies": 90_000,
    "copies-nth": 91_000,
    "copies-share": 92_000,
    "copies-stream": 93_000,
    "copies-full": 590_000,
}
PROGRAMS = 60
MEBIBYTES = 8


@dataclass(frozen=True, slots=True)
class Ran:
    output: str
    errors: str
    report: dict[str, Any]

    @property
    def virtual_ns(self) -> int:
        return int(self.report["virtual_ns"])


def serve(native: Path, place: Path, memory: str | None) -> Ran:
    """On the emulated machine; without `memory` on one GPU."""
    return guest(native, place, memory, STREAMS, [str(SERVER), str(THREADS), str(REQUESTS)])


def guest(native: Path, place: Path, memory: str | None, rules: str, program: list[str], executor: str = "1") -> Ran:
    (place / "machine.yaml").write_text(MACHINE)
    head = f"version: 1\ndevices: {{home: 0, executors: [{executor}]}}\n"
    (place / "policy.yaml").write_text(f"{head}memory: {{place: {memory}}}\n{rules}")
    policy = [] if memory is None else ["--policy", str(place / "policy.yaml")]
    report = place / "report.json"
    options = ["--emulate", str(place / "machine.yaml"), "--json", str(report), *policy]
    done = subprocess.run(
        [str(TESSERA_RUN), *options, "--", sys.executable, *program],
        text=True,
        capture_output=True,
        env={**with_native(native), "XDG_CACHE_HOME": str(place / "cache")},
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Ran(done.stdout, done.stderr, json.loads(report.read_text()))


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
    assert set(ran.report["copies"]["pulled_for"]) == {"launch", "copy"}
    assert ran.report["copies"]["needed_bytes"] == sum(ran.report["copies"]["pulled_bytes"].values())
    assert alone.virtual_ns / ran.virtual_ns > 1.6
    assert ran.virtual_ns < afar.virtual_ns


@pytest.mark.parametrize("rules", [STREAMS, NTH], ids=["by stream", "by turns"])
def test_launches_that_repeat_see_what_other_gpus_wrote_meanwhile(
    rules: str, native_build: Path, tmp_path: Path
) -> None:
    native, program = native_build / "native", [str(RING), str(THREADS), "60", "5"]
    alone = guest(native, tmp_path, None, rules, program)
    for _ in range(3):  # the first run learns what launches touch
        ran = guest(native, tmp_path, "copies", rules, program)
        assert ran.output == alone.output
    assert sum(ran.report["copies"]["pulls"].values()) > 100
    assert min(device["launches"] for device in ran.report["devices"]) > 300


def test_a_gpu_has_copies_of_what_it_uses(native_build: Path, tmp_path: Path) -> None:
    native, program = native_build / "native", [str(SIZES), str(MEBIBYTES)]
    alone = guest(native, tmp_path, None, STREAMS, program)
    for _ in range(2):  # the first run learns what launches touch
        ran = guest(native, tmp_path, "copies", STREAMS, program)
        assert ran.output == alone.output
    assert ran.report["devices"][1]["launches"] == ran.report["devices"][0]["launches"]
    assert ran.report["copies"]["bytes"] == {"1": MEBIBYTES * 2**20}
    assert ran.report["devices"][1]["remote_bytes"] == 0


def test_a_full_gpu_says_so_once_and_uses_memory_at_home(native_build: Path, tmp_path: Path) -> None:
    native, program = native_build / "native", [str(SIZES), str(MEBIBYTES)]
    executor = f"{{gpu: 1, memory_limit: {MEBIBYTES // 2}MiB}}"
    alone = guest(native, tmp_path, None, STREAMS, program)
    for _ in range(2):
        ran = guest(native, tmp_path, "copies", STREAMS, program, executor)
        assert ran.output == alone.output
    assert ran.report["devices"][1]["launches"] == ran.report["devices"][0]["launches"]
    assert ran.report["copies"]["bytes"] == {}
    assert ran.report["devices"][1]["remote_bytes"] > 0
    assert ran.errors.count("has no room for more copies") == 1


def test_a_full_gpu_gives_up_what_it_holds_nothing_of(native_build: Path, tmp_path: Path) -> None:
    native, program = native_build / "native", [str(SIZES), str(MEBIBYTES), "after"]
    executor = f"{{gpu: 1, memory_limit: {MEBIBYTES * 3 // 2}MiB}}"
    alone = guest(native, tmp_path, None, STREAMS, program)
    for _ in range(2):
        ran = guest(native, tmp_path, "copies", STREAMS, program, executor)
        assert ran.output == alone.output
    assert ran.report["copies"]["bytes"] == {"1": MEBIBYTES * 2**20}
    assert ran.report["devices"][1]["remote_bytes"] == 0
    assert "has no room" not in ran.errors


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
