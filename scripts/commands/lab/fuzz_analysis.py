"""Gives damaged PTX, fat binaries and cubins to the analysis; reports what it does wrong.

    scripts/lab fuzz-analysis [--minutes N] [--jobs N] [--seed N] [--corpus DIR|FILE] [--findings DIR]

N processes at a time (1) look at inputs, for so many minutes. Every input must give ranges, an `unknown`, or a PtxError
with line and column (a ValueError for what is no image at all), within SECONDS of the CPU's time and MEMORY. Inputs are
made from those in tests/corpus and, with --corpus, from what `scripts/lab corpus` made, or packed. Each finding is
written to the directory, with the error in a file beside it; at the end, how inputs ended, and the slowest. Exit status
1 with any finding.
"""

from __future__ import annotations

import mmap
import os
import resource
import signal
import struct
import tempfile
import traceback
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from time import monotonic, process_time

from scripts.commands.dispatch import parser_of
from tests.fuzz.analysis_inputs import Inputs
from tests.fuzz.analysis_target import check
from tests.instruments.pack import unpacked

ROOT = Path(__file__).resolve().parents[3]
SECONDS = 10
MEMORY = 2 << 30  # bytes of address space beyond what the program begins with
TOGETHER = 20  # inputs of one process
ENDS = ("refused", "damaged", "analysed")
REPORT_S = 30.0
# How many inputs are done, how they ended, seconds and number of the slowest; an error follows.
_STATE = struct.Struct("<4qdq")


@dataclass(slots=True)
class Told:
    """What came of inputs. `slowest`: seconds of the CPU's time, and the input's number."""

    how: Counter[str] = field(default_factory=Counter)
    slowest: tuple[float, int] = (0.0, -1)
    seconds: float = 0.0

    def add(self, other: Told) -> None:
        self.how += other.how
        self.slowest = max(self.slowest, other.slowest)
        self.seconds += other.seconds

    def __str__(self) -> str:
        seconds, number = self.slowest
        hours = self.seconds / 3600
        return f"{self.how.total()} inputs, {hours:.2f} hours: {dict(self.how)}, slowest {number} with {seconds:.1f} s"


def main(words: Sequence[str]) -> int:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("--minutes", type=float, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--findings", type=Path, default=Path("findings"))
    options = parser.parse_args(words)
    files = [*ROOT.glob("tests/corpus/ptx/*.ptx"), *ROOT.glob("tests/corpus/image/*.*in")]
    with tempfile.TemporaryDirectory() as directory:
        if options.corpus:
            files += sorted(unpacked(options.corpus, Path(directory)).glob("*/*.ptx"))[::10]
        inputs = Inputs(files, options.seed)
    told, reported = Told(), monotonic()
    with ProcessPoolExecutor(options.jobs) as pool:
        end = reported + 60 * options.minutes
        following = count()
        pending: set[Future[Told]] = set()
        while pending or monotonic() < end:
            while len(pending) < options.jobs and monotonic() < end:
                pending.add(pool.submit(run, inputs, next(following) * TOGETHER, options.findings))
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            for each in done:
                told.add(each.result())
            if monotonic() - reported > REPORT_S:
                reported = monotonic()
                print(told, flush=True)
    print(told)
    return 1 if told.how["wrong"] else 0


def run(inputs: Inputs, first: int, findings: Path) -> Told:
    """Looks at TOGETHER inputs in processes of their own, each up to the first that ends it."""
    told, end = Told(), first + TOGETHER
    while first < end:
        shared = mmap.mmap(-1, 4096)
        child = os.fork()
        if child == 0:
            try:
                work(inputs, first, end - first, shared)
            finally:
                os._exit(0)
        _, status, usage = os.wait4(child, 0)
        told.seconds += usage.ru_utime + usage.ru_stime
        done, *counts, slowest, number = _STATE.unpack_from(shared)
        told.add(Told(Counter(dict(zip(ENDS, counts, strict=True))), (slowest, number)))
        first += done
        if first < end:
            error = shared[_STATE.size :].rstrip(b"\0").decode()
            keep(inputs, first, error or f"ended by {signal.Signals(os.WTERMSIG(status)).name}", findings)
            told.how["wrong"] += 1
            first += 1
    return told


def keep(inputs: Inputs, number: int, error: str, findings: Path) -> None:
    findings.mkdir(parents=True, exist_ok=True)
    (findings / f"{number}.input").write_bytes(inputs.make(number))
    (findings / f"{number}.error").write_text(error)
    print(f"input {number}: {error.strip().splitlines()[-1]}", flush=True)


def work(inputs: Inputs, first: int, together: int, shared: mmap.mmap) -> None:
    """Of a child: its timer kills it, its memory is bounded."""
    size = int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
    how: Counter[str] = Counter()
    slowest = (0.0, -1)
    for done in range(together):
        data = inputs.make(first + done)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        begin = process_time()
        try:
            how[check(data)] += 1
        except BaseException:
            text = traceback.format_exc().encode()[-3000:]
            shared[_STATE.size : _STATE.size + len(text)] = text
            return
        slowest = max(slowest, (process_time() - begin, first + done))
        _STATE.pack_into(shared, 0, done + 1, *(how[name] for name in ENDS), *slowest)
