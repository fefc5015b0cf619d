#!/usr/bin/env python3
"""A Llama prefill loop wholly on another GPU against the same on its own: requests per second, and time per launch.

    scripts/bench/prefill.py [--gpu N] [--rounds N] [--requests N] [--driver FILE] [--json FILE] [--worker COMMAND]

Three processes are alive at once and serve a batch of requests each in turn, so that drift cancels: native; all
launches on GPU N with the program's memory left on the home GPU; the same with memory where the launches are. Then what
a launch costs the calling thread, natively and redirected, in bursts of empty kernels. Intervals are bootstraps, 95 %.
Needs two GPUs, PyTorch and a C compiler; --worker replaces the PyTorch program (turns.py) by another that speaks like
it.
"""

import argparse
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))

from controlplane.run.shim import system_driver  # noqa: E402
from scripts.bench.launch_overhead import Interval, Worker, bootstrap, cuda_include, environment, pick  # noqa: E402

POLICY = """version: 1
devices: {{home: 0, executors: [{gpu}]}}
memory: {{place: {place}}}
rules:
  - match: {{function: "{function}"}}
    device: {gpu}
"""
PLACES = ("home", "follow")
WANTED_RATIO = 0.95
LINE = re.compile(r"^(\w+): median (\d+) ns, least (\d+) ns per launch$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Mode:
    """One way to run the program: the command in front of it, and where tessera-run writes its report."""

    front: tuple[str, ...] = ()
    report: Path | None = None


def mode(gpu: int, place: str, function: str, directory: Path) -> Mode:
    """All launches of the functions on the GPU, the program's memory as `place` says."""
    name = f"{place}-{'all' if function == '*' else function}"
    policy, report = directory / f"{name}.yaml", directory / f"{name}.json"
    policy.write_text(POLICY.format(gpu=gpu, place=place, function=function))
    options = ("--no-summary", "--policy", str(policy), "--json", str(report))
    return Mode((sys.executable, "-m", "controlplane.commands.run", *options, "--"), report)


def batches(modes: Mapping[str, Mode], program: Sequence[str], driver: Path, rounds: int) -> dict[str, list[float]]:
    """Seconds of each batch, by mode."""
    workers = {name: Worker(name, one.front, program, driver) for name, one in modes.items()}
    taken: dict[str, list[float]] = {name: [] for name in workers}
    try:
        for worker in workers.values():
            worker.ready()
        for number in range(rounds):
            for name in sorted(workers, reverse=bool(number % 2)):
                taken[name].append(workers[name].turn())
    finally:
        for worker in workers.values():
            worker.end()
    return taken


def throughput_ratio(ours: Sequence[float], native: Sequence[float]) -> Interval:
    """Requests per second against native ones, from batches of equal size."""
    return bootstrap(lambda source: statistics.median(pick(native, source)) / statistics.median(pick(ours, source)))


def launch_times(text: str) -> dict[str, int]:
    """Median ns per launch by kernel, of redirected_launch.c's output; the first line of each kernel counts."""
    found: dict[str, int] = {}
    for name, median, _ in LINE.findall(text):
        found.setdefault(name, int(median))
    return found


def compile_launches(directory: Path, driver: Path) -> Path:
    program = directory / "redirected_launch"
    command = [os.environ.get("CC", "cc"), "-O2", "-isystem", cuda_include(), str(HERE / "redirected_launch.c")]
    subprocess.run([*command, "-o", str(program), str(driver)], check=True)
    return program


def launches(mode: Mode, program: Path, driver: Path) -> dict[str, int]:
    variables = environment(driver) if mode.front else dict(os.environ)
    done = subprocess.run([*mode.front, str(program)], env=variables, text=True, stdout=subprocess.PIPE, check=True)
    return launch_times(done.stdout)


@dataclass(frozen=True, slots=True)
class Result:
    """requests_per_s: medians; ratio: against native; reports: what tessera-run says of launches and memory."""

    gpu: int
    batches_s: dict[str, list[float]]
    requests_per_s: dict[str, float]
    ratio: dict[str, Interval]
    launch_ns: dict[str, int]
    reports: dict[str, dict[str, object]] = field(default_factory=dict)

    @property
    def reached(self) -> bool:
        """What is aimed at: 95 % of native throughput, and a redirected launch that costs less than a native one."""
        return self.ratio["follow"].value >= WANTED_RATIO and self.launch_ns["redirected"] < self.launch_ns["native"]


def told(report: Path) -> dict[str, object]:
    counted = json.loads(report.read_text())
    return {key: counted[key] for key in ("launches", "kept_home_by_reason", "placement")}


def to_text(result: Result) -> str:
    lines = [f"{'':8} requests/s   of native"]
    for name, rate in result.requests_per_s.items():
        share = result.ratio[name].text("") if name in result.ratio else ""
        lines.append(f"{name:8} {rate:10.2f}   {share}".rstrip())
    lines += [f"launch, {name}: {ns} ns of the calling thread" for name, ns in result.launch_ns.items()]
    for name, counted in result.reports.items():
        lines.append(f"{name}: {json.dumps(counted)}")
    lines.append("reached" if result.reached else "not reached")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", type=int, default=1, help="where the launches run")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--requests", type=int, default=10, help="of a batch")
    parser.add_argument("--driver", type=Path, help="the driver's file, if it is not the system's")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--worker", help="instead of turns.py prefill REQUESTS")
    arguments = parser.parse_args()
    driver = arguments.driver or system_driver()
    program = [sys.executable, str(HERE / "turns.py"), "prefill", str(arguments.requests)]
    if arguments.worker:
        program = shlex.split(arguments.worker)
    with tempfile.TemporaryDirectory() as place:
        directory = Path(place)
        modes = {name: mode(arguments.gpu, name, "*", directory) for name in PLACES}
        taken = batches({"native": Mode(), **modes}, program, driver, arguments.rounds)
        host = compile_launches(directory, driver)
        native = launches(Mode(), host, driver)
        redirected = launches(mode(arguments.gpu, "follow", "k_away", directory), host, driver)
        result = Result(
            arguments.gpu,
            taken,
            {name: arguments.requests / statistics.median(seconds) for name, seconds in taken.items()},
            {name: throughput_ratio(taken[name], taken["native"]) for name in PLACES},
            {"native": native["k_away"], "kept home": redirected["k_home"], "redirected": redirected["k_away"]},
            {name: told(one.report) for name, one in modes.items() if one.report},
        )
    print(to_text(result))
    if arguments.json:
        arguments.json.write_text(json.dumps({**asdict(result), "reached": result.reached}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
