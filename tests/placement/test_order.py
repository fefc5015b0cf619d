"""Data order: strands of one stream on several GPUs wait for each other where data flows, and only there."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.command import TESSERA_RUN, with_native
from tests.placement.order_cases_guest import CASES
from tests.sample import sampled

HERE = Path(__file__).parent
BY_NAME = (
    '{match: {function: "one_*"}, device: 1}',
    '{match: {function: "two_*"}, device: 2}',
)
SHARES = (
    "{match: {share: {fraction: 0.25, seed: 1}}, device: 1}",
    "{match: {share: {fraction: 0.33, seed: 2}}, device: 2}",
    "{match: {share: {fraction: 0.5, seed: 3}}, device: 3}",
)
HALF = ("{match: {share: {fraction: 0.5, seed: 1}}, device: 1}",)
FOUR = [(4, SHARES, ""), (4, SHARES, "copies,sets")]
STEPS, KIB, STEP_NS = 150, 8, 20_000
WANTED = 1.8


@dataclass(frozen=True, slots=True)
class Machine:
    """GPUs, their link, what GPU 1 may hold, and how long a launch takes at least."""

    gpus: int
    link: str = "nvlink4"
    limit: str = ""
    launch_ns: int = 0


@dataclass(frozen=True, slots=True)
class Ran:
    lines: list[str]
    report: dict[str, Any]


def run(
    native: Path,
    place: Path,
    machine: Machine,
    program: list[str],
    rules: tuple[str, ...] = (),
    order: str = "data",
    disorder: int = 0,
) -> Ran:
    """Without rules: on one GPU, without a policy."""
    place.mkdir(exist_ok=True)
    described, policy, report = place / "machine.yaml", place / "policy.yaml", place / "report.json"
    least = f", launch_latency_ns: {machine.launch_ns}" if machine.launch_ns else ""
    gpus = f"{{gpu: h200, count: {machine.gpus}, sm_count: 4{least}}}"
    described.write_text(f"devices:\n  - {gpus}\nlink: {machine.link}\n")
    first = f"{{gpu: 1, memory_limit: {machine.limit}}}" if machine.limit else "1"
    executors = ", ".join([first, *map(str, range(2, machine.gpus))])
    policy.write_text(
        f"version: 1\ndevices: {{home: 0, executors: [{executors}]}}\nmemory: {{place: copies}}\norder: {order}\n"
        "rules:\n" + "".join(f"  - {rule}\n" for rule in rules)
    )
    options = ["--emulate", str(described), "--json", str(report), "--no-summary"]
    options += ["--policy", str(policy)] if rules else []
    done = subprocess.run(
        [str(TESSERA_RUN), *options, "--", sys.executable, *program],
        text=True,
        capture_output=True,
        env={
            **with_native(native),
            "XDG_CACHE_HOME": str(place / "cache"),
            "TESSERA_DISORDER": str(disorder if rules else 0),
        },
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Ran(done.stdout.splitlines(), json.loads(report.read_text()))


MACHINES = {
    "peers": Machine(3),
    "no peer access": Machine(3, link="pcie5-no-peer"),
    "no room on GPU 1": Machine(3, limit="1MiB"),
}


def test_who_must_wait_waits(native_build: Path, tmp_path: Path) -> None:
    """What each case leaves behind, by machine, is what it leaves on one GPU."""
    native, program = native_build / "native", [str(HERE / "order_cases_guest.py")]
    alone = run(native, tmp_path, Machine(3), program).lines
    assert [line.split()[0] for line in alone] == [*CASES]
    run(native, tmp_path, Machine(3), program, BY_NAME)  # learns what launches touch
    for name, machine in MACHINES.items():
        ran = run(native, tmp_path, machine, program, BY_NAME)
        assert (name, ran.lines) == (name, alone)
        assert ran.report["launches"]["by_device"]["1"] > len(CASES)
        assert ran.report["memory_copies"]["ties"] > len(CASES) // 2


@pytest.mark.parametrize("programs", sampled([8, 60], [8]))
@pytest.mark.parametrize(
    ("gpus", "rules", "features"),
    sampled([(2, HALF, ""), *FOUR], FOUR),
    ids=["two", "four", "four, one stream"],
)
def test_random_programs_in_disorder_give_the_same_bytes(
    gpus: int, rules: tuple[str, ...], features: str, programs: int, native_build: Path, tmp_path: Path
) -> None:
    native = native_build / "native"
    program = [str(HERE / "order_guest.py"), str(1000 * gpus), str(programs), "100", *([features] if features else [])]
    alone = run(native, tmp_path, Machine(gpus), program)
    for disorder in range(2 if programs < 60 else 3):  # the first run learns what launches touch
        ran = run(native, tmp_path, Machine(gpus), program, rules, disorder=disorder)
        assert ran.lines == alone.lines
    assert ran.report["memory_copies"]["ties"] > programs
    assert min(ran.report["launches"]["by_device"].values()) > 10 * programs


@pytest.mark.parametrize("more", [(), ("given",)], ids=["in turn", "given constants"])
def test_chains_of_one_stream_run_at_the_same_time(native_build: Path, tmp_path: Path, more: tuple[str, ...]) -> None:
    """One of two chains on GPU 1: they take half as long as one after the other.

    A step takes as long as ten calls of the driver: how many of these go into timing launches depends on when results
    of earlier ones are seen, and so on the machine that emulates.
    """
    native, program = native_build / "native", [str(HERE / "chains_guest.py"), "2", str(STEPS), str(KIB), *more]
    machine, rules = Machine(2, launch_ns=STEP_NS), ("{match: {function: step_1}, device: 1}",)
    alone = run(native, tmp_path, machine, program)
    run(native, tmp_path, machine, program, rules)
    ran = {order: run(native, tmp_path, machine, program, rules, order) for order in ("stream", "data")}
    assert alone.lines == ran["stream"].lines == ran["data"].lines
    assert ran["data"].report["launches"]["by_device"] == {"0": STEPS, "1": STEPS}
    assert alone.report["virtual_ns"] / ran["data"].report["virtual_ns"] > WANTED
    assert alone.report["virtual_ns"] / ran["stream"].report["virtual_ns"] < 1.05
