"""Unmodified CUDA programs under ``tessera-run --emulate``: each checks itself against values computed on the CPU."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.command import TESSERA_RUN, with_native
from tests.e2e.build import BuildError, Program, programs

PROGRAMS = programs()
# The others differ from one of these in what they compute or in how they are compiled, not in what they ask for.
SAMPLE = {
    *("async_copy", "atomics", "constant_memory", "cooperative_groups", "device_printf", "device_reset"),
    *("driver_functions", "driver_ipc", "driver_launch", "driver_library", "driver_memory", "driver_pools"),
    *("driver_streams", "driver_vmm", "driver_vmm_growth", "event_timing_runtime12", "faults", "gemm_tiled"),
    *("gemm_wmma_sm90_zstd", "graph_capture", "graph_explicit", "launch_attributes", "left_addresses"),
    *("managed_memory", "peer_copies", "pinned_mapped", "pitched_copies_per_thread", "scan_line_numbers"),
    *("softmax", "sort_radix", "stream_ordered_memory", "streams_events", "transpose", "vector_add"),
    "warp_primitives",
}
CASES = [
    pytest.param(program, id=program.name, marks=() if program.name in SAMPLE else pytest.mark.full)
    for program in PROGRAMS
]
TIMEOUT_S = 120


def test_there_are_enough_programs() -> None:
    assert len({program.source for program in PROGRAMS}) >= 28


@pytest.mark.parametrize("program", CASES)
def test_program(program: Program, executables: dict[str, Path | BuildError], native_build: Path) -> None:
    executable = executables[program.name]
    if isinstance(executable, BuildError):
        pytest.fail(str(executable))
    command = [str(TESSERA_RUN), "--emulate", str(program.devices), "--", str(executable)]
    environment = with_native(native_build / "native")
    done = subprocess.run(command, text=True, capture_output=True, env=environment, timeout=TIMEOUT_S)
    said = f"{done.stdout}\n{done.stderr}"
    assert done.returncode == 0, said
    assert "PASS (" in done.stdout, said
