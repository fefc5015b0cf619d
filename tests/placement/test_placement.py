"""Where memory lies under a policy: nobody can tell from the results, and kernels find it near."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.command import TESSERA_RUN, with_native
from tests.sample import sampled

GUEST = Path(__file__).with_name("guest.py")
TIMEOUT_S = 120
MIB = 1 << 20
LARGE, SMALL = 2 * MIB, 1000
ELEMENTS = 4096  # of a large buffer that a launch touches
TOUCHED = 2 * 4 * ELEMENTS  # bytes read and written
HEAD = "version: 1\ndevices: {home: 0, executors: [1]}\n"
FOLLOW = "memory: {place: follow}\n"
ALL = HEAD + 'rules:\n  - {match: {function: "*"}, device: 1}\n'
ALPHA = HEAD + FOLLOW + 'rules:\n  - {match: {function: "alpha"}, device: 1}\n'
ALTERNATE = HEAD + FOLLOW + "rules:\n  - {match: {nth: {every: 2, offset: 1}}, device: 1}\n"
WAYS = ("context", "stream", "event", "copy")
Step = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """local, remote: bytes that kernels of each GPU touched; placement: what tessera-run says of memory."""

    local: list[int]
    remote: list[int]
    placement: dict[str, Any]
    launches: dict[str, Any]


def expected(buffers: Sequence[int], steps: Sequence[Step]) -> list[str]:
    """What the guest prints on a GPU of its own."""
    counts = [0] * len(buffers)
    for step in steps:
        for number in step.get("buffers", ()):
            counts[number] += step.get("times", 1)
        if "copy" in step:
            source, target = step["copy"]
            counts[target] = counts[source]
        if "replace" in step:
            counts[step["replace"]] = 0
    sums = (count * min(size // 4, ELEMENTS) for count, size in zip(counts, buffers, strict=True))
    taken = sum(size for size in buffers if size == LARGE) + (2 * MIB if SMALL in buffers else 0)
    return [*(f"{number} 0" for number in sums), str(taken)]


class Runner:
    """Runs the guest under policies, and sees to it that it prints what it would print without."""

    def __init__(self, native_build: Path, directory: Path) -> None:
        self._directory = directory
        self._environment = with_native(native_build / "native")

    def run(self, policy: str, buffers: Sequence[int], steps: Sequence[Step], gpus: str = "2") -> Outcome:
        file, report = self._directory / "policy.yaml", self._directory / "report.json"
        file.write_text(policy)
        options = ["--emulate", gpus, "--json", str(report), "--policy", str(file)]
        done = subprocess.run(
            [str(TESSERA_RUN), *options, "--", sys.executable, str(GUEST)],
            input=json.dumps({"buffers": list(buffers), "steps": list(steps)}),
            text=True,
            capture_output=True,
            env=self._environment,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == expected(buffers, steps)
        counted = json.loads(report.read_text())
        devices = counted["devices"]
        local, remote = [d["local_bytes"] for d in devices], [d["remote_bytes"] for d in devices]
        return Outcome(local, remote, counted["placement"], counted["launches"])


@pytest.fixture
def runner(native_build: Path, tmp_path: Path) -> Runner:
    return Runner(native_build, tmp_path)


def launch(name: str, *buffers: int, times: int = 1) -> Step:
    return {"launch": name, "buffers": list(buffers), "times": times}


@pytest.mark.full
def test_what_all_launches_of_a_policy_use_lies_where_they_run(runner: Runner) -> None:
    steps = [launch("alpha", 0, 1, times=3), {"copy": [0, 2]}, {"wait": "stream"}, {"replace": 0}, launch("beta", 0, 2)]
    ran = runner.run(ALL, [LARGE, SMALL, LARGE], steps)
    assert ran.remote == [0, 0]
    assert ran.local[1] >= 5 * TOUCHED
    assert ran.placement == {"created_bytes": {"1": 8 * MIB}, "moved": 0, "moved_bytes": 0}


@pytest.mark.parametrize("way", sampled(WAYS, ["event", "copy"]))
def test_memory_follows_its_use(runner: Runner, way: str) -> None:
    steps = [launch("alpha", 0, times=32), {"wait": way}, launch("alpha", 0, times=10), launch("beta", 1, times=20)]
    ran = runner.run(ALPHA, [LARGE, LARGE], steps)
    assert ran.placement == {"created_bytes": {}, "moved": 1, "moved_bytes": LARGE}
    assert ran.remote == [0, 32 * TOUCHED]
    assert ran.local == [20 * TOUCHED, 10 * TOUCHED]


@pytest.mark.full
def test_memory_moves_back_and_new_memory_goes_where_its_like_was_used(runner: Runner) -> None:
    steps = [
        launch("alpha", 0, times=32),
        {"wait": "stream"},
        {"replace": 1},
        launch("alpha", 1),
        launch("beta", 0, times=200),
        {"wait": "stream"},
        launch("beta", 0),
    ]
    ran = runner.run(ALPHA, [LARGE, LARGE], steps)
    assert ran.placement == {"created_bytes": {"1": LARGE}, "moved": 2, "moved_bytes": 2 * LARGE}
    assert ran.remote == [200 * TOUCHED, 32 * TOUCHED]
    assert ran.local == [TOUCHED, TOUCHED]


@pytest.mark.full
def test_what_both_use_stays(runner: Runner) -> None:
    steps = [launch("alpha", 0, times=100), {"wait": "stream"}] * 3
    ran = runner.run(ALTERNATE, [LARGE], steps)
    assert ran.placement["moved"] == 0
    assert ran.local == [150 * TOUCHED, 0]
    assert ran.remote == [0, 150 * TOUCHED]


@pytest.mark.full
def test_a_fixed_place(runner: Runner) -> None:
    steps = [launch("alpha", 0, times=40), {"wait": "context"}, launch("beta", 0, times=2)]
    away = runner.run(ALPHA.replace("follow", "1"), [LARGE], steps)
    assert away.placement == {"created_bytes": {"1": LARGE}, "moved": 0, "moved_bytes": 0}
    assert (away.local, away.remote) == ([0, 40 * TOUCHED], [2 * TOUCHED, 0])
    home = runner.run(ALPHA.replace("follow", "home"), [LARGE], steps)
    assert home.placement == {"created_bytes": {}, "moved": 0, "moved_bytes": 0}
    assert (home.local, home.remote) == ([2 * TOUCHED, 0], [0, 40 * TOUCHED])


@pytest.mark.full
def test_an_executor_takes_no_more_than_its_limit(runner: Runner) -> None:
    """Its own modules count, too: two buffers fit, a third does not, neither at first nor by moving."""
    limited = ALL.replace("[1]", "[{gpu: 1, memory_limit: 5MiB}]")
    steps = [launch("alpha", 0, 1, 2, times=40), {"wait": "context"}, launch("alpha", 0, 1, 2)]
    ran = runner.run(limited, [LARGE, LARGE, LARGE], steps)
    assert ran.placement == {"created_bytes": {"1": 2 * LARGE}, "moved": 0, "moved_bytes": 0}
    assert (ran.local[1], ran.remote[1]) == (2 * 41 * TOUCHED, 41 * TOUCHED)
    steps = [launch("alpha", 0, 1, times=40), {"wait": "context"}, launch("alpha", 0, 1)]
    ran = runner.run(limited.replace("*", "alpha").replace("5MiB", "3MiB") + FOLLOW, [LARGE, LARGE], steps)
    assert ran.placement == {"created_bytes": {}, "moved": 1, "moved_bytes": LARGE}


@pytest.mark.full
def test_memory_that_other_devices_are_about_to_use_stays(runner: Runner) -> None:
    steps = [{"attribute": 0}, launch("alpha", 0, times=100), {"wait": "context"}, launch("alpha", 0, times=100)]
    ran = runner.run(ALPHA, [LARGE], steps)
    assert ran.placement["moved"] == 0
    assert ran.remote == [0, 200 * TOUCHED]


@pytest.mark.full
def test_graphs_find_memory_where_it_went(runner: Runner) -> None:
    captured = {"capture": "alpha", "buffers": [0], "times": 3}
    steps = [captured, launch("alpha", 0, times=40), {"wait": "stream"}, captured, {"wait": "context"}]
    ran = runner.run(ALPHA, [LARGE], steps)
    assert ran.placement["moved"] == 1
    assert ran.remote == [3 * TOUCHED, 40 * TOUCHED]


@pytest.mark.full
def test_without_peer_access_everything_stays_home(runner: Runner, tmp_path: Path) -> None:
    machine = tmp_path / "machine.yaml"
    machine.write_text("devices: [{gpu: l40s, count: 2}]\nlink: pcie4-no-peer\n")
    ran = runner.run(ALL, [LARGE], [launch("alpha", 0, times=40), {"wait": "context"}], gpus=str(machine))
    assert ran.placement == {"created_bytes": {}, "moved": 0, "moved_bytes": 0}
    assert ran.launches["kept_home"] == 40
