"""The control plane process around a run: whatever happens to it or to the program, the other one is not disturbed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from controlplane.run import observation
from tests.command import TESSERA_RUN

UNIT = Path(__file__).parent

APPLICATION = """
import multiprocessing, os, signal, subprocess, sys, time
sys.path.append(os.environ["UNIT"])
from fake_producer import EntryKind, FakeProcess, Kind

def use_cuda(launches, program="app"):
    process = FakeProcess(program)
    process.connect(os.environ["TESSERA_RECORDS"])
    process.define(EntryKind.FUNCTION, 1, "saxpy")
    ring = process.ring()
    for _ in range(launches):
        ring.launch(1)
    return process
"""


@pytest.fixture
def environment(fake_native: Path) -> dict[str, str]:
    driver = fake_native / "emulator" / "libcuda.so.1"
    return {**os.environ, "TESSERA_NATIVE": str(fake_native), "TESSERA_DRIVER": str(driver), "UNIT": str(UNIT)}


def start(environment: dict[str, str], stats: Path, code: str, *options: str) -> subprocess.Popen[str]:
    command: list[str | Path] = [
        TESSERA_RUN,
        f"--stats={stats}",
        *options,
        "--",
        sys.executable,
        "-c",
        APPLICATION + code,
    ]
    return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def run(environment: dict[str, str], stats: Path, code: str, *options: str) -> tuple[int, str, str]:
    with start(environment, stats, code, *options) as process:
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err


def control_plane_of(starter: int) -> int:
    """The process that runs controlplane.server.main, a child of tessera-run."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        children = Path(f"/proc/{starter}/task/{starter}/children").read_text().split()
        for child in children:
            if b"controlplane.server.main" in Path(f"/proc/{child}/cmdline").read_bytes():
                return int(child)
    raise AssertionError("there is no control plane process")


def test_statistics_of_a_run(environment: dict[str, str], tmp_path: Path) -> None:
    code, _, err = run(environment, tmp_path / "s.json", "use_cuda(100); sys.exit(5)")
    assert (code, err) == (5, "")
    data = json.loads((tmp_path / "s.json").read_text())
    assert {"launches", "kernels", "copies", "overhead_ns_per_launch"} <= set(data)
    assert (data["launches"]["total"], data["launches"]["by_device"]) == (100, {"0": 100})
    assert [(kernel["name"], kernel["launches"]) for kernel in data["kernels"]] == [("saxpy", 100)]


def test_tables_on_standard_error(environment: dict[str, str]) -> None:
    command: list[str | Path] = [TESSERA_RUN, "--stats", "--", sys.executable, "-c", APPLICATION + "use_cuda(3)"]
    done = subprocess.run(command, env=environment, text=True, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "")
    assert "3 launches" in done.stderr
    assert "saxpy" in done.stderr


def test_an_argument_of_the_program_is_not_ours(environment: dict[str, str]) -> None:
    command: list[str | Path] = [TESSERA_RUN, "--stats", "echo", "--stats=x", "--stats"]
    done = subprocess.run(command, env=environment, text=True, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "--stats=x --stats\n")
    assert "no process used CUDA" in done.stderr


CHILDREN = """
use_cuda(1)
if os.fork() == 0:
    use_cuda(10)
    os._exit(0)
os.wait()
program = os.environ["SOURCE"] + "use_cuda(100)"
subprocess.run([sys.executable, "-c", program], check=True)
os.execv(sys.executable, [sys.executable, "-c", os.environ["SOURCE"] + "use_cuda(1000)"])
"""


@pytest.mark.full
def test_children_by_fork_subprocess_and_exec(environment: dict[str, str], tmp_path: Path) -> None:
    code, _, err = run({**environment, "SOURCE": APPLICATION}, tmp_path / "s.json", CHILDREN)
    assert (code, err) == (0, "")
    data = json.loads((tmp_path / "s.json").read_text())
    assert data["processes"] == 4
    assert data["launches"]["total"] == 1111
    assert [program["launches"] for program in data["programs"]] == [1, 10, 100, 1000]
    assert data["programs"][0]["pid"] == data["programs"][3]["pid"]


def test_records_of_a_killed_program_are_kept(environment: dict[str, str], tmp_path: Path) -> None:
    code, _, _ = run(environment, tmp_path / "s.json", "p = use_cuda(50); os.kill(os.getpid(), signal.SIGKILL)")
    assert code == 128 + signal.SIGKILL
    assert json.loads((tmp_path / "s.json").read_text())["launches"]["total"] == 50


WAITING = """
p = use_cuda(10)
print("ready", flush=True)
sys.stdin.read()
print("done")
sys.exit(9)
"""


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_killed_control_plane_changes_nothing(
    environment: dict[str, str], tmp_path: Path, number: signal.Signals
) -> None:
    command: list[str | Path] = [
        TESSERA_RUN,
        f"--stats={tmp_path / 's.json'}",
        "--",
        sys.executable,
        "-c",
        APPLICATION + WAITING,
    ]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, text=True, **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout.readline() == "ready\n"
        os.kill(control_plane_of(process.pid), number)
        out, err = process.communicate("", timeout=60)
        assert (process.returncode, out) == (9, "done\n")
        assert f"the control plane process was ended by signal {int(number)}" in err
        assert len(err.splitlines()) == 1


def test_a_control_plane_that_hangs_is_not_waited_for(
    fake_native: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TESSERA_NATIVE", str(fake_native))
    monkeypatch.setattr(observation, "FINISH_SECONDS", 0.3)
    with observation.Observation(None) as observed:
        os.kill(control_plane_of(os.getpid()), signal.SIGSTOP)
        assert observed.finish() is None
    assert "did not finish in time" in capfd.readouterr().err


@pytest.mark.full
def test_the_control_plane_ends_when_the_starter_is_gone(environment: dict[str, str], tmp_path: Path) -> None:
    with start(
        environment, tmp_path / "s.json", "use_cuda(1); print(os.getpid(), flush=True); time.sleep(60)"
    ) as process:
        assert process.stdout is not None
        program = int(process.stdout.readline())
        server = control_plane_of(process.pid)
        process.kill()
        process.wait()
        deadline = time.monotonic() + 30
        while Path(f"/proc/{server}").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(program, signal.SIGKILL)
        assert not Path(f"/proc/{server}").exists()


def test_an_interrupt_from_the_terminal_ends_only_the_program(environment: dict[str, str], tmp_path: Path) -> None:
    """The signal goes to the whole process group, as the terminal sends it."""
    code = """
p = use_cuda(10)
signal.signal(signal.SIGINT, lambda *_: os._exit(3))
print("ready", flush=True)
for _ in range(600):  # a signal just before it sleeps does not wake it
    time.sleep(0.1)
"""
    command: list[str | Path] = [
        TESSERA_RUN,
        f"--stats={tmp_path / 's.json'}",
        "--",
        sys.executable,
        "-c",
        APPLICATION + code,
    ]
    with subprocess.Popen(
        command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 3
    assert json.loads((tmp_path / "s.json").read_text())["launches"]["total"] == 10


def test_an_unwritable_file_is_told_before_the_program_starts(environment: dict[str, str], tmp_path: Path) -> None:
    code, out, err = run(environment, tmp_path / "none" / "s.json", "print('started')")
    assert (code, out) == (2, "")
    assert "--stats=" in err


def test_statistics_that_cannot_be_written_are_no_failure_of_the_program(environment: dict[str, str]) -> None:
    code, out, err = run(environment, Path("/dev/full"), "use_cuda(1); print('ran'); sys.exit(4)")
    assert (code, out) == (4, "ran\n")
    assert err == "tessera-run: --stats=/dev/full: No space left on device\n"


@pytest.mark.full
def test_many_processes_at_once(environment: dict[str, str], tmp_path: Path) -> None:
    code = """
pids = []
for _ in range(60):
    pid = os.fork()
    if pid == 0:
        use_cuda(20)
        os._exit(0)
    pids.append(pid)
for pid in pids:
    os.waitpid(pid, 0)
"""
    exit_code, _, err = run(environment, tmp_path / "s.json", code)
    assert (exit_code, err) == (0, "")
    data = json.loads((tmp_path / "s.json").read_text())
    assert (data["processes"], data["launches"]["total"]) == (60, 1200)
