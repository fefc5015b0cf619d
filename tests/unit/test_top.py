"""`tessera top`: what is shown of runs, and a run that is found while it goes on."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.base.screen import plain
from controlplane.commands import top
from controlplane.commands.main import main
from controlplane.live import runs
from controlplane.live.runs import Device, Kernel, Run
from controlplane.live.view import NOTHING, UNCOUNTED, of_all
from controlplane.policy.table import Copies, Launches, RuleUse, Schedule
from tests import schemas
from tests.command import TESSERA, TESSERA_RUN, with_native, with_project

COUNTED = Launches(
    {0: 1000, 1: 2500},
    40,
    {"ranges": 30, "capture": 10},
    verified=7,
    different=1,
    shared=Copies(
        {1: 2 * 10**9}, {1: 12}, {1: 3 * 10**9}, {"launch": 3 * 10**9}, 3 * 10**9, 0, 0, 0, 0, 9, 900, {}, ()
    ),
    rules=(RuleUse(4, 2500), RuleUse(5, 0, ("softmax",))),
    given_streams={1: 2},
    schedule=Schedule(3500, 0, 20, 4, 3, 10**9, 15 * 10**8, 10**9, 0),
)
DEVICES = (
    Device(0, "NVIDIA H200", 1000, 2_000_000, 10**9),
    Device(1, "NVIDIA H200", 2500, 9_000_000, 0),
)
KERNELS = (Kernel(0, "_Z5scalePfi", 900, 1_500_000), Kernel(1, "step", 2500, 9_000_000))
NOW = Run(4711, "python serve.py", 125.0, 20_000_000, DEVICES, KERNELS, COUNTED)
SHOWN = """\
4711  python serve.py  (2 min 5 s, virtual time 20.000 ms)
  GPU  name         launches  share  per s  busy  memory
    0  NVIDIA H200     1,000   29 %    250  10 %  1.0 GB
    1  NVIDIA H200     2,500   71 %    500  50 %     0 B
  kept home although a rule sent them elsewhere: 40 (ranges: 30, capture: 10)
    ranges: it is not known, or not yet, what they touch: run it again, or say memory: {place: follow}
    capture: they are recorded into CUDA graphs; the graphs themselves may leave
  estimated gain: 1.50 times as early as the program's own GPU alone
  streams that rules gave a GPU: GPU 1: 2
  the rule in line 5 matched no launch; did you mean softmax?
  pulled from other GPUs' copies of memory: 3.0 GB in 12 on GPU 1; waits for another stream: 0
  verified, run at home too: 7, of which 1 gave other bytes; could not be verified: 0
  copies held: 2.0 GB on GPU 1
  guard: placing paid off in 3 of 4 windows; 20 launches rested at home
  launches by rule: line 4: 2,500, line 5: 0
  GPU  kernel  launches      time
    1  step       2,500  9.000 ms
    0  scale        900  1.500 ms"""
PROGRAM = """
from ctypes import c_uint32
from controlplane.demo.branches import COUNT, Gpu
gpu = Gpu()
numbers = gpu.buffer([0.5] * COUNT)
for _ in range(3):
    gpu.launch("turn", numbers, numbers, c_uint32(10))
gpu.read(numbers)
print("ready", flush=True)
input()
"""


def read(terminal: int) -> str:
    """What has been written there, waiting for a second; nothing if all who could write are gone."""
    try:
        return os.read(terminal, 65536).decode(errors="replace") if select.select([terminal], [], [], 1)[0] else ""
    except OSError:
        return ""


def test_what_is_shown() -> None:
    devices = (replace(DEVICES[0], launches=500, busy_ns=10**6), replace(DEVICES[1], launches=1500, busy_ns=4 * 10**6))
    before = replace(NOW, devices=devices, virtual_ns=10_000_000)
    assert plain(of_all([NOW], {4711: before}, 2.0)) == SHOWN


def test_real_gpus_have_no_virtual_time_and_a_first_look_no_rates() -> None:
    run = replace(NOW, virtual_ns=None, devices=(Device(1, "", 2500),), kernels=(), counted=None)
    assert plain(of_all([run], {}, 0.0)).splitlines() == [
        "4711  python serve.py  (2 min 5 s)",
        "  GPU  name  launches  share  per s  busy  memory",
        "    1  -        2,500  100 %      -     -       -",
    ]
    assert of_all([replace(run, devices=())], {}, 0.0) == ["4711  python serve.py  (2 min 5 s)", UNCOUNTED]
    assert of_all([], {}, 0.0) == [NOTHING]


@pytest.fixture
def running(native_build: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "version: 1\ndevices: {home: 0, executors: [1]}\nmemory: {place: follow}\n"
        'rules:\n  - {match: {function: "*"}, device: 1}\n'
    )
    command = [str(TESSERA_RUN), "--emulate", "2", "--no-summary", "--policy", str(policy), "--metrics", "0"]
    environment = with_native(native_build / "native") | with_project()
    command += ["--", sys.executable, "-c", PROGRAM]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, text=True, stdin=pipe, stdout=pipe, stderr=pipe) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "ready\n"
        yield run
        if run.returncode is None:
            run.communicate("\n", timeout=60)


def test_a_run_is_found_while_it_goes_on(
    running: subprocess.Popen[str],
    native_build: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TESSERA_NATIVE", str(native_build / "native"))
    assert main(["top", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    schemas.check("top", printed)
    (found,) = (each for each in printed["runs"] if each["pid"] == running.pid)
    assert found["command"].startswith(f"{sys.executable} -c")
    assert [(each["launches"], each["name"]) for each in found["devices"]] == [(0, "NVIDIA H200"), (3, "NVIDIA H200")]
    assert [(each["name"], each["device"], each["launches"]) for each in found["kernels"]] == [("turn", 1, 3)]
    assert found["counted"]["by_device"] == {"0": 0, "1": 3}
    assert main(["top", "--once", "--every", "0.1"]) == 0
    assert "launches by rule: line 5: 3" in capsys.readouterr().out


def test_prometheus_is_answered_while_it_goes_on(running: subprocess.Popen[str]) -> None:
    assert running.stderr is not None
    address = running.stderr.readline().removeprefix("tessera-run: metrics at ").strip()
    with urllib.request.urlopen(address, timeout=20) as answer:
        told = answer.read().decode()
    assert 'tessera_launches_total{gpu="1"} 3.0\n' in told
    assert 'tessera_rule_launches_total{line="5"} 3.0\n' in told
    assert f'tessera_run_info{{command="{sys.executable} -c' in told
    running.communicate("\n", timeout=60)
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(address, timeout=20)


def on_a_terminal(number: str, native: Path, *, keys: bool) -> tuple[int, str]:
    """The exit code and all that is written, with Ctrl-C once the number was there twice. keys: of a keyboard, too."""
    ours, theirs = pty.openpty()
    environment = with_native(native) | {"TERM": "xterm", "COLUMNS": "100", "LINES": "200"}
    stdin, stderr = (theirs, theirs) if keys else (subprocess.DEVNULL, None)
    command = [str(TESSERA), "top", "--every", "0.1"]
    with subprocess.Popen(command, stdin=stdin, stdout=theirs, stderr=stderr, env=environment) as top:
        os.close(theirs)
        shown, until = "", time.monotonic() + 60
        while shown.count(number) < 2 and time.monotonic() < until:
            shown += read(ours)
        if keys:
            os.write(ours, b"\x03")
        else:
            top.send_signal(signal.SIGINT)
        while top.poll() is None and time.monotonic() < until:
            shown += read(ours)  # it cannot end before what it writes is read
        top.kill()
        while part := read(ours):
            shown += part
    os.close(ours)
    return top.returncode, shown


def test_on_a_terminal_without_keys_it_goes_on_until_ctrl_c(running: subprocess.Popen[str], native_build: Path) -> None:
    code, shown = on_a_terminal(f"{running.pid}  ", native_build / "native", keys=False)
    assert code == 0
    assert shown.startswith("\033[?1049h")
    assert "tessera top (Ctrl-C ends it)" in shown
    assert shown.count(f"{running.pid}  ") >= 2
    assert shown.endswith("\033[?1049l")


def test_on_a_terminal_with_keys_there_is_a_list(running: subprocess.Popen[str], native_build: Path) -> None:
    code, shown = on_a_terminal(str(running.pid), native_build / "native", keys=True)
    assert code == 0
    assert "up, down: choose a program" in shown
    assert shown.count(str(running.pid)) >= 2
    assert "\033[?1049l" in shown  # the screen is the shell's again


def test_without_textual_it_says_how_to_get_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(top, "find_spec", lambda _: None)
    assert f"pip install '{top.REQUIREMENT}'" in top._title()  # noqa: SLF001


def test_what_is_no_file_of_ours_is_left_out(tmp_path: Path) -> None:
    assert runs._machine(b"\0" * (8 << 20)) == (None, (), ())  # noqa: SLF001
    assert runs._counted(b"\0" * (8 << 20)) is None  # noqa: SLF001
    assert runs._machine(b"") == (None, (), ())  # noqa: SLF001
    assert runs._contents({"TESSERA_POLICY": str(tmp_path / "file")}, "TESSERA_POLICY") is None  # noqa: SLF001


def test_mistakes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "--every", "0"]) == 2
    assert "--every 0 is not usable here; expected 0.1 to 3600 seconds" in capsys.readouterr().err
