"""GPUs that are shown several times, and the command that gives each a part of one."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from controlplane.machine.gpus import Answer, Gpu, Link
from controlplane.machine.parts import parts_of
from ptxtools.errors import ConfigError
from tests.command import ROOT

DAEMON = """#!/bin/sh
echo "$* $(cat) $CUDA_MPS_PIPE_DIRECTORY $CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" >>"$CALLS"
"""
TOLD = "emulation: 2 parts of one GPU, by MPS; not 2 GPUs\n"


def test_how_often_each_gpu_is_shown() -> None:
    assert [parts_of(each) for each in ({}, {"TESSERA_SPLIT": "3"})] == [1, 3]
    for wrong in ("", "0", "-1", "two", "65"):
        with pytest.raises(ConfigError, match="does not say how often"):
            parts_of({"TESSERA_SPLIT": wrong})


def test_two_cards_as_four_gpus() -> None:
    """Those of a card have access to each other, those of different cards here have none."""
    cards = [Gpu(number, "a", f"0000:0{number}:00.0", 9 << 30, (9, 0), 132, True, True, True) for number in range(2)]
    links = [Link(a, 1 - a, False, False, 1, False) for a in range(2)]
    answer = Answer(None, 13000, None, tuple(cards), tuple(links))
    assert answer.split(1) == answer
    found = answer.split(2)
    assert [(gpu.number, gpu.pci[6]) for gpu in found.gpus] == [(0, "0"), (1, "0"), (2, "1"), (3, "1")]
    assert {gpu.memory_bytes for gpu in found.gpus} == {9 << 29}
    assert len(found.links) == 12
    assert [(link.source, link.target) for link in found.links if link.peer_access] == [(0, 1), (1, 0), (2, 3), (3, 2)]


def halves(place: Path, *words: str) -> subprocess.Popen[str]:
    """With a daemon that writes down how it is called."""
    (place / "nvidia-cuda-mps-control").write_text(DAEMON)
    (place / "nvidia-cuda-mps-control").chmod(0o755)
    environment = {**os.environ, "PATH": f"{place}:{os.environ['PATH']}", "CALLS": str(place / "calls")}
    command = [sys.executable, str(ROOT / "scripts/lab"), "halves", *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True, env=environment)


def calls(place: Path) -> list[list[str]]:
    return [line.split() for line in (place / "calls").read_text().splitlines()]


def test_a_command_has_a_part_of_the_gpu(tmp_path: Path) -> None:
    show = "echo $TESSERA_SPLIT $CUDA_MPS_ACTIVE_THREAD_PERCENTAGE; ls -d $CUDA_MPS_PIPE_DIRECTORY; exit 5"
    with halves(tmp_path, "--", "sh", "-c", show) as process:
        out, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (5, "")
    (start, end) = calls(tmp_path)
    assert out == f"{TOLD}2 50\n{start[1]}\n"
    assert (start, end) == (["-d", start[1], "50"], ["quit", "-t", "10", start[1], "50"])
    assert not Path(start[1]).exists()


def test_the_daemon_ends_with_a_command_that_is_ended(tmp_path: Path) -> None:
    with halves(tmp_path, "--parts", "4", "--", "sh", "-c", "echo begun; exec sleep 100") as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == [TOLD.replace("2", "4"), "begun\n"]
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert [call[0] for call in calls(tmp_path)] == ["-d", "quit"]
    assert calls(tmp_path)[0][-1] == "25"


def test_what_halves_needs(tmp_path: Path) -> None:
    with halves(tmp_path) as process:
        assert "and a command after --" in process.communicate(timeout=60)[1]
    assert process.returncode == 2
    environment = {**os.environ, "PATH": str(tmp_path / "nothing")}
    command = [sys.executable, str(ROOT / "scripts/lab"), "halves", "--", "true"]
    done = subprocess.run(command, text=True, capture_output=True, env=environment, check=False, timeout=60)
    assert (done.returncode, "there is no nvidia-cuda-mps-control here" in done.stderr) == (2, True)
