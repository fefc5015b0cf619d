"""Rules that give each stream, or each thread, a GPU: evenly, for its life, and only to those that launch something."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.command import TESSERA_RUN, with_native
from tests.sample import sampled

GUEST = Path(__file__).with_name("given_guest.py")
SMS = (4, 5, 6)  # by GPU: the guest tells GPUs apart by them
LAUNCHES = 5  # of each thread of the guest, in a stream
MORE = "log: decisions\nmemory: {place: follow}\n"
BEGUN = [(2, 4), (2, 8), (3, 6)]
TIMEOUT_S = 60


def giving(device: str) -> str:
    return f"rules:\n  - {{match: {{function: where}}, device: {device}}}\n"


def run(native_build: Path, place: Path, rules: str, gpus: int, *scenario: str) -> tuple[Any, dict[str, Any], str]:
    """What the guest saw, what was counted, and standard error."""
    machine, policy, report = place / "machine.yaml", place / "policy.yaml", place / "report.json"
    machine.write_text("devices:\n" + "".join(f"  - {{gpu: h200, sm_count: {count}}}\n" for count in SMS[:gpus]))
    policy.write_text(f"version: 1\ndevices: {{home: 0, executors: {list(range(1, gpus))}}}\n{rules}{MORE}")
    options = ["--emulate", str(machine), "--policy", str(policy), "--json", str(report)]
    done = subprocess.run(
        [str(TESSERA_RUN), *options, "--", sys.executable, str(GUEST), *scenario],
        text=True,
        capture_output=True,
        env=with_native(native_build / "native"),
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), json.loads(report.read_text()), done.stderr


@pytest.mark.parametrize(("gpus", "count"), sampled(BEGUN, [(3, 6)]))
def test_streams_of_threads_that_begin_together(gpus: int, count: int, native_build: Path, tmp_path: Path) -> None:
    seen, report, log = run(native_build, tmp_path, giving("by_stream"), gpus, "streams", str(count))
    assert all(len(set(where)) == 1 for where in seen)
    assert Counter(where[0] for where in seen) == dict.fromkeys(SMS[:gpus], count // gpus)
    share = {str(gpu): count // gpus for gpu in range(gpus)}
    assert report["given"] == {"streams": share, "threads": {}}
    by_device = {gpu: LAUNCHES * each for gpu, each in share.items()}
    assert report["launches"] == {"total": LAUNCHES * count, "by_device": by_device, "kept_home": 0}
    assert report["rules"] == [{"line": 4, "launches": LAUNCHES * count, "nearest": []}]
    assert log.count("of the program is given GPU 1 (line 4 of the policy)") == count // gpus
    assert f"streams that rules gave a GPU: GPU 0: {count // gpus}, GPU 1: {count // gpus}" in log


@pytest.mark.parametrize(("gpus", "count"), sampled(BEGUN, [(2, 8)]))
def test_threads_that_begin_together(gpus: int, count: int, native_build: Path, tmp_path: Path) -> None:
    seen, report, log = run(native_build, tmp_path, giving("by_thread"), gpus, "threads", str(count))
    assert all(len(set(where)) == 1 for where in seen)
    assert Counter(where[0] for where in seen) == dict.fromkeys(SMS[:gpus], count // gpus)
    share = {str(gpu): count // gpus for gpu in range(gpus)}
    assert report["given"] == {"streams": {}, "threads": share}
    assert report["launches"]["by_device"] == {gpu: 2 * LAUNCHES * each for gpu, each in share.items()}
    assert log.count("is given GPU 1 (line 4 of the policy)") == count // gpus


def test_default_streams_are_one_or_one_per_thread(native_build: Path, tmp_path: Path) -> None:
    seen, report, _ = run(native_build, tmp_path, giving("by_stream"), 3, "defaults", "3")
    assert seen["legacy"] == [[SMS[0]] * LAUNCHES] * 3
    assert sorted(where[0] for where in seen["own"]) == [*SMS]
    assert all(len(set(where)) == 1 for where in seen["own"])
    assert report["given"]["streams"] == {"0": 2, "1": 1, "2": 1}


@pytest.mark.full
def test_streams_that_launch_nothing_do_not_count(native_build: Path, tmp_path: Path) -> None:
    seen, report, _ = run(native_build, tmp_path, giving("by_stream"), 2, "pool", "6")
    assert seen == [4, 5, 4, 5, 4, 5]
    assert report["given"]["streams"] == {"0": 3, "1": 3}


def test_the_end_of_a_stream_makes_room_and_that_of_a_context_none(native_build: Path, tmp_path: Path) -> None:
    seen, _, _ = run(native_build, tmp_path, giving("by_stream"), 3, "ended", "0")
    assert seen == [4, 5, 6, 4, 5, 4, 5, 4, 4, 6]


@pytest.mark.full
def test_launches_that_the_rule_does_not_match_give_no_place(native_build: Path, tmp_path: Path) -> None:
    seen, report, _ = run(native_build, tmp_path, giving("by_stream"), 3, "matched", "0")
    assert seen == [4, 4, 5, 4, 4]
    assert report["given"]["streams"] == {"0": 1, "1": 1}


def test_captured_launches_stay_home_and_give_no_place(native_build: Path, tmp_path: Path) -> None:
    seen, report, _ = run(native_build, tmp_path, giving("by_stream"), 3, "capture", "0")
    assert seen == [4, 4, 5, 4, 6, 5]
    assert report["kept_home_by_reason"] == {"capture": 2}
    assert report["launches"]["by_device"] == {"0": 1, "1": 2, "2": 1}


def test_streams_of_a_lost_executor_get_another_gpu(native_build: Path, tmp_path: Path) -> None:
    seen, report, _ = run(native_build, tmp_path, giving("by_stream"), 3, "lost", "0")
    assert seen == [4, 5, 6, 4, 4, 6, 6, 4]
    assert report["given"]["streams"] == {"0": 2, "1": 1, "2": 2}


@pytest.mark.full
def test_the_default_may_give_gpus_too(native_build: Path, tmp_path: Path) -> None:
    seen, report, _ = run(native_build, tmp_path, giving("home") + "default: by_stream\n", 2, "matched", "0")
    assert seen == [4, 4, 4, 4, 5]
    assert report["given"]["streams"] == {"0": 1, "1": 1}
