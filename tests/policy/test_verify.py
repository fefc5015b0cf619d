"""Launches that run elsewhere and at home too, and are compared; a function that asks what GPU it is on differs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import TESSERA_RUN
from tests.policy.launches import ATTRIBUTES
from tests.policy.run import TIMEOUT_S, Launch, Outcome, ended, environment, run
from tests.sample import sampled

POLICY = 'version: 1\ndevices: {home: 0, executors: [1]}\nrules:\n  - {match: {function: "*"}, device: 1}\n'
MACHINE = "h200,l40s"
FUNCTIONS = ("alpha", "beta")
HOME_SMS, AWAY_SMS = 132, 142
SUMS: list[Launch] = [{"function": name, "blocks": 7, "stream": n % 3} for n in range(6) for name in FUNCTIONS]


def verify(native_build: Path, tmp_path: Path, launches: list[Launch], *options: str, **keywords: object) -> Outcome:
    settings = {key: value for key, value in keywords.items() if key not in ("printed", "gpus")}
    policy = POLICY + "".join(f"{key}: {value}\n" for key, value in settings.items())
    printed, gpus = keywords.get("printed", ()), str(keywords.get("gpus", MACHINE))
    assert isinstance(printed, tuple)
    return run(native_build, tmp_path, policy, launches, *options, gpus=gpus, printed=printed)


@pytest.mark.parametrize(
    ("options", "every"),
    sampled([((), 1), (("--verify",), 1), (("--verify=5",), 5), (("--verify=0",), 0)], [(("--verify=5",), 5)]),
)
def test_launches_are_run_twice_and_their_effects_once(
    options: tuple[str, ...], every: int, native_build: Path, tmp_path: Path
) -> None:
    keywords = {} if options else {"verify": 1}
    outcome = verify(native_build, tmp_path, SUMS, *options, **keywords)
    verified = len(SUMS) // every if every else 0
    assert outcome.report["launches"] == {"total": 12, "by_device": {"0": 0, "1": 12}, "kept_home": 0}
    assert outcome.report["verify"] == {"verified": verified, "different": 0, "not_verified": 0}
    home = sum(count for (name, gpu), count in outcome.by_function.items() if gpu == 0 and name in FUNCTIONS)
    assert home == verified


@pytest.mark.parametrize("attribute", sampled(ATTRIBUTES, [*ATTRIBUTES][:1]))
def test_launches_with_attributes_are_verified(attribute: str, native_build: Path, tmp_path: Path) -> None:
    launches: list[Launch] = [{**launch, "attribute": attribute, "blocks": 8} for launch in SUMS]
    outcome = verify(native_build, tmp_path, [*launches, *SUMS], "--verify", gpus="h200,h200")
    assert outcome.report["launches"]["by_device"] == {"0": 0, "1": 24}
    assert outcome.report["verify"] == {"verified": 24, "different": 0, "not_verified": 0}


def test_a_launch_with_an_attribute_differs(native_build: Path, tmp_path: Path) -> None:
    launches: list[Launch] = [{"function": "sm_count", "attribute": "COOPERATIVE"}]
    outcome = verify(native_build, tmp_path, launches, "--verify", printed=(HOME_SMS,))
    assert outcome.report["verify"] == {"verified": 1, "different": 1, "not_verified": 0}


@pytest.mark.full
def test_a_difference_is_reported_and_the_function_stays_home(native_build: Path, tmp_path: Path) -> None:
    launches: list[Launch] = [*SUMS, *({"function": "sm_count"} for _ in range(4)), *SUMS]
    outcome = verify(native_build, tmp_path, launches, "--verify", printed=(HOME_SMS,))
    assert outcome.report["verify"] == {"verified": 25, "different": 1, "not_verified": 0}
    assert outcome.report["launches"] == {"total": 28, "by_device": {"0": 3, "1": 25}, "kept_home": 3}
    (line,) = [line for line in outcome.errors.splitlines() if "error: verify:" in line]
    assert "sm_count gives other bytes on GPU 1 than at home" in line
    assert "parameter 0, byte 4116 behind its address is 8e, at home 84;" in line
    assert "1 bytes differ in all" in line


@pytest.mark.parametrize(("option", "code"), sampled([("--verify=100", 3), ("--verify=0", 0)], [("--verify=100", 3)]))
def test_a_run_that_verifies_nothing_is_no_success(option: str, code: int, native_build: Path, tmp_path: Path) -> None:
    done = ended(native_build, tmp_path, POLICY, SUMS, *option.split("="), gpus=MACHINE)
    assert done.returncode == code, done.stderr
    assert ("--verify: nothing was verified: of 12 launches, none" in done.stderr) == (code == 3)


@pytest.mark.full
def test_unverified_the_difference_is_there(native_build: Path, tmp_path: Path) -> None:
    """What the test above relies on."""
    verify(native_build, tmp_path, [{"function": "sm_count"}], printed=(AWAY_SMS,))


def test_beyond_the_limit_nothing_is_verified(native_build: Path, tmp_path: Path) -> None:
    outcome = verify(native_build, tmp_path, SUMS, verify="{every: 2, memory_limit: 1MiB}")
    assert outcome.report["verify"] == {"verified": 0, "different": 0, "not_verified": 6}
    assert outcome.report["launches"]["by_device"] == {"0": 0, "1": 12}


def verified_run(native_build: Path, tmp_path: Path, every: int, *command: str) -> tuple[str, dict[str, int]]:
    """What a program printed on two equal GPUs, and what was verified."""
    policy, report = tmp_path / "policy.yaml", tmp_path / "report.json"
    policy.write_text(POLICY)
    options = ["--emulate", "2", "--policy", str(policy), f"--verify={every}", "--json", str(report)]
    done = subprocess.run(
        [str(TESSERA_RUN), *options, "--", *command],
        text=True,
        capture_output=True,
        env=environment(native_build),
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    verify: dict[str, int] = json.loads(report.read_text())["verify"]
    return done.stdout, verify


@pytest.mark.full
def test_other_threads_lose_nothing(native_build: Path, tmp_path: Path) -> None:
    """Without the gate, memory is put back under their hands: differences are found, and their writes are lost."""
    program = str(Path(__file__).with_name("threads.py"))
    out, verify = verified_run(native_build, tmp_path, 2, sys.executable, program)
    assert out == "right\n"
    assert verify["different"] == 0
    assert verify["verified"] + verify["not_verified"] == 120
    assert verify["verified"] > 60


def test_random_programs_have_their_results(native_build: Path, tmp_path: Path) -> None:
    model = str(native_build / "model" / "stream_model")
    out, verify = verified_run(native_build, tmp_path, 4, model, "--seed", "31", "--programs", "60")
    assert "60 programs, 0 differ" in out
    assert verify["different"] == 0
    assert verify["verified"] > 50
