"""Launches whose written bytes are compared with what was predicted; templates that are wrong on purpose are caught."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from controlplane.analysis import cache
from controlplane.run.unchecked import EXIT_CODE
from ptxtools.clone import Clone
from tests.check import claims, control, variables, writer
from tests.command import TESSERA_RUN, with_native
from tests.libraries import guest
from tests.libraries.stand_ins import build
from tests.sample import sampled

PROGRAM = Path(writer.__file__)
ROOT = PROGRAM.parents[2]
ONE_GPU = (str(TESSERA_RUN), "--emulate", "1")
TIMEOUT_S = 180
BOTH = ["--check-accesses", "--check-writes"]
LAUNCHES: list[dict[str, Any]] = [
    {"function": "even", "count": 1000},
    {"function": "all", "count": 300, "offset": 64},
    {"function": "quiet", "count": 10},
    {"function": "plain", "count": 70000},
]


@pytest.fixture(scope="module")
def analyses(native_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that has those of the program's kernels, without clones and with."""
    place = tmp_path_factory.mktemp("analyses")
    variables = {**with_native(native_build / "native"), "XDG_CACHE_HOME": str(place)}
    for option in ("--analyze", "--check-accesses"):
        subprocess.run(
            [*ONE_GPU, "--no-summary", option, "--", sys.executable, PROGRAM, "1"],
            input="[]",
            text=True,
            env=variables,
            timeout=TIMEOUT_S,
            check=option == "--analyze",  # the other one checks nothing in a first run
            capture_output=True,
        )
    return place


@pytest.fixture(autouse=True)
def _surroundings(tmp_path: Path, analyses: Path, native_build: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(shutil.copytree(analyses, tmp_path / "cache")))
    monkeypatch.setenv("TESSERA_NATIVE", str(native_build / "native"))


@dataclass(frozen=True, slots=True)
class Outcome:
    """check: that part of the JSON."""

    printed: str
    errors: str
    check: dict[str, Any]


def run(
    place: Path, launches: Sequence[dict[str, Any]], *options: str, gpus: int = 1, threads: int = 1, code: int = 0
) -> Outcome:
    report = place / "report.json"
    started = [str(TESSERA_RUN), "--emulate", str(gpus), "--json", str(report), *options]
    command = [*started, "--", sys.executable, str(PROGRAM), str(threads)]
    done = subprocess.run(
        command,
        input=json.dumps(launches),
        text=True,
        capture_output=True,
        env=dict(os.environ),
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return Outcome(done.stdout, done.stderr, json.loads(report.read_text()).get("check", {}))


def expected(launches: Sequence[dict[str, Any]]) -> str:
    """What the program prints: the digest of its memory after the launches."""
    return writer.digest(writer.model(launches))


def test_what_is_known_of_kernels_is_true(tmp_path: Path) -> None:
    outcome = run(tmp_path, LAUNCHES, "--check-writes")
    assert outcome.printed.strip() == expected(LAUNCHES)
    check = outcome.check
    assert (check["known"], check["unknown"], check["checked"], check["first"]) == (8, 0, 8, 0)
    assert check["by_source"] == {"ptx": 8, "machine_code": 0, "library": 0}
    assert (check["violations"], check["told"], check["skipped"]) == (0, [], {})
    assert (check["idle"], check["whole"], check["outside"]) == (5, 0, 0)
    assert check["predicted_bytes"] == 4 * 1000 + 8 * 300 + 4 * 70000
    assert 0 < check["changed_bytes"] < check["predicted_bytes"]
    assert "writes were checked of 8 launches (8 PTX)" in outcome.errors


def test_a_wrong_template_is_caught_and_not_believed_again(tmp_path: Path) -> None:
    control.falsify(cache.default_directory())
    launches = [LAUNCHES[1], *LAUNCHES, LAUNCHES[1]]
    outcome = run(tmp_path, launches, "--check-writes")
    assert outcome.printed.strip() == expected(launches)
    check = outcome.check
    assert (check["known"], check["unknown"], check["checked"], check["violations"]) == (8, 2, 8, 1)
    (told,) = check["told"]
    assert (told["function"], told["grid"], told["block"]) == ("all", [3, 1, 1], [writer.THREADS, 1, 1])
    assert (told["bytes"], told["offset"], told["parameter"], told["source"]) == (control.STRAY, 64 + 4, 0, "ptx")
    assert (told["before"], told["after"]) == (7, 8)
    assert told["parameters"][0] == {"offset": 0, "size": 8, "value": told["allocation"] + 64}
    assert told["parameters"][1] == {"offset": 8, "size": 4, "value": 300}
    begin = told["allocation"] + 64
    rows = {"low": begin, "high": begin + 8 * 299 + 4, "stride": 8, "width": 4, "parameter": 0, "whole": False}
    assert (told["predicted_ranges"], told["predicted"]) == (1, [rows])
    (line,) = [line for line in outcome.errors.splitlines() if "error: check:" in line]
    assert f"all wrote {control.STRAY} bytes that it was not predicted to write, the first at byte 68" in line
    assert "to which parameter 0 points: 07 became 08" in outcome.errors
    assert "predicted, as offsets from that byte: -4 to 2391 (4 at every 8)" in outcome.errors


def test_each_access_of_right_kernels_is_inside(tmp_path: Path) -> None:
    outcome = run(tmp_path, LAUNCHES, "--check-accesses")
    assert outcome.printed.strip() == expected(LAUNCHES)
    check = outcome.check
    assert (check["writes"], check["accesses"], check["looked_at_bytes"]) == (False, True, 0)
    assert (check["known"], check["checked"], check["tested_launches"]) == (8, 8, 8)
    assert check["tested"] == 1000 + 2 * 300 + 10 + 70000
    assert (check["violations"], check["told"], check["skipped"], check["untested"]) == (0, [], {}, {})
    assert f"clones of 8 launches tested {check['tested']} accesses" in outcome.errors


@pytest.mark.parametrize("options", sampled([["--check-accesses"], BOTH], [BOTH]))
def test_an_access_outside_is_caught_and_the_kernel_not_believed_again(tmp_path: Path, options: list[str]) -> None:
    control.falsify(cache.default_directory())
    launches = [LAUNCHES[1], *LAUNCHES, LAUNCHES[1]]
    outcome = run(tmp_path, launches, *options)
    assert outcome.printed.strip() == expected(launches)
    check = outcome.check
    assert (check["known"], check["unknown"], check["checked"], check["violations"]) == (8, 2, 8, 1)
    (told,) = check["told"]
    assert (told["function"], told["bytes"], told["parameter"], told["source"]) == ("all", 4, 0, "ptx")
    text = writer.text(writer.BODIES).decode().splitlines()
    line = text.index(writer.BODIES["all"].splitlines()[1]) + 1
    assert told["access"] == {"kind": "atomic", "line": line, "accesses": control.STRAY}
    assert (told["before"], told["after"]) == (None, None)
    assert (told["offset"] - 64) % 8 == 4
    assert 0 <= told["offset"] - 64 < 8 * 300
    (rows,) = told["predicted"]
    assert (rows["stride"], rows["width"], rows["parameter"]) == (8, 4, 0)
    assert f"all made {control.STRAY} accesses that it was not predicted to make, one in line {line}" in outcome.errors
    assert (
        f"{control.STRAY} accesses, one of them an atomic access of 4 bytes in line {line}, outside from"
        in outcome.errors
    )


def test_kernels_without_clones_run_untested(tmp_path: Path) -> None:
    """Damaged ones, which the driver refuses, missing ones, and one that cannot be made."""
    for file in cache.default_directory().glob("*/*"):
        key = control.key_of(file)
        wanted = json.dumps(key).encode()
        found = cache.decode(file.read_bytes(), wanted)
        assert found is not None
        clones = {
            "even": b"",
            "quiet": Clone("", "a reason").to_bytes(),
            "plain": found.clone.replace(b"ret;", b"no;"),
            "all": b"!a part\0" + found.clone,
        }
        file.write_bytes(cache.encode(wanted, replace(found, clone=clones[key[5]])))
    outcome = run(tmp_path, LAUNCHES, "--check-accesses")
    assert outcome.printed.strip() == expected(LAUNCHES)
    check = outcome.check
    assert (check["known"], check["checked"], check["tested_launches"]) == (8, 2, 2)
    assert check["untested"] == {"no_twin": 4, "refused": 2, "partly": 2}
    assert (check["untested_functions"], check["skipped"]) == (4, {})
    told = {each["function"]: (each["reason"], each["why"], each["launches"]) for each in check["told_untested"]}
    assert told.pop("plain")[1].startswith("the driver does not load the clone (error ")
    assert told == {
        "even": ("no_twin", "there was no room for its clone", 2),
        "quiet": ("no_twin", "a reason", 2),
        "all": ("partly", "a part", 2),
    }
    assert "the driver does not load the clone of plain" in outcome.errors
    assert "  not all accesses tested, as their clones cannot test all: 2\n    2 of all: a part\n" in outcome.errors


@pytest.mark.full
@pytest.mark.parametrize("way", ["module", "library"])
def test_variables_are_the_programs_own(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clone counts in them and reads them, and with the analysis in the cache the first launch is one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    command = [sys.executable, variables.__file__, way]
    report = tmp_path / "report.json"
    for known, waits in ((variables.LAUNCHES - 1, ["wait"]), (variables.LAUNCHES, [])):
        options = ["--json", str(report), "--check-accesses", "--no-summary"]
        done = subprocess.run(
            [*ONE_GPU, *options, "--", *command, *waits], text=True, stdout=subprocess.PIPE, check=True
        )
        assert [json.loads(line) for line in done.stdout.splitlines()] == variables.model()
        check = json.loads(report.read_text())["check"]
        assert (check["known"], check["tested_launches"], check["violations"]) == (known, known, 0)
        assert (check["tested"], check["untested"]) == (variables.ACCESSES * variables.THREADS * known, {})


@pytest.mark.full
def test_nobody_else_is_blamed(tmp_path: Path) -> None:
    """Other threads launch, set and copy, at home and on another GPU."""
    policy = tmp_path / "policy.yaml"
    policy.write_text("version: 1\ndevices: {executors: [1]}\nrules:\n  - {match: {function: even}, device: 1}\n")
    launches, threads = [{**launch, "count": launch["count"] % 999} for launch in LAUNCHES * 2], 3
    outcome = run(tmp_path, launches, "--check-writes", "--policy", str(policy), gpus=2, threads=threads)
    assert outcome.printed.split() == [expected(launches)] * threads
    check = outcome.check
    at_home = threads * 6 + 3
    assert (check["known"], check["violations"], check["outside"]) == (at_home, 0, 0)
    assert check["checked"] + sum(check["skipped"].values()) == at_home
    assert check["checked"] > threads * 3


@pytest.mark.full
def test_a_library_is_known_by_its_calls(native_build: Path, tmp_path: Path) -> None:
    build(tmp_path, (native_build / "native" / "include" / "tessera" / "library_calls.h").read_text())
    report, program = tmp_path / "report.json", Path(guest.__file__)
    options = ["--emulate", "1", "--check-writes", "--json", str(report), "--"]
    subprocess.run([TESSERA_RUN, *options, sys.executable, program, tmp_path], timeout=TIMEOUT_S, check=True)
    check = json.loads(report.read_text())["check"]
    assert check["checked"] == sum(check["by_source"].values()) == guest.CALLS
    assert check["by_source"]["library"] > 0
    assert (check["violations"], check["outside"], check["idle"]) == (0, 0, 0)


def test_a_template_that_says_overwritten_of_what_is_read_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel that adds to words, whose template is that of one that stores in them."""
    monkeypatch.setattr(control, "WRONG", "even")
    monkeypatch.setattr(control, "AS_IF", "plain")
    control.falsify(cache.default_directory())
    launches = [LAUNCHES[3], LAUNCHES[0], LAUNCHES[0]]
    outcome = run(tmp_path, launches, "--check-writes")
    assert outcome.printed.strip() == expected(launches)
    (told,) = outcome.check["told"]
    assert (told["function"], told["claim"], told["source"]) == ("even", "overwritten", "ptx")
    assert (told["claimed"]["stride"], told["claimed"]["width"]) == (8, 4)
    assert outcome.check["claims"]["tested"] >= 2
    assert "error: check: even needs what is in the" in outcome.errors


@pytest.fixture(scope="module")
def stand_ins(native_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the stand-ins of libraries are."""
    place = tmp_path_factory.mktemp("stand-ins")
    build(place, (native_build / "native" / "include" / "tessera" / "library_calls.h").read_text())
    return place


def claiming(place: Path, stand_ins: Path, *calls: str, options: Sequence[str] = ()) -> tuple[dict[str, Any], str]:
    """The check of products that are made in these ways, and what the run said; each product was right."""
    report = place / "report.json"
    started = [*ONE_GPU, "--check-writes", *options, "--json", str(report), "--"]
    command = [*started, sys.executable, claims.__file__, str(stand_ins), *calls]
    done = subprocess.run(command, text=True, capture_output=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [claims.model(each) for each in calls]
    check: dict[str, Any] = json.loads(report.read_text())["check"]
    return check, done.stderr


@pytest.mark.full
def test_calls_need_nothing_of_what_they_overwrite_and_of_scratch(tmp_path: Path, stand_ins: Path) -> None:
    """One launch, a sum of parts that the second launch makes, memory that is cleared and added to."""
    check, said = claiming(tmp_path, stand_ins, "plain", "parts", "cleared")
    assert (check["known"], check["checked"], check["violations"]) == (4, 4, 0)
    assert check["claims"] == {
        "tested": 3
    }  # a call's first launch makes them, but for what the call has cleared before
    assert check["filled_bytes"] == 2 * claims.C_BYTES + 3 * claims.WORK_BYTES
    assert f"3 were run again with other values in {check['filled_bytes']} B that they are said not to need" in said


@pytest.mark.full
@pytest.mark.parametrize(
    ("call", "claim", "count", "first", "low", "said"),
    [  # 7 + i and i - 1 differ in a byte, or in four if i is 0; of those, in C nobody knows whether they were written
        ("added", "overwritten", claims.COUNT - 1, 4, claims.C, "that it is said to overwrite"),
        ("used", "scratch", claims.COUNT + 3, 0, claims.WORK, "that it is said to use as scratch"),
    ],
)
def test_a_wrong_claim_is_caught_and_not_believed_again(
    tmp_path: Path, stand_ins: Path, call: str, claim: str, count: int, first: int, low: int, said: str
) -> None:
    check, errors = claiming(tmp_path, stand_ins, "plain", call, "plain")
    assert (check["known"], check["checked"], check["violations"]) == (3, 2, 1)
    assert check["skipped"] == {"unknown": 1}
    (told,) = check["told"]
    assert (told["function"], told["library_call"], told["claim"]) == ("through", "cublasSgemm_v2", claim)
    assert (told["source"], told["bytes"], told["offset"]) == ("library", count, claims.C + first)
    place, memory = told["claimed"], told["allocation"]
    assert (place["low"] - memory, place["high"] - memory) == (low, low + claims.C_BYTES)
    assert (told["before"], told["after"]) == ((claims.BEFORE + first // 4), (first // 4 - 1) & 0xFF)
    assert f"error: check: through needs what is in the 64 bytes at {place['low']:#x} {said}" in errors
    assert "with other values in what is said that" in errors


@pytest.mark.full
def test_results_that_differ_in_each_run_prove_nothing(tmp_path: Path, stand_ins: Path) -> None:
    check, _ = claiming(tmp_path, stand_ins, "counted")
    assert (check["claims"], check["violations"]) == ({"unsteady": 1}, 0)


@pytest.mark.full
def test_a_call_says_more_of_a_kernel_than_its_code(tmp_path: Path, stand_ins: Path) -> None:
    """Where it writes, its code takes from memory: anywhere in the allocation. It has operands, and makes claims."""
    claiming(tmp_path, stand_ins, "looked-up")  # the analysis comes too late for the first run
    check, _ = claiming(tmp_path, stand_ins, "looked-up", "looked-up")
    assert (check["checked"], check["by_source"]["ptx"], check["whole"], check["violations"]) == (2, 2, 0, 0)
    assert check["claims"] == {"tested": 2}
    predicted = 2 * claims.C_BYTES + claims.WORK_BYTES  # C by its operand, and as overwritten
    assert check["predicted_bytes"] == 2 * predicted


@pytest.mark.full
def test_claims_of_what_cannot_be_put_back_are_not_tested(tmp_path: Path, stand_ins: Path) -> None:
    """What the launch may write is not the program's memory on the GPU alone."""
    check, _ = claiming(tmp_path, stand_ins, "host")
    assert (check["checked"], check["claims"], check["violations"]) == (1, {"untested": 1}, 0)


@pytest.mark.full
def test_launches_are_drawn_and_each_function_has_its_first(tmp_path: Path) -> None:
    launches = LAUNCHES * 25
    check = run(tmp_path, launches, "--check-writes=5", "--check-seed", "1").check
    assert (check["known"], check["violations"], check["every"]) == (104, 0, 5)
    drawn = check["checked"] - check["first"]
    assert 5 <= drawn <= 40
    assert check["first"] <= 4
    again = run(tmp_path, launches, "--check-writes=5", "--check-seed", "1", "--check-most", str(drawn - 2)).check
    assert again["checked"] - again["first"] == drawn - 2
    assert again["predicted_bytes"] < check["predicted_bytes"]


@pytest.mark.full
def test_the_script_checks_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    script, guest = ROOT / "scripts" / "lab", ROOT / "tests" / "e2e" / "guests" / "understood.py"
    report = tmp_path / "found.json"
    options = ["--emulate", "1", "--launches", "7", "--out", str(tmp_path / "out"), "--json", str(report)]
    subprocess.run(
        [sys.executable, script, "check-writes", *options, "--", sys.executable, guest], timeout=TIMEOUT_S, check=True
    )
    (found,) = json.loads(report.read_text()).values()
    assert (found["launches"], found["known"], found["checked"], found["violations"]) == (12, 12, 12, [])


@pytest.mark.full
def test_without_room_a_launch_runs_unchecked(tmp_path: Path) -> None:
    outcome = run(tmp_path, LAUNCHES, "--check-writes", "--check-memory", "1MiB", code=EXIT_CODE)
    assert outcome.printed.strip() == expected(LAUNCHES)
    assert (outcome.check["checked"], outcome.check["skipped"]) == (0, {"memory": 8})
    assert "--check-writes: nothing was checked: of 8 launches, 8 were known" in outcome.errors


@pytest.mark.full
@pytest.mark.parametrize("check", ["writes", "accesses"])
def test_a_first_run_that_checks_nothing_says_so(check: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its one launch of each kernel comes before the analysis, which the second run has."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    first = run(tmp_path, [], f"--check-{check}", code=EXIT_CODE)
    assert f"--check-{check}: nothing was" in first.errors
    assert "run it again, and these are known from the beginning" in first.errors
    second = run(tmp_path, [], f"--check-{check}")
    assert second.check["checked"] == len(writer.BODIES)
    assert "nothing was" not in second.errors


def test_a_failure_of_the_program_comes_first() -> None:
    options = ["--emulate", "1", "--check-writes", "--", "sh", "-c", "exit 7"]
    done = subprocess.run([TESSERA_RUN, *options], timeout=TIMEOUT_S, text=True, capture_output=True)
    assert done.returncode == 7
    assert "nothing was checked: outside graphs the program launched nothing on the home GPU" in done.stderr
