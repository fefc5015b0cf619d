"""A kernel that takes long on an emulated GPU is named once, while it runs."""

import subprocess
import sys
from pathlib import Path

from tests.command import TESSERA_RUN, with_native, with_project

PROGRAM = """
from ctypes import c_uint32
from controlplane.demo.branches import COUNT, Gpu
gpu = Gpu()
numbers = gpu.buffer([0.5] * COUNT)
gpu.launch("turn", numbers, numbers, c_uint32(10_000_000))
gpu.launch("join", numbers, numbers, numbers)
gpu.read(numbers)
"""
TOLD = (
    "kernel turn has been running on emulated GPU 0 for 100 ms: 0 of 1 blocks are done; emulated GPUs are thousands of"
)


def run(native_build: Path, slow_ms: int) -> str:
    environment = with_native(native_build / "native") | with_project(TESSERA_SLOW_MS=str(slow_ms))
    command = [str(TESSERA_RUN), "--emulate", "1", "--no-summary", "--", sys.executable, "-c", PROGRAM]
    return subprocess.run(command, text=True, capture_output=True, env=environment, timeout=100, check=True).stderr


def test_a_slow_kernel_is_named_once(native_build: Path) -> None:
    said = run(native_build, 100)
    assert said.count("kernel turn has been running") == 1
    assert TOLD in said
    assert "kernel join" not in said


def test_others_are_not(native_build: Path) -> None:
    assert run(native_build, 0) == ""
