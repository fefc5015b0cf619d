"""A policy tried on a trace takes the launches that it takes in a run."""

import json
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from controlplane.base.content import content_hash
from controlplane.commands.main import main
from tests import schemas
from tests.command import TESSERA_RUN
from tests.policy.launches import PTX
from tests.policy.run import PROGRAM, TIMEOUT_S, Launch, Outcome, environment, run

HASH = content_hash(PTX.encode() + b"\0")
POLICY = f"""version: 1
devices: {{home: 0, executors: [1, 2]}}
rules:
  - {{match: {{function: alpha, stream: 2}}, device: 1}}
  - {{match: {{function_regex: "^b", nth: {{every: 3}}, module: "{HASH:016x}"}}, device: 2}}
  - {{match: {{grid: {{blocks: ">= 5"}}, share: 0.5, process: "python*"}}, device: 1}}
  - {{match: {{function: gamma, library_call: "cublas*"}}, device: 1}}
default: home
memory: {{place: follow}}
"""
LAUNCHES: list[Launch] = [
    {"function": name, "blocks": 1 + n % 7, "stream": n % 3} for n in range(20) for name in ("alpha", "beta", "gamma")
]


GIVING = """version: 1
devices: {home: 0, executors: [1, 2]}
rules:
  - {match: {function: alpha}, device: by_stream}
  - {match: {function: beta}, device: by_thread}
default: by_stream
memory: {place: follow}
"""


def traced_run(native_build: Path, tmp_path: Path) -> Path:
    traced = tmp_path / "run.trace"
    subprocess.run(
        [str(TESSERA_RUN), "--emulate", "3", "--trace", str(traced), "--", sys.executable, str(PROGRAM)],
        input=json.dumps(LAUNCHES),
        text=True,
        capture_output=True,
        env=environment(native_build),
        timeout=TIMEOUT_S,
        check=True,
    )
    return traced


def tried_out(
    native_build: Path, place: Path, policy: str, capsys: pytest.CaptureFixture[str]
) -> tuple[Outcome, dict[str, Any], str]:
    """A run under the policy, and what checking that against a trace of the same launches says: as JSON and as text."""
    outcome, traced = run(native_build, place, policy, LAUNCHES), traced_run(native_build, place)
    check = ["policy", "check", str(place / "policy.yaml"), "--emulate", "3", "--trace", str(traced)]
    assert main([*check, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    schemas.check("policy", printed)
    tried = printed["trace"]
    assert main(check) == 0
    return outcome, tried, capsys.readouterr().out


@pytest.mark.full
@pytest.mark.usefixtures("native")
def test_a_trace_tells_which_gpus_streams_and_threads_are_given(
    native_build: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome, tried, told = tried_out(native_build, tmp_path, GIVING, capsys)
    of_rules = [rule["by_device"] for rule in tried["rules"]] + [tried["default_by_device"]]
    by_function = [
        {str(gpu): outcome.by_function.get((name, gpu), 0) for gpu in range(3)} for name in ("alpha", "beta", "gamma")
    ]
    assert of_rules == by_function
    said = ", ".join(f"GPU {gpu}: {count}" for gpu, count in by_function[0].items())
    assert f"  takes 20 launches of the trace ({said})\n" in told


@pytest.mark.full
@pytest.mark.usefixtures("native")
def test_a_trace_tells_what_the_rules_take(
    native_build: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome, tried, told = tried_out(native_build, tmp_path, POLICY, capsys)
    taken = [rule["launches"] for rule in tried["rules"]]
    by_device = outcome.report["launches"]["by_device"]
    assert [rule["line"] for rule in tried["rules"]] == [4, 5, 6, 7]
    assert (taken[0] + taken[2], taken[1], tried["default"]) == (by_device["1"], by_device["2"], by_device["0"])
    assert all(count > 0 for count in taken[:3])
    assert (taken[3], tried["other_gpus"]) == (0, 0)
    assert f"  takes {taken[0]} launches of the trace\n" in told


def test_a_policy_is_checked_against_what_the_driver_says(native_build: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("version: 1\ndevices: {home: 0, executors: [{gpu: 1, sm_limit: 999}, 5]}\n")
    scripts = Path(sysconfig.get_path("scripts"))
    driver = native_build / "native" / "emulator" / "libcuda.so.1"
    done = subprocess.run(
        [
            scripts / "tessera-run",
            "--emulate",
            "2",
            "--no-summary",
            "--",
            scripts / "tessera",
            "policy",
            "check",
            policy,
        ],
        text=True,
        capture_output=True,
        env={**environment(native_build), "TESSERA_DRIVER": str(driver)},
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert f"{policy}:2: error: sm_limit 999 of GPU 1 is more than its 132 SMs" in done.stdout
    assert f"{policy}:2: error: GPU 5 does not exist: the machine has 2 GPUs" in done.stdout
