"""Runs the programs of tests/frameworks on this machine's GPUs without and with the shim, and compares.

    scripts/hardware frameworks [--seeds N] [--memory PLACE] [--json FILE] [--logs DIR] [--jobs N] [--check] [NAME...]
    scripts/hardware frameworks --policies 20 --memory copies [--first-seed S] ...

Each program prints a digest of its results. It runs twice natively (if digests differ then, nothing is shown), under
`tessera-run`, with --stats and --trace, and, where there are two GPUs, under `--gpus all` (`placed`) and under
policies: `one` sends all launches to GPU 1, `half` every second, `name` by name, `random-SEED` at random. All digests
must be the same; under a policy launches must have run on GPU 1, and under `one` less than 2 % may stay home (captured
ones do not run and do not count). --policies N: only natively and under N policies whose rules are drawn, from the seed
on that --first-seed says; launches must have run on GPU 1 under one of them. Programs in PyTorch run once more with
--stats and with CUPTI counting kernels: the launches that the shim counted, and the kernels in launched graphs, must be
as many. --check only compiles the programs and says whether their packages are here. Exit status 0 when all held.
"""

import importlib.util
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

from controlplane.machine.parts import parts_of
from scripts.commands.dispatch import parser_of
from tests.command import with_project
from tests.e2e.matrix import Placing, placings

ROOT = Path(__file__).resolve().parents[3]
PROGRAMS = ROOT / "tests" / "frameworks"
TIMEOUT_S = 240
MODES = ("native", "again", "through", "recorded", "counted")  # and, with several GPUs, PLACED and policies
PLACED = "placed"
KEPT_SHARE = 0.02
COPIES = "+copies"
DRAWN = "drawn-"  # rules of these may match none of the few launches of a program


@dataclass(frozen=True, slots=True)
class Program:
    """`gpus`: how many it needs, by itself. `counts`: takes --cupti. `sees_all`: it uses all there are."""

    name: str
    file: str
    package: str = "torch"
    gpus: int = 1
    counts: bool = True
    sees_all: bool = False
    variables: dict[str, str] = field(default_factory=dict)

    def modes(self, gpus: int, policies: Sequence[str]) -> list[str]:
        """Policies place what a program does on one GPU."""
        placed = gpus > 1 and self.gpus == 1
        return [*MODES[: None if self.counts else -1], *(policies if placed else ())]


ALLOCATOR = "PYTORCH_CUDA_ALLOC_CONF"
ALL = {
    program.name: program
    for program in (
        Program("torch-eager", "torch_eager.py"),
        Program("torch-expandable", "torch_eager.py", variables={ALLOCATOR: "expandable_segments:True"}),
        Program("torch-malloc-async", "torch_eager.py", variables={ALLOCATOR: "backend:cudaMallocAsync"}),
        Program("torch-graphs", "torch_graphs.py"),
        Program("torch-compile", "torch_compiled.py"),
        Program("torch-threads", "torch_threads.py"),
        Program("torch-children", "torch_loader.py", counts=False),
        Program("torch-nccl-2-processes", "torch_nccl.py", gpus=2, counts=False),
        Program("torch-nccl-1-process", "torch_two_gpus.py", gpus=2),
        Program("triton", "triton_program.py", "triton"),
        Program("cupy", "cupy_program.py", "cupy", counts=False),
        Program("jax", "jax_program.py", "jax", counts=False, sees_all=True),
        Program("numba", "numba_program.py", "numba", counts=False),
    )
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """`launches` and `kernels`: what the shim and CUPTI counted, where they were asked.

    `by_gpu` and `kept`: launches on each GPU and those kept home by reason, under a policy.
    """

    code: int
    seconds: float
    digest: str | None = None
    kernels: int | None = None
    launches: int | None = None
    by_gpu: dict[str, int] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)

    @property
    def away(self) -> int:
        return sum(count for gpu, count in self.by_gpu.items() if gpu != "0")

    @property
    def kept_share(self) -> float:
        """Of all launches that ran, those that the policy could not send away. A captured one does not run."""
        kept = {reason: count for reason, count in self.kept.items() if reason != "capture"}
        return sum(kept.values()) / max(1, sum(self.by_gpu.values()) - self.kept.get("capture", 0))


def is_policy(mode: str) -> bool:
    return mode not in MODES


def gpu_count() -> int:
    done = subprocess.run(["nvidia-smi", "--list-gpus"], text=True, capture_output=True, check=True)
    return len(done.stdout.splitlines())


def launcher(mode: str, place: Path) -> list[str]:
    if mode in ("native", "again"):
        return []
    stats, trace = f"--stats={place / 'stats.json'}", str(place / "trace")
    if mode == PLACED:
        options = ["--gpus", "all", "--json", str(place / "placed.json")]
    elif is_policy(mode):
        options = ["--policy", str(Placing(mode).file(place, 2)), "--json", str(place / "placed.json")]
    else:
        options = {"through": [], "recorded": [stats, "--trace", trace], "counted": [stats]}[mode]
    return [sys.executable, "-m", "controlplane.commands.run", "--no-summary", *options, "--"]


def environment_of(program: Program, mode: str, number: int, gpus: int, caches: Path) -> dict[str, str]:
    environment = with_project(PYTHONUNBUFFERED="1", **program.variables)
    if program.gpus == 1 and not program.sees_all and not is_policy(mode):
        environment["CUDA_VISIBLE_DEVICES"] = str(number % gpus)
    for variable in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "CUPY_CACHE_DIR"):
        environment[variable] = str(caches / variable.lower())
    return environment


def run(program: Program, mode: str, number: int, gpus: int, logs: Path, again: bool = False) -> Outcome:
    place = logs / f"{program.name}-{mode}"
    place.mkdir(parents=True, exist_ok=True)
    stats, placed = place / "stats.json", place / "placed.json"
    command = [*launcher(mode, place), sys.executable, str(PROGRAMS / program.file)]
    command += ["--cupti"] if mode == "counted" else []
    environment = environment_of(program, mode, number, gpus, place / "caches")
    started = time.monotonic()
    with (place / "stdout").open("w+") as out, (place / "stderr").open("w") as err:
        try:
            code = subprocess.run(command, stdout=out, stderr=err, env=environment, timeout=TIMEOUT_S).returncode
        except subprocess.TimeoutExpired:
            code = -1
        out.seek(0)
        said = out.read()
    seconds = round(time.monotonic() - started, 1)
    answer = re.findall(r'^\{"digest".*\}$', said, re.MULTILINE)
    if code != 0 or not answer:
        return Outcome(code or 1, seconds)
    found = json.loads(answer[-1])
    launches = launches_in(stats) if stats.exists() else None
    outcome = Outcome(0, seconds, found["digest"], found.get("kernels"), launches, *placement_in(placed))
    if COPIES in mode and outcome.away == 0 and not again:  # it ended before its code was analysed
        return run(program, mode, number, gpus, logs, again=True)
    return outcome


def placement_in(report: Path) -> tuple[dict[str, int], dict[str, int]]:
    """Launches by GPU, and those kept home by reason."""
    if not report.exists():
        return {}, {}
    found = json.loads(report.read_text())
    return found["launches"]["by_device"], found["kept_home_by_reason"]


def launches_in(stats: Path) -> int:
    """What ran on the GPU because of launches: single ones, and the kernels of launched graphs."""
    found = json.loads(stats.read_text())
    return int(found["launches"]["total"]) + int(found["graphs"]["kernels"])


def verdict(outcomes: dict[str, Outcome]) -> list[str]:
    """What is wrong; nothing if the list is empty."""
    wrong = [f"{mode}: exit code {outcome.code}" for mode, outcome in outcomes.items() if outcome.code]
    digests = {mode: outcome.digest for mode, outcome in outcomes.items() if outcome.code == 0}
    native = digests.get("native")
    if digests.get("again", native) != native:
        wrong.append("two native runs differ")
    compared = [mode for mode in digests if mode not in ("native", "again", "counted")]
    wrong += [f"{mode}: other results" for mode in compared if native not in (None, digests[mode])]
    held = {mode: outcome for mode, outcome in outcomes.items() if is_policy(mode) and outcome.code == 0}
    unmoved = {mode: outcome.away == 0 for mode, outcome in held.items() if mode != PLACED}
    if not all(unmoved[mode] for mode in unmoved if mode.startswith(DRAWN)):
        unmoved = {mode: none for mode, none in unmoved.items() if not mode.startswith(DRAWN)}
    wrong += [f"{mode}: no launch ran on GPU 1" for mode, none in unmoved.items() if none]
    if "one" in held and held["one"].kept_share >= KEPT_SHARE:
        wrong.append(f"one: {held['one'].kept_share:.1%} of the launches stayed home: {held['one'].kept}")
    counted = outcomes.get("counted")
    if counted is not None and counted.code == 0 and (not counted.kernels or counted.kernels != counted.launches):
        wrong.append(f"CUPTI saw {counted.kernels} kernels, the shim {counted.launches} launches")
    return wrong


def check(names: list[str]) -> int:
    """Without GPUs: every program is valid Python."""
    for name in names:
        file = PROGRAMS / ALL[name].file
        compile(file.read_text(), str(file), "exec")
        here = importlib.util.find_spec(ALL[name].package) is not None
        print(f"{name:24} {file.name:22} {ALL[name].package} is {'here' if here else 'missing'}")
    return 0


def show(program: Program, outcomes: dict[str, Outcome], wrong: list[str], logs: Path) -> None:
    counted = outcomes.get("counted")
    counts = "" if counted is None else f"kernels {counted.kernels}, launches {counted.launches}"
    seconds = " ".join(f"{outcome.seconds:5.1f}" for outcome in outcomes.values())
    print(f"{'FAIL' if wrong else 'ok':5} {program.name:24} {seconds:30} {counts}", flush=True)
    for mode, outcome in outcomes.items():
        if outcome.by_gpu:
            print(
                f"      {mode:10} launches by GPU {outcome.by_gpu}, kept home {outcome.kept_share:.2%} {outcome.kept}"
            )
    for line in wrong:
        print(f"      {line}")
        log = logs / f"{program.name}-{line.partition(':')[0]}" / "stderr"
        if "exit code" in line and log.exists():
            print(*[f"        {said}" for said in log.read_text(errors="replace").splitlines()[-12:]], sep="\n")


def main(words: Sequence[str]) -> int:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--logs", type=Path, default=ROOT / "build" / "frameworks")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) // 3))
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--modes", help="comma-separated; for looking into one")
    parser.add_argument("--memory", help="where memory lies under the policies, as in their `memory: place`")
    parser.add_argument("--seeds", type=int, default=2, help="policies that draw launches at random")
    parser.add_argument("--policies", type=int, metavar="N", help="only N policies whose rules are drawn, and natively")
    parser.add_argument("--first-seed", type=int, default=1, help="of --policies")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(ALL)}; all by default")
    arguments = parser.parse_args(words)
    names = arguments.names or list(ALL)
    if unknown := [name for name in names if name not in ALL]:
        parser.error(f"no such program: {', '.join(unknown)}")
    if arguments.check:
        return check(names)
    gpus, parts = gpu_count(), parts_of(os.environ)
    wanted = [ALL[name] for name in names if ALL[name].gpus <= gpus]
    for name in (name for name in names if ALL[name].gpus > gpus):
        print(f"not run: {name} needs {ALL[name].gpus} GPUs, there are {gpus}")
    place = f"+{arguments.memory}" if arguments.memory else ""
    named = [placing.name for placing in placings(arguments.seeds)]
    if arguments.policies:
        named = [f"{DRAWN}{arguments.first_seed + number}" for number in range(arguments.policies)]
    policies = [PLACED, *(f"{name}{place}" for name in named)]
    modes = arguments.modes.split(",") if arguments.modes else [*MODES, *policies]
    if arguments.policies and not arguments.modes:
        modes = ["native", "again", *policies]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        pending = {
            program.name: {
                mode: pool.submit(run, program, mode, number, gpus, arguments.logs)
                for mode in program.modes(gpus * parts, policies)
                if mode in modes
            }
            for number, program in enumerate(wanted)
        }
        results: dict[str, dict[str, Outcome]] = {}
        findings: dict[str, list[str]] = {}
        for program in wanted:
            outcomes = {mode: job.result() for mode, job in pending[program.name].items()}
            results[program.name], findings[program.name] = outcomes, verdict(outcomes)
            show(program, outcomes, findings[program.name], arguments.logs)
    if arguments.json:
        report = {
            name: {"findings": findings[name], "runs": {mode: asdict(outcome) for mode, outcome in outcomes.items()}}
            for name, outcomes in results.items()
        }
        arguments.json.write_text(json.dumps({"gpus": gpus, "programs": report}, indent=1) + "\n")
    passed = sum(not wrong for wrong in findings.values())
    print(f"{passed} of {len(wanted)} programs hold on {gpus} GPUs")
    return 0 if passed == len(names) else 1
