"""tessera-run around a program: environment, exit codes, signals, report. The driver is empty; programs act for it."""

import json
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from controlplane.machine import driver
from controlplane.run import shim
from controlplane.run.launch import Change, compose
from ptxtools.errors import ConfigError, WireError
from tests.command import TESSERA_RUN, with_native, with_project

# Writes the counters that the emulated driver would write.
PRETEND = """
import mmap, os
from ptxtools.native import records
ffi, _ = records.header("machine.h")
with open(os.environ["TESSERA_MACHINE"], "r+b") as file:
    record = ffi.from_buffer("struct tsr_machine *", mmap.mmap(file.fileno(), 0), require_writable=True)
record.processes = 1
record.virtual_ns = 5000
record.live[1].launches, record.live[1].busy_ns, record.live[1].last_ns = 3, 4500, 5000
record.live[0].copies, record.live[0].copied_bytes = 2, 4096
row = record.kernels[0]
row.state, row.device, row.launches, row.virtual_ns, row.name = 2, 1, 3, 4500, b"saxpy"
"""


@pytest.fixture
def environment(fake_native: Path) -> dict[str, str]:
    return with_native(fake_native)


def run(environment: dict[str, str], *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([TESSERA_RUN, *arguments], env=environment, text=True, capture_output=True, timeout=60)


def test_layers_compose_with_the_first_driver_in_front() -> None:
    shim = Change(Path("/t/shim/libcuda.so.1"), (), {"TESSERA_POLICY": "p"})
    emulation = Change(
        Path("/t/emulator/libcuda.so.1"), (Path("/t/cudart"), Path("/t/emulator")), {"TESSERA_MACHINE": "m"}
    )
    result = compose([shim, emulation], {"LD_PRELOAD": "libx.so", "LD_LIBRARY_PATH": "/lib", "HOME": "/h"})
    assert result == {
        "LD_PRELOAD": "/t/shim/libcuda.so.1:libx.so",
        "LD_LIBRARY_PATH": "/t/cudart:/t/emulator:/lib",
        "TESSERA_DRIVER": "/t/emulator/libcuda.so.1",
        "TESSERA_POLICY": "p",
        "TESSERA_MACHINE": "m",
        "HOME": "/h",
    }
    assert compose([], {"A": "1"}) == {"A": "1"}


@pytest.mark.parametrize("path", ["/a b/libcuda.so.1", "/a:b/libcuda.so.1"])
def test_paths_the_loader_cannot_be_told_are_refused(path: str) -> None:
    with pytest.raises(ConfigError, match="dynamic loader"):
        compose([Change(Path(path))], {})


def test_the_driver_is_in_the_program(environment: dict[str, str]) -> None:
    code = "import ctypes; print(ctypes.CDLL('libcuda.so.1').tsr_empty_driver)"
    done = run(environment, "--emulate", "1", "--no-summary", "--", sys.executable, "-c", "import ctypes\n" + code)
    assert (done.returncode, done.stderr) == (0, "")


def test_without_options_the_shim_is_in_front_of_the_systems_driver(
    environment: dict[str, str], fake_native: Path
) -> None:
    driver = str(fake_native / "emulator" / "libcuda.so.1")
    show = "import ctypes, os; print(ctypes.CDLL('libcuda.so.1').tsr_empty_shim, os.environ['TESSERA_DRIVER'])"
    done = run({**environment, "TESSERA_DRIVER": driver}, "--", sys.executable, "-c", show)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split()[-1] == driver


def test_the_shim_may_be_in_front_of_the_emulated_driver(environment: dict[str, str], fake_native: Path) -> None:
    show = "import ctypes, os; print(ctypes.CDLL('libcuda.so.1').tsr_empty_shim, os.environ['TESSERA_DRIVER'])"
    done = run(environment, "--emulate", "1", "--shim", "--no-summary", "--", sys.executable, "-c", show)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split()[-1] == str(fake_native / "emulator" / "libcuda.so.1")


def test_a_driver_that_is_not_there_is_named(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    done = run({**environment, "TESSERA_DRIVER": "/none/libcuda.so.1"}, "--", "true")
    assert (done.returncode, "TESSERA_DRIVER=/none/libcuda.so.1" in done.stderr) == (2, True)
    monkeypatch.delenv("TESSERA_DRIVER", raising=False)
    monkeypatch.setattr(driver, "find", lambda _: None)
    with pytest.raises(WireError, match="no CUDA driver found"):
        shim.system_driver()


@pytest.mark.parametrize("code", [0, 1, 42, 255])
def test_the_exit_code_is_the_programs(environment: dict[str, str], code: int) -> None:
    assert run(environment, "--emulate", "1", "--", "sh", "-c", f"exit {code}").returncode == code


def test_a_signals_exit_code_is_the_shells(environment: dict[str, str]) -> None:
    done = run(environment, "--emulate", "1", "--", "sh", "-c", "kill -KILL $$")
    assert done.returncode == 128 + signal.SIGKILL


def test_programs_that_cannot_start(environment: dict[str, str], tmp_path: Path) -> None:
    assert run(environment, "--emulate", "1", "--", "no-such-program").returncode == 127
    assert run(environment, "--emulate", "1", "--", tmp_path / "none").returncode == 127
    (tmp_path / "plain").write_text("x")
    assert run(environment, "--emulate", "1", "--", tmp_path / "plain").returncode == 126


def test_signals_reach_the_program(environment: dict[str, str]) -> None:
    script = "trap 'exit 7' TERM; echo started; while :; do sleep 0.05; done"
    command = [str(TESSERA_RUN), "--emulate", "1", "--", "sh", "-c", script]
    with subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 7


def test_the_program_gets_default_signal_handling(environment: dict[str, str]) -> None:
    """Python ignores SIGPIPE for itself and blocks signals while it waits; a program must not inherit that."""
    show = "import signal; s = signal.pthread_sigmask(0, []); print(sorted(s))"
    done = run(environment, "--emulate", "1", "--no-summary", "--", sys.executable, "-c", show)
    assert done.stdout == "[]\n"
    done = run(environment, "--emulate", "1", "--no-summary", "--", "grep", "SigIgn", "/proc/self/status")
    assert int(done.stdout.split()[-1], 16) & 1 << signal.SIGPIPE - 1 == 0


def test_the_program_inherits_no_descriptor(environment: dict[str, str]) -> None:
    show = "import os; print(sorted(set(os.listdir('/proc/self/fd')) - {'0', '1', '2'}))"
    bare = subprocess.run([sys.executable, "-c", show], text=True, capture_output=True, check=True)
    done = run(environment, "--emulate", "1", "--no-summary", "--", sys.executable, "-c", show)
    assert done.stdout == bare.stdout


def test_the_report_says_what_ran_where(environment: dict[str, str], tmp_path: Path) -> None:
    output = tmp_path / "ran.json"
    done = run(environment, "--emulate", "h100,l4", "--json", output, "--", sys.executable, "-c", PRETEND)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stderr.splitlines()]
    assert ["1", "NVIDIA", "L4", "3", "4.500", "us", "0", "0", "B"] in lines
    assert ["0", "NVIDIA", "H100", "80GB", "HBM3", "0", "0", "ns", "2", "4.1", "kB"] in lines
    assert ["1", "saxpy", "3", "4.500", "us"] in lines
    touched = {"local_bytes": 0, "remote_bytes": 0}
    assert json.loads(output.read_text()) == {
        "processes": 1,
        "virtual_ns": 5000,
        "devices": [
            {"device": 0, "name": "NVIDIA H100 80GB HBM3", "launches": 0, "busy_ns": 0, "last_ns": 0, **touched},
            {"device": 1, "name": "NVIDIA L4", "launches": 3, "busy_ns": 4500, "last_ns": 5000, **touched},
        ],
        "kernels": [{"device": 1, "name": "saxpy", "launches": 3, "virtual_ns": 4500}],
        "copies": [{"device": 0, "copies": 2, "copied_bytes": 4096}, {"device": 1, "copies": 0, "copied_bytes": 0}],
    }


def test_a_program_that_never_reached_the_driver_is_reported(environment: dict[str, str]) -> None:
    assert "no process initialised the driver" in run(environment, "--emulate", "1", "--", "true").stderr


def test_a_static_runtime_is_named(environment: dict[str, str], tmp_path: Path) -> None:
    source = tmp_path / "static.c"
    source.write_text('__attribute__((section(".nv_fatbin"), used)) int code = 1;\nint main(void) { return 3; }\n')
    program = tmp_path / "static"
    subprocess.run(["cc", "-o", program, source], check=True)
    done = run(environment, "--emulate", "1", "--", program)
    assert done.returncode == 3
    assert "-cudart shared" in done.stderr


RUNTIME_BY_PATH = """
#include <stdio.h>
int cudaGetDeviceCount(int *count);
int main(void)
{
    int count = -1;
    int error = cudaGetDeviceCount(&count);
    printf("%d %d\\n", error, count);
    return 0;
}
"""


@pytest.mark.parametrize("major", [12, 13])
def test_a_runtime_named_by_its_path_is_ours_all_the_same(native_build: Path, tmp_path: Path, major: int) -> None:
    theirs = tmp_path / f"libcudart.so.{major}"  # in the place of NVIDIA's in a wheel, which asks for NVIDIA's driver
    versions = tmp_path / "versions"
    versions.write_text(f"{theirs.name} {{ global: cuda*; local: *; }};")
    subprocess.run(
        ["cc", "-shared", f"-Wl,-soname,{theirs.name},--version-script,{versions}", "-x", "c", "-o", theirs, "-"],
        input="int cudaGetDeviceCount(int *count) { return 35; }",
        text=True,
        check=True,
    )
    program = tmp_path / "program"
    ours = native_build / "native" / "cudart" / theirs.name
    subprocess.run(
        ["cc", "-o", program, "-x", "c", "-", "-x", "none", ours, "-Wl,--disable-new-dtags", f"-Wl,-rpath,{tmp_path}"],
        input=RUNTIME_BY_PATH,
        text=True,
        check=True,
    )
    alone = subprocess.run([program], text=True, capture_output=True, check=True)
    assert alone.stdout == "35 -1\n"
    assert run(with_native(native_build / "native"), "--emulate", "2", "--", program).stdout.startswith("0 2\n")


@pytest.mark.parametrize(
    "arguments", [[], ["--emulate", "1"], ["--timing", "all", "--", "true"], ["--emulate", "0", "--", "true"]]
)
def test_mistakes_end_with_code_2(environment: dict[str, str], arguments: list[str]) -> None:
    done = run(environment, *arguments)
    assert done.returncode == 2
    assert "expected" in done.stderr


def test_an_unwritable_report_is_an_error(environment: dict[str, str]) -> None:
    done = run(environment, "--emulate", "1", "--json", "/proc/none", "--", "true")
    assert (done.returncode, "--json /proc/none" in done.stderr) == (2, True)


LAUNCHED = "import os, sys; from controlplane.run import launch; sys.exit(launch.run(sys.argv[1:], os.environ))"
SIGNALS_ITS_GROUP = """
import os, signal, time
count = 0
def handle(*_):
    global count
    count += 1
signal.signal(signal.SIGTERM, handle)
child = os.fork()
if not child:
    os.kill(0, signal.SIGTERM)
    time.sleep(1)
    os._exit(0)
os.waitpid(child, 0)
print(count)
"""


def test_what_the_program_sends_its_group_reaches_it_once() -> None:
    command = [sys.executable, "-c", LAUNCHED, sys.executable, "-c", SIGNALS_ITS_GROUP]
    done = subprocess.run(command, env=with_project(), stdout=subprocess.PIPE, start_new_session=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"1\n")


def test_the_launcher_is_quick(environment: dict[str, str]) -> None:
    """Processor time, so that a busy machine does not count, compared to what a Python program of this size takes to
    start; 2.3 times that was measured, program and report included.
    """

    def seconds(start: Callable[[], object]) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def launcher() -> None:
        run(environment, "--emulate", "2", "--no-summary", "--", "true")

    def small() -> None:
        subprocess.run([sys.executable, "-c", "import argparse, json, subprocess, yaml"], env=environment, check=True)

    times = [(seconds(launcher), seconds(small)) for _ in range(5)]
    assert min(time for time, _ in times) < 6 * min(time for _, time in times)
