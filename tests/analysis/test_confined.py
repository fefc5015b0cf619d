"""What foreign code could make nvdisasm do, it cannot: a program in its place tries."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ptxtools.machine import confined, disassembler
from ptxtools.machine.disassembler import DisassemblyError, Line, disassemble

SOURCE = Path(__file__).with_name("confined_tool.c")
SMALL = 8 << 20


@pytest.fixture(scope="module")
def tool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("tool") / "nvdisasm"
    subprocess.run(["cc", "-O1", "-Wall", "-Werror", "-o", program, SOURCE], check=True)
    return program


@pytest.fixture(autouse=True)
def _in_its_place(tool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESSERA_NVDISASM", str(tool))


def said(word: bytes, seconds: float = 60) -> str:
    with pytest.raises(DisassemblyError) as caught:
        disassemble(word, seconds=seconds)
    return str(caught.value)


def test_it_reads_and_writes_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD", "/nowhere/libcuda.so.1")
    found = said(b"try")
    assert f"failed: tried, uid {os.getuid()}, preloaded nothing;" in found


def test_the_same_tries_succeed_without(tool: Path, tmp_path: Path) -> None:
    """Else the test above would say nothing."""
    word = tmp_path / "word"
    word.write_text("try")
    done = subprocess.run([tool, word], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.stderr.startswith("socket socketpair ptrace write append temporary old write memory file signal")


def test_memory_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disassembler, "_MEMORY_BYTES", 1 << 30)
    found = said(b"memory").partition("failed: ")[2]
    assert 512 <= int(found.partition(" MiB")[0]) < 1024


def test_output_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disassembler, "_OUTPUT_BYTES", SMALL)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "wrote more than it may" in said(b"output")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10


@pytest.mark.full
def test_time_is_limited() -> None:
    begin = time.monotonic()
    assert re.search("took longer than 1 s|more of the CPU's time", said(b"time", seconds=1))
    assert "took longer than 1 s" in said(b"wait", seconds=1)
    assert time.monotonic() - begin < 30


@pytest.mark.full
def test_the_time_of_the_cpu_is_limited(tool: Path, tmp_path: Path) -> None:
    """Also when nobody is left who would end it."""
    word = tmp_path / "word"
    word.write_text("time")
    command = [sys.executable, "-S", "-I", confined.__file__, "1", str(1 << 30), str(SMALL), str(tool), str(word)]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert -done.returncode in (signal.SIGXCPU, signal.SIGKILL)


def test_it_may_still_crash() -> None:
    assert "crashed" in said(b"crash")
    assert "failed: without a word" in said(b"abort")


def test_subroutines_that_are_listed_apart_are_read_where_they_lie() -> None:
    code = [Line("", "CALL.REL.NOINC", "0x20"), Line("", "EXIT", ""), Line("@P0", "RET.REL.NODEC", "R2")]
    assert disassemble(b"parts") == {"k": code}


def test_the_filter_is_the_kernels_business(tool: Path) -> None:
    """A program in it that is not well formed would be refused, without a word."""
    steps = confined.program(0x7F12_3456_7890)
    assert len(steps) % 8 == 0
    assert len(steps) // 8 < 4096
    environment = {"PATH": os.environ["PATH"]}
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import confined, ctypes; "
        "confined._confine(ctypes.CDLL(None), 0); print(open('/proc/self/status').read())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, Path(confined.__file__).parent],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    status = dict(line.split(":\t") for line in done.stdout.splitlines() if ":\t" in line)
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert tool.exists()
