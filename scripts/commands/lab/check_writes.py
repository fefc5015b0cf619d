"""Whether real models write what is predicted: runs tests/frameworks/zoo.py on this machine's GPUs with --check-writes.

    scripts/lab check-writes [--launches N] [--steps S] [--jobs J] [--out DIR] [--json FILE] [MODEL...]
    scripts/lab check-writes [--emulate SPEC] [--launches N] [--json FILE] -- program [argument ...]
    scripts/lab check-writes --control [--emulate SPEC]
    scripts/lab check-writes --dry-run

Each model runs once with a trace, so that its kernels are analysed and its launches counted, then with N of its
launches (200) or more, drawn as if at random from all of the run, and the first one of each kernel, checked; again
with other draws, at most three times, while they are fewer. DIR gets the reports and logs. Exit status 1 when a launch
changed bytes that it was not predicted to write, when fewer launches could be checked, or when a run failed. A program
of your own takes the place of the models behind --. --control runs a kernel whose template was made wrong, which must
be caught. --dry-run, without a GPU, says what would run and which packages are missing.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controlplane.run.unchecked import EXIT_CODE
from scripts.commands.dispatch import parser_of
from tests.command import with_project

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "tests" / "frameworks" / "zoo.py"
WRITER = ROOT / "tests" / "check" / "writer.py"
MODELS = ("llama-prefill", "llama-decode", "mixtral", "mamba2", "resnet50", "whisper", "diffusion")
STEPS = {"llama-decode": 64}
PACKAGES = ("torch", "transformers")
RUNS = 3
MARGIN = 1.3  # so many more launches are drawn than wanted, as the first ones come before their templates
TIMEOUT_S = 900
COUNTS = ("checked", "first", "known", "unknown", "idle", "whole", "outside", "changed_bytes", "predicted_bytes")


@dataclass
class Found:
    """Sums over the runs of one model; `functions`: kernels that the trace has; problem: why there is no more."""

    launches: int = 0
    functions: int = 0
    runs: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    by_source: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)
    violations: list[dict[str, Any]] = field(default_factory=list)
    check_ns: int = 0
    problem: str = ""

    @property
    def drawn(self) -> int:
        return self.counts["checked"] - self.counts["first"]

    def to_json(self) -> dict[str, Any]:
        plain = {
            name: getattr(self, name) for name in ("launches", "functions", "runs", "drawn", "check_ns", "problem")
        }
        sums = {"by_source": dict(self.by_source), "skipped": dict(self.skipped), "violations": self.violations}
        return {**plain, **self.counts, **sums}

    def add(self, check: dict[str, Any]) -> None:
        self.runs += 1
        self.counts.update({name: int(check[name]) for name in COUNTS})
        self.by_source.update(check["by_source"])
        self.skipped.update(check["skipped"])
        self.violations += check["told"]
        self.check_ns += int(check["check_ns"])


@dataclass(frozen=True, slots=True)
class Job:
    """What runs: its name, its command, where its files go, the GPU's number or what is emulated."""

    name: str
    command: list[str]
    place: Path
    gpu: int | None
    emulate: str | None = None

    def run(self, options: list[str], label: str, said: str = "", *, may_check_nothing: bool = False) -> str:
        """What went wrong; nothing if the text is empty."""
        emulated = ["--emulate", self.emulate] if self.emulate else []
        front = [sys.executable, "-m", "controlplane.commands.run", *emulated, *options, "--"]
        log = self.place / f"{self.name}-{label}.log"
        with log.open("w") as stream:
            try:
                code = subprocess.run(
                    [*front, *self.command],
                    input=said.encode(),
                    env=self._environment(),
                    stdout=stream,
                    stderr=stream,
                    timeout=TIMEOUT_S,
                ).returncode
            except subprocess.TimeoutExpired:
                return f"took longer than {TIMEOUT_S} s, see {log}"
        right = (0, EXIT_CODE) if may_check_nothing else (0,)
        return "" if code in right else f"ended with code {code}, see {log}"

    def _environment(self) -> dict[str, str]:
        return with_project() if self.gpu is None else with_project(CUDA_VISIBLE_DEVICES=str(self.gpu))


def analysed(job: Job) -> dict[str, Any] | str:
    """Runs with a trace and analyses all that it has, for the cache: the coverage as JSON, or what went wrong."""
    trace = job.place / f"{job.name}.trace"
    options = ["--no-summary", "--timing", "off", "--analyze", "--trace", str(trace)]
    problem = job.run(options, "trace")
    if problem:
        return problem
    command = [sys.executable, "-c", "import sys; from controlplane.commands.main import main; sys.exit(main())"]
    command += ["analyze", "--trace", str(trace), "--json"]
    done = subprocess.run(command, env=job._environment(), capture_output=True, text=True)  # noqa: SLF001
    trace.unlink()
    if done.returncode:
        return f"analysing its trace failed: {done.stderr.strip()[-300:]}"
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def checked(job: Job, wanted: int) -> Found:
    found = Found()
    coverage = analysed(job)
    if isinstance(coverage, str):
        found.problem = coverage
        return found
    found.launches = coverage["coverage"]["launches"]
    found.functions = len(coverage["functions"])
    every = max(1, int(found.launches / (wanted * MARGIN)))
    for seed in range(1, RUNS + 1):
        report = job.place / f"{job.name}-{seed}.json"
        options = [f"--check-writes={every}", "--check-seed", str(seed), "--json", str(report)]
        found.problem = job.run(options, f"check-{seed}")
        if found.problem:
            return found
        found.add(json.loads(report.read_text())["check"])
        if found.drawn >= wanted:
            return found
        every = max(1, every // 2)
    found.problem = f"only {found.drawn} launches were drawn and checked"
    return found


def show(name: str, found: Found) -> None:
    counts, sources = found.counts, ", ".join(f"{source} {count}" for source, count in found.by_source.items() if count)
    known = counts["known"] / max(1, counts["known"] + counts["unknown"])
    each = found.check_ns / max(1, counts["checked"]) / 1e6
    numbers = f"{found.drawn:>6} {counts['first']:>6} {counts['idle']:>6} {counts['whole']:>6} {counts['outside']:>8}"
    print(f"{name:16} {numbers} {len(found.violations):>6} {100 * known:>7.1f} % {each:>8.1f} ms  {sources}")
    for reason, count in found.skipped.items():
        print(f"    not checked: {count} ({reason})")
    for violation in found.violations:
        print(f"    WRONG {violation['function'][:90]}: {violation['bytes']} bytes, {violation['source']}")
    if found.problem:
        print(f"    {found.problem}")
    sys.stdout.flush()


def controlled(out: Path, emulate: str | None) -> int:
    """Whether a wrong template is caught on this machine."""
    from tests.check import control  # only here: it needs NVIDIA's Python bindings

    kept = out / "control-cache"
    shutil.rmtree(kept, ignore_errors=True)
    os.environ["XDG_CACHE_HOME"] = str(kept)
    job = Job("control", [sys.executable, str(WRITER), "1"], out, None, emulate)
    report = out / "control.json"
    problems = [
        job.run(["--no-summary", option], "analyze", json.dumps([]), may_check_nothing=True)
        for option in control.OPTIONS
    ]
    if any(problems):
        print(f"control: {next(filter(None, problems))}")
    else:
        control.falsify(kept / "tessera" / "analysis")
        for option in control.OPTIONS.values():
            problem = job.run([option, "--json", str(report)], "check", json.dumps(control.LAUNCHES))
            problem = problem or control.verdict(json.loads(report.read_text())["check"])
            problems.append(problem)
            print(f"control: {option}: {problem or 'the wrong template was caught'}")
    return int(any(problems))


def dry_run() -> int:
    for model in MODELS:
        print(f"{model:16} {PROGRAM.name} {model} --steps {STEPS.get(model, 16)}")
    missing = [package for package in PACKAGES if importlib.util.find_spec(package) is None]
    compile(PROGRAM.read_text(), str(PROGRAM), "exec")
    print(f"missing: {', '.join(missing) or 'nothing'}")
    return 0


def gpu_count() -> int:
    done = subprocess.run(["nvidia-smi", "--list-gpus"], text=True, capture_output=True, check=True)
    return len(done.stdout.splitlines())


def jobs_of(arguments: argparse.Namespace, program: list[str]) -> list[Job]:
    if program:
        return [Job(Path(program[0]).name, program, arguments.out, None, arguments.emulate)]
    gpus = gpu_count()
    return [
        Job(
            model,
            [sys.executable, str(PROGRAM), model, "--steps", str(arguments.steps or STEPS.get(model, 16))],
            arguments.out,
            number % gpus,
        )
        for number, model in enumerate(arguments.models or MODELS)
    ]


def main(words: Sequence[str]) -> int:
    own = list(words)
    program = own[own.index("--") + 1 :] if "--" in own else []
    parser = parser_of(__name__, __doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"{', '.join(MODELS)}; all by default")
    parser.add_argument("--launches", type=int, default=200)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--emulate", metavar="SPEC")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "check-writes")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--control", action="store_true")
    parser.add_argument("--dry-run", action="store_true")
    arguments = parser.parse_args(own[: own.index("--")] if "--" in own else own)
    if arguments.dry_run:
        return dry_run()
    if unknown := [model for model in arguments.models if model not in MODELS]:
        parser.error(f"no such model: {', '.join(unknown)}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.control:
        return controlled(arguments.out, arguments.emulate)
    jobs = jobs_of(arguments, program)
    results: dict[str, Found] = {}
    print(f"{'':16}  drawn  first   idle  whole  outside  wrong     known   a check  predicted from")
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for job, found in zip(jobs, pool.map(lambda job: checked(job, arguments.launches), jobs), strict=True):
            results[job.name] = found
            show(job.name, found)
    if arguments.json:
        arguments.json.write_text(
            json.dumps({name: found.to_json() for name, found in results.items()}, indent=1) + "\n"
        )
    return int(any(found.problem or found.violations for found in results.values()))
