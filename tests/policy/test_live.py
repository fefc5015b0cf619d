"""Edits of a policy while a program runs under it."""

import itertools
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.policy.run import TIMEOUT_S, blocks_of, command, environment, outcome_of

POLICY = 'version: 1\ndevices: {home: 0, executors: [1, 2]}\nrules:\n  - {match: {function: "*"}, device: 1}\n'
IN_USE = "the edited rules are in use"


@contextmanager
def started(
    native_build: Path, policy: Path, report: Path, launches: object, *options: str
) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        command(policy, report, "--no-summary", *options),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(native_build),
    ) as process:
        assert process.stdin is not None
        process.stdin.write(json.dumps(launches))
        process.stdin.close()
        process.stdin = None
        try:
            yield process
        finally:
            process.kill()


def read_until(stream: object, text: str) -> str:
    """The first line with the text."""
    assert hasattr(stream, "readline")
    for line in iter(stream.readline, ""):
        if text in line:
            return str(line)
    raise AssertionError(f"{text!r} did not come")


def test_a_running_program_changes_gpu(native_build: Path, tmp_path: Path) -> None:
    policy, report = tmp_path / "policy.yaml", tmp_path / "report.json"
    pauses = [tmp_path / f"go-{number}" for number in range(3)]
    policy.write_text(POLICY)
    part: list[dict[str, object]] = [{"function": "alpha", "blocks": 64, "stream": number % 3} for number in range(40)]
    launches = [*part, *(one for file in pauses for one in ({**part[0], "pause_file": str(file)}, *part[1:]))]
    with started(native_build, policy, report, launches) as process:
        for file, edited in zip(
            pauses,
            (POLICY.replace("device: 1", "device: 2"), POLICY.replace("device: 1", "device: 9"), None),
            strict=True,
        ):
            read_until(process.stdout, "waiting")
            if edited is not None:
                policy.write_text(edited)
                line = read_until(process.stderr, "policy.yaml")
                wrong = f"{policy}:4: rules.device: '9' is not a place to run"
                assert (f"{policy}: {IN_USE}" if "device: 2" in edited else wrong) in line
            else:
                policy.write_text(POLICY.replace("device: 1", "device: home"))
                read_until(process.stderr, IN_USE)
            file.touch()
        out, errors = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, errors
    assert out.split() == [str(blocks_of(launches))]
    assert outcome_of(report).by_function == {("alpha", 1): 40, ("alpha", 2): 80, ("alpha", 0): 40}


@pytest.mark.full
def test_no_mistake_ends_the_statistics(native_build: Path, tmp_path: Path) -> None:
    policy, report, pause = tmp_path / "policy.yaml", tmp_path / "report.json", tmp_path / "go"
    policy.write_text(POLICY)
    launches: list[dict[str, object]] = [{"function": "alpha"}, {"function": "alpha", "pause_file": str(pause)}]
    mistakes = {
        POLICY + "a: " + "[" * 50_000: f"{policy}:5: values are nested too deeply",
        POLICY + "a: &a\n  <<: *a\n": f"{policy}:6: *a is a part of itself",
        POLICY + "a: *b\n": f"{policy}:5: *b is not defined",
        "": f"{policy}: is not a regular file",
    }
    with started(native_build, policy, report, launches, "--stats") as process:
        read_until(process.stdout, "waiting")
        for text, said in mistakes.items():
            policy.unlink()
            if text:
                policy.write_text(text)
            else:
                os.mkfifo(policy)
            assert said in read_until(process.stderr, str(policy))
        pause.touch()
        _, errors = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, errors
    assert outcome_of(report).report["launches"]["by_device"]["1"] == 2


@pytest.mark.full
def test_edits_under_load_change_no_result(native_build: Path, tmp_path: Path) -> None:
    """Nobody waits for anybody here: launches go on while rules change under them."""
    policy, report = tmp_path / "policy.yaml", tmp_path / "report.json"
    policy.write_text(POLICY)
    launches = [{"function": "alpha", "blocks": 32, "stream": number % 3} for number in range(16000)]
    with started(native_build, policy, report, launches) as process:
        assert process.stderr is not None
        edits = 0
        for place in itertools.cycle(("2", "home", "1")):
            policy.write_text(POLICY.replace("device: 1", f"device: {place}"))
            line = process.stderr.readline()
            if IN_USE not in line:
                break
            edits += 1
        out, errors = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, line + errors
    assert out.split() == [str(blocks_of(launches))]
    assert edits > 1
    assert sum(outcome_of(report).by_function.values()) == 16000
