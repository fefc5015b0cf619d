"""Probes: recorded launches, made again on poisoned memory of their own in a process of their own.

A trace has launches' parameters and no memory, so that only shapes, sizes and numbers are the program's. What a probe
sees is *observed* of one launch, and proven of none: other contents may lead it elsewhere.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from controlplane.analysis.allocations import Allocations
from controlplane.analysis.poison import Experiment, Seen
from controlplane.analysis.traced import TracedLaunch

WORD = 8
NO_PARAMETERS = "its parameters were not recorded (--trace-parameters)"
ATTRIBUTES = "it has launch attributes"
TOO_LARGE = "its allocations are larger than --memory allows"
TOO_LONG = "it took too long"


@dataclass(frozen=True, slots=True)
class Buffer:
    """Stands for an allocation. `pointers`: (offset in the parameter block, offset in the allocation)."""

    size: int
    pointers: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Probe:
    """A launch without addresses: where `parameters` have a pointer into a buffer, they are zero."""

    function: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    parameters: str
    buffers: tuple[Buffer, ...]

    def digest(self) -> str:
        """The same for launches that differ only in where their memory lies."""
        return hashlib.blake2b(json.dumps(asdict(self)).encode(), digest_size=16).hexdigest()

    @property
    def total_bytes(self) -> int:
        return sum(each.size for each in self.buffers)


def probe_of(name: str, launch: TracedLaunch, allocations: Allocations) -> Probe:
    """Words of the parameters that lie in an allocation count as pointers."""
    block = bytearray(launch.parameters)
    found: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for at in range(0, len(block) - WORD + 1, WORD):
        word = int.from_bytes(block[at : at + WORD], "little")
        allocation = allocations(word)
        if allocation is not None:
            found.setdefault(allocation, []).append((at, word - allocation[0]))
            block[at : at + WORD] = bytes(WORD)
    buffers = tuple(Buffer(end - begin, tuple(pointers)) for (begin, end), pointers in found.items())
    return Probe(name, launch.grid, launch.block, launch.shared_bytes, block.hex(), buffers)


def reason_against(launch: TracedLaunch, probe: Probe, memory_bytes: int) -> str:
    """Why it cannot be made again; "" when it can."""
    if not launch.is_complete:
        return NO_PARAMETERS
    if launch.has_attributes:
        return ATTRIBUTES
    return TOO_LARGE if probe.total_bytes > memory_bytes else ""


def made(probe: Probe, image: bytes, environment: Mapping[str, str], seconds: float) -> Experiment | str:
    """Makes the probe in a new process with this environment; or why it says nothing."""
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "image"
        file.write_bytes(image)
        request = json.dumps({**asdict(probe), "image": str(file)})
        command = [sys.executable, "-P", "-m", "controlplane.analysis.probe_runner"]
        try:
            done = subprocess.run(
                command,
                input=request + "\n",
                env={**environment, "TESSERA_LOG": "error", "TESSERA_LOG_FILE": "/dev/null"},
                timeout=seconds,
                text=True,
                capture_output=True,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return TOO_LONG
    return _answer(done.stdout) if done.returncode == 0 else f"its process ended with code {done.returncode}"


def _answer(text: str) -> Experiment | str:
    answer = json.loads(text)
    return experiment_of(answer["experiment"]) if "experiment" in answer else f"it fails: {answer['problem']}"


def experiment_of(value: Mapping[str, object]) -> Experiment:
    """Of its JSON."""
    buffers = value["buffers"]
    assert isinstance(buffers, list)
    seen = [Seen(**{**each, "written": [(first, last) for first, last in each["written"]]}) for each in buffers]
    runs, failed = value["runs"], value["failed"]
    assert isinstance(runs, int)
    assert isinstance(failed, int)
    return Experiment(seen, runs, failed, bool(value["is_stable"]))
