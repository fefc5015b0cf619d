"""Which lines of memory one thread's redirected launch writes and another's touches: what keeps threads from scaling.

    scripts/lab shared-lines [--stream free|blocking]

Two threads, each with a stream and memory of its own, launch on another (emulated) GPU; gdb steps through a launch of
each and tells all accesses. Says for each line of memory that both touch, and one of them writes, who does. The word
that a sleeping executor waits for does not count: only who wakes it writes there. Needs gdb, a C compiler, and a native
build. Exit status 1 if a line is shared.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ptxtools import native
from scripts.bench.launch_overhead import cuda_include
from scripts.commands.dispatch import parser_of
from tests.command import with_project

STEPPED = Path(__file__).resolve().parents[3] / "tests" / "instruments" / "stepped"
POLICY = """version: 1
devices: {home: 0, executors: [1]}
memory: {place: follow}
rules:
  - {match: {function: k_away}, device: 1}
"""
LINE_BYTES = 64
SLEEPING = 0x1FFFF0000000 + 128  # in struct tsr_lane


@dataclass(frozen=True, slots=True)
class Access:
    thread: int
    written: bool
    address: int
    function: str
    instruction: str

    @property
    def line(self) -> int:
        return self.address // LINE_BYTES


def shared(accesses: Iterable[Access]) -> dict[int, list[Access]]:
    """By line: accesses to lines that both threads touch and one of them writes."""
    by_line: dict[int, list[Access]] = {}
    for access in accesses:
        by_line.setdefault(access.line, []).append(access)
    return {
        line: found
        for line, found in sorted(by_line.items())
        if len({access.thread for access in found}) > 1 and any(access.written for access in found)
    }


def step(place: Path, stream: str) -> list[Access]:
    program, policy, told = place / "launches", place / "policy.yaml", place / "accesses"
    policy.write_text(POLICY)
    driver = native.file("emulator/libcuda.so.1")
    command = [os.environ.get("CC", "cc"), "-O1", "-pthread", "-isystem", cuda_include()]
    subprocess.run([*command, str(STEPPED / "launches.c"), str(driver), "-o", str(program)], check=True)
    runner = [
        sys.executable,
        "-m",
        "controlplane.commands.run",
        "--no-summary",
        "--emulate",
        "2",
        "--policy",
        str(policy),
    ]
    debugger = ["gdb", "-batch", "-nx", "-x", str(STEPPED / "accesses.py"), "--args", str(program), stream]
    subprocess.run(
        [*runner, "--", *debugger],
        env=with_project(TESSERA_ACCESSES=str(told), LD_BIND_NOW="1"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=300,
        check=True,
    )
    return [Access(*json.loads(line)) for line in told.read_text().splitlines()]


def main(words: Sequence[str]) -> int:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("--stream", choices=("free", "blocking"), default="free")
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as place:
        accesses = step(Path(place), options.stream)
    found = shared(access for access in accesses if access.line != SLEEPING // LINE_BYTES)
    for line, touched in found.items():
        print(f"{line * LINE_BYTES:#x}:")
        for access in dict.fromkeys(touched):
            verb = "writes" if access.written else "reads"
            print(f"  thread {access.thread} {verb} {access.address:#x} in {access.function}: {access.instruction}")
    written = [len({a.line for a in accesses if a.written and a.thread == thread}) for thread in (0, 1)]
    print(f"lines written by a launch: {written[0]} and {written[1]}; shared: {len(found)}")
    return 1 if found else 0
