"""`scripts/hardware figures`: its steps can be run as they are written, and it ends in time whatever they do."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scripts.commands.hardware.figures import STEPS, Step, main, measure

BOGUS = "--an-option-that-nobody-has"


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.name)
def test_all_words_of_a_step_are_known(step: Step) -> None:
    words = [*step.words, *(("--json", "some.json") if step.writes_json else ()), BOGUS]
    done = subprocess.run(words, text=True, capture_output=True, check=False, timeout=60)
    assert done.returncode == 2
    assert done.stderr.rstrip().endswith(f"unrecognized arguments: {BOGUS}")


def step(name: str, program: str, most_s: int) -> Step:
    return Step(name, (sys.executable, "-c", program), most_s, writes_json=False)


def test_each_step_ends_in_time_and_says_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESSERA_NATIVE", str(tmp_path))
    hangs = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(100)'])"
    steps = [
        step("right", "print('so')", 20),
        step("wrong", "raise SystemExit(3)", 20),
        step("hangs", hangs, 1),
        step("large", "print('never')", 300),
    ]
    begun = time.monotonic()
    assert measure(tmp_path / "out", steps, 100) == 1
    assert time.monotonic() - begun < 30
    ended = {each["name"]: each["result"] for each in json.loads((tmp_path / "out" / "figures.json").read_text())}
    assert ended == {"right": "passed", "wrong": "FAILED", "hangs": "too long", "large": "not begun"}
    assert (tmp_path / "out" / "right.log").read_text() == "so\n"


def test_they_are_listed_and_a_wrong_one_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in listed] == [each.name for each in STEPS]
    with pytest.raises(SystemExit) as ended:
        main([str(tmp_path), "no-such"])
    assert ended.value.code == 2
    assert "no such step: no-such; --list has them" in capsys.readouterr().err
