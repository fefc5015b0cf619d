"""Random programs over streams under a policy on three emulated GPUs, against an interpreter.

    scripts/lab stream-model [SEED [PROGRAMS [PLACE [JOBS]]]]

PROGRAMS (10,000) from seed SEED (1) on, JOBS (1) processes at a time. A program that differs from the interpreter is
made small and saved in tests/corpus/streams. PLACE is where memory lies (docs/policies.md); by default it moves
whenever it can. The last line is the sum. Needs a build tree with tests (build/native, or the one that TESSERA_NATIVE
names). Exit status 1 when a program differs, or not all ran.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from scripts.commands.dispatch import parser_of
from tests.command import with_project

ROOT = Path(__file__).resolve().parents[3]
MOVING = "follow, move_after: 0"
POLICY = """version: 1
devices: {{home: 0, executors: [1, 2]}}
memory: {{place: {place}}}
rules:
  - {{match: {{function: k_one}}, device: 1}}
  - {{match: {{function: k_two}}, device: 2}}
default: home
"""
SUM = re.compile(r"^(\d+) programs, (\d+) differ$", re.MULTILINE)


def parts(seed: int, programs: int, jobs: int) -> Iterator[tuple[int, int]]:
    """First seed and number of programs of each process."""
    each = -(-programs // jobs)
    for begin in range(0, programs, each):
        yield seed + begin, min(each, programs - begin)


def run(native: Path, policy: Path, part: tuple[int, int]) -> str:
    """What a process says."""
    front = [
        sys.executable,
        "-m",
        "controlplane.commands.run",
        "--emulate",
        "3",
        "--no-summary",
        "--policy",
        str(policy),
    ]
    program = [str(native.parent / "model" / "stream_model"), "--seed", str(part[0]), "--programs", str(part[1])]
    command = [*front, "--", *program, "--save", str(ROOT / "tests" / "corpus" / "streams")]
    environment = with_project(TESSERA_NATIVE=str(native))
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, text=True, check=False
    ).stdout


def main(words: Sequence[str]) -> int:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("seed", nargs="?", type=int, default=1, metavar="SEED")
    parser.add_argument("programs", nargs="?", type=int, default=10_000, metavar="PROGRAMS")
    parser.add_argument("place", nargs="?", default=MOVING, metavar="PLACE")
    parser.add_argument("jobs", nargs="?", type=int, default=1, metavar="JOBS")
    options = parser.parse_args(words)
    if options.programs < 1 or options.jobs < 1:
        parser.error("at least one program and one job")
    native = Path(os.environ.get("TESSERA_NATIVE", ROOT / "build" / "native" / "native")).absolute()
    ran = differ = 0
    with tempfile.TemporaryDirectory() as directory, ThreadPoolExecutor(options.jobs) as pool:
        policy = Path(directory) / "policy.yaml"
        policy.write_text(POLICY.format(place=options.place))
        wanted = parts(options.seed, options.programs, options.jobs)
        for said in pool.map(lambda part: run(native, policy, part), wanted):
            sums = [(int(programs), int(others)) for programs, others in SUM.findall(said)]
            ran += sum(programs for programs, _ in sums)
            differ += sum(others for _, others in sums)
            if more := [line for line in said.splitlines() if not re.fullmatch(r"\d+ programs, 0 differ", line)]:
                print(*more, sep="\n", flush=True)
    print(f"{ran} of {options.programs} programs ran, {differ} differ")
    return 1 if ran != options.programs or differ else 0
