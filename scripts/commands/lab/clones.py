"""Whether clones of kernels do what the kernels do, test every access, and what that costs.

    scripts/lab clones [--emulate SPEC] [--random N] [--time] [--json FILE] CORPUS

CORPUS: a directory that `scripts/lab corpus` made (what is not there of it is left out), or one file that it was packed
into. Launches the kernels of tests/instruments/affine.py with the sizes that they are made for, each and its clone from
the same bytes, with the ranges that are predicted and with none. With --random, every kernel of the corpus N times
with random sizes, which takes an emulated GPU, as some never end; other bytes are only counted then, as kernels read
shared memory that they never wrote when a block has another size than they are made for. With --time, larger launches
are timed: a clone's time on the GPU as a multiple of its kernel's. Exit status 1 when a clone leaves other bytes,
touches what is not predicted, is refused although its kernel is not, or does not see accesses outside when nothing is
predicted.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from scripts.commands.dispatch import parser_of
from tests.command import with_project
from tests.instruments.affine import CASES, Case, P, array
from tests.instruments.clones import Clones, Seen
from tests.instruments.pack import unpacked
from tests.instruments.plan import kernels

ROOT = Path(__file__).resolve().parents[3]
LAUNCHER = ROOT / "tests" / "instruments" / "clone_launcher.py"
REPEATS = 20
TIMEOUT_S = 3000
STALL_S = 20.0  # of the processor's time
MILLION = 1 << 20
SQUARE = array(4, 1024, 1024)
LARGE = (
    Case("project/vector_add", "add", [((32768,), (256,), (P, P, P, 8 * MILLION))]),
    Case("project/transpose", "transpose_tiled", [((128, 128), (32, 8), (P, P, 4096, 4096))]),
    Case("project/softmax", "softmax", [((4096,), (128,), (P, P, 4096))]),
    Case("project/layer_norm", "layer_norm", [((4096,), (256,), (P, P, P, P, 4096))]),
    Case("project/gemm_tiled", "gemm", [((64, 64), (16, 16), (P, P, P, 1024, 1024, 1024))]),
    Case("project/gemm_mma_sync", "gemm", [((16, 32), (128,), (P, P, P, 1024, 1024))]),
    Case("triton/add.fp32x1024", "add", [((8192,), (128,), (P, P, P, 8 * MILLION))]),
    Case("triton/softmax.fp16x512", "softmax", [((65536,), (128,), (P, P, 512))]),
    Case("triton/matmul.fp16x64", "matmul", [((16, 16), (128,), (P, P, P, 1024, 1024, 1024))]),
    Case("triton/attention.fp16x64", "attention", [((16, 16), (128,), (P, P, P, P, 1024, 0.5))], shared=49152),
    Case("numba/matmul.f32", "matmul", [((64, 64), (16, 16), (*SQUARE, *SQUARE, *SQUARE))]),
)


def listed(cases: tuple[Case, ...], corpus: Path) -> Iterator[str]:
    for case in cases:
        try:
            yield from case.jobs(corpus)
        except LookupError as problem:
            print(problem, file=sys.stderr)


def drawn(corpus: Path, count: int) -> Iterator[str]:
    chance = random.Random(count)
    for text in sorted(corpus.glob("*/*.ptx")):
        for kernel in kernels(text):
            for _ in range(count):
                yield kernel.job(chance)


def launched(jobs: list[str], directory: Path, emulate: str | None) -> list[dict[str, Any]]:
    """The launcher's results. What it ended at is one of them, and it begins again behind that."""
    found = results_of(jobs, directory, emulate)
    while len(found) < len(jobs):
        found.append({"end": "too long"})
        found += results_of(jobs[len(found) :], directory, emulate) if len(found) < len(jobs) else []
    return found


def results_of(jobs: list[str], directory: Path, emulate: str | None) -> list[dict[str, Any]]:
    file, results = directory / "jobs", directory / "results"
    file.write_text("".join(f"{job}\n" for job in jobs))
    results.write_text("")
    where = ["--emulate", emulate, "--no-summary"] if emulate else ["--no-summary"]
    front = [sys.executable, "-m", "controlplane.commands.run", *where, "--"]
    command = [*front, sys.executable, str(LAUNCHER), str(file), str(results), str(STALL_S)]
    environment = with_project()
    done = subprocess.run(command, env=environment, timeout=TIMEOUT_S, check=False, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        print(f"the launcher ended with code {done.returncode} {done.stderr[-500:]}", file=sys.stderr)
    return [json.loads(line) for line in results.read_text().splitlines()]


def name_of(job: str, corpus: Path) -> str:
    told = json.loads(job)
    return f"{Path(told['text']).relative_to(corpus)} {told['function']}"


def compared(
    jobs: list[str], results: list[dict[str, Any]], corpus: Path, *, blind: bool, at_random: bool
) -> Counter[str]:
    """How launches ended, by a word; `wrong` ones are printed."""
    ends: Counter[str] = Counter()
    for job, result in zip(jobs, results, strict=True):
        ends[result["end"]] += 1
        problem = result.get("why", "") if result["end"] == "refused clone" else ""
        if result["end"] == "right":
            seen = Seen.read(result["head"])
            ends["tested"] += seen.tested
            ends["other bytes"] += not result["same"]
            if not result["same"] and not at_random:
                problem = "left other bytes"
            elif not blind and seen.outside:
                problem = f"{seen.outside} of {seen.tested} accesses are outside, one in line {seen.line} ({seen.kind})"
            elif blind and seen.tested and not seen.outside:
                problem = f"{seen.tested} accesses were tested, and none was outside of nothing"
        if problem:
            ends["wrong"] += 1
            print(f"WRONG {name_of(job, corpus)}: {problem}")
    return ends


def timed(jobs: list[str], results: list[dict[str, Any]], corpus: Path) -> dict[str, float]:
    """A clone's time as a multiple of its kernel's."""
    found = {}
    for job, result in zip(jobs, results, strict=True):
        if "ns" in result:
            found[name_of(job, corpus)] = result["clone_ns"] / result["ns"]
            times = f"{result['ns'] / 1e3:>10.1f} us {result['clone_ns'] / 1e3:>10.1f} us"
            print(f"{name_of(job, corpus)[:70]:70} {times} {found[name_of(job, corpus)]:>8.1f}")
    return found


def main(words: Sequence[str]) -> int:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("corpus", type=Path, metavar="CORPUS")
    parser.add_argument("--emulate", metavar="SPEC")
    parser.add_argument("--random", type=int, default=0, metavar="N")
    parser.add_argument("--time", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(words)
    if options.random and not options.emulate:
        parser.error("--random is for emulated GPUs: --emulate 1")
    os.environ.setdefault("TESSERA_WORKERS", "1")
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        corpus = unpacked(options.corpus.resolve(), directory)
        clones = Clones(directory)
        lines = list(drawn(corpus, options.random) if options.random else listed(CASES, corpus))
        report: dict[str, Any] = {"launches": len(lines)}
        for blind in (False, True):
            jobs = [job for line in lines if (job := clones.job(line, blind=blind))]
            ends = compared(
                jobs, launched(jobs, directory, options.emulate), corpus, blind=blind, at_random=bool(options.random)
            )
            report["with nothing predicted" if blind else "with what is predicted"] = dict(ends)
        if options.time:
            jobs = [job for line in listed(LARGE, corpus) if (job := clones.job(line, repeats=REPEATS))]
            ratios = timed(jobs, launched(jobs, directory, options.emulate), corpus)
            report |= {"times": ratios, "median": statistics.median(ratios.values()) if ratios else None}
    print(json.dumps(report, indent=1))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    return int(any(report[name].get("wrong") for name in report if name.startswith("with ")))
