#!/usr/bin/env python3
"""What the shim adds to a launch, and to programs that do little else.

    scripts/bench/launch_overhead.py [--null FILE] [--driver FILE] [--turns] [--rounds N] [--processes N] [--modes LIST]
                                    [--json FILE]

On a driver that does nothing (tests/null_driver of the native build, or --null) it counts instructions per launch and
takes times; with --driver it also takes times on that driver. Times are of front and driver by turns in one process.
--turns adds a PyTorch decoding loop at batch 1 and a loop of small additions: processes without and with the shim are
alive at once and run a batch each in turn, so that drift cancels. Intervals are bootstraps, 95 %. Needs a C compiler.
"""

import argparse
import importlib.util
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))

from tests.command import with_project  # noqa: E402

HERE = Path(__file__).resolve().parent
MODES: dict[str, tuple[str, ...]] = {
    "through": (),
    "stats": ("--stats={place}/stats.json",),
    "trace": ("--trace", "{place}/trace"),
}
MOST_LEARNING = 4  # runs
RESAMPLES = 2000
STEPS = {"decode": 10, "micro": 30}


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its 95 % interval."""

    value: float
    low: float
    high: float

    def text(self, unit: str) -> str:
        return f"{self.value:8.2f} [{self.low:.2f}, {self.high:.2f}] {unit}"


def bootstrap(estimate: Callable[[random.Random | None], float]) -> Interval:
    """`estimate` computes it from all samples, or from those that the random generator picks."""
    source = random.Random(1)
    values = sorted(estimate(source) for _ in range(RESAMPLES))
    return Interval(estimate(None), values[RESAMPLES // 40], values[-RESAMPLES // 40])


def pick(samples: Sequence[float], source: random.Random | None) -> Sequence[float]:
    return samples if source is None else source.choices(samples, k=len(samples))


def cuda_include() -> str:
    spec = importlib.util.find_spec("nvidia")
    wheels = (spec.submodule_search_locations or []) if spec else []
    places = [Path(place, "cu13", "include") for place in wheels] + sorted(Path("/usr/local").glob("cuda*/include"))
    return str(next(place for place in places if (place / "cuda.h").exists()))


def compile_host(directory: Path) -> Path:
    program = directory / "launch_host"
    flags = ["-std=gnu11", "-O2", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-isystem", cuda_include()]
    command = [os.environ.get("CC", "cc"), *flags, str(HERE / "launch_host.c"), "-o", str(program), "-ldl"]
    subprocess.run(command, check=True)
    return program


def launch_offset(driver: Path) -> str:
    """Where cuLaunchKernel lies in the file's address space."""
    listing = subprocess.run(["nm", "-D", "--defined-only", str(driver)], text=True, capture_output=True, check=True)
    return next(f"0x{line.split()[0]}" for line in listing.stdout.splitlines() if line.endswith(" cuLaunchKernel"))


def shimmed(mode: str, place: str) -> list[str]:
    """The command in front of the program."""
    options = [option.format(place=place) for option in MODES[mode]]
    return [sys.executable, "-m", "controlplane.commands.run", "--no-summary", *options, "--"]


def environment(driver: Path) -> dict[str, str]:
    return with_project(TESSERA_DRIVER=str(driver))


def output(command: list[str], variables: dict[str, str]) -> str:
    return subprocess.run(command, env=variables, text=True, stdout=subprocess.PIPE, check=True).stdout


def instructions(host: Path, null: Path, modes: Sequence[str]) -> dict[str, float]:
    """Per launch, of the calling loop and everything below it."""
    count = [str(host), "count", "1000"]
    search = f"{null.parent}:{os.environ.get('LD_LIBRARY_PATH', '')}"
    found = {"direct": float(output(count, {**os.environ, "LD_LIBRARY_PATH": search}))}
    for mode in modes:
        with tempfile.TemporaryDirectory() as place:
            found[mode] = float(output([*shimmed(mode, place), *count], environment(null)))
    return found


@dataclass(frozen=True, slots=True)
class Times:
    """Nanoseconds per launch: of the driver itself, and what the shim adds."""

    direct: float
    added: Interval


def times(host: Path, driver: Path, mode: str, batches: int, launches: int) -> Times:
    with tempfile.TemporaryDirectory() as place:
        command = [*shimmed(mode, place), str(host), "pairs", str(batches), str(launches), str(driver)]
        said = output([*command, launch_offset(driver)], environment(driver))
    pairs = [tuple(map(float, line.split())) for line in said.splitlines()]
    added = [front - direct for front, direct in pairs]
    direct = statistics.median(pair[1] for pair in pairs)
    return Times(direct, bootstrap(lambda source: statistics.median(pick(added, source))))


class Worker:
    """A living process that runs a batch when told (turns.py), with the shim on the driver if anything is in front."""

    def __init__(self, name: str, front: Sequence[str], program: Sequence[str], driver: Path, **variables: str) -> None:
        command = [*front, *program]
        variables = {**(environment(driver) if front else os.environ), **variables}
        self._name = name
        self._process = subprocess.Popen(
            command, env=variables, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self._name}: the program ended early")
        return line

    def ready(self) -> None:
        while self._line() != "ready\n":
            pass

    def go(self) -> None:
        """Begins a batch."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def taken(self) -> float:
        """Seconds that the batch took; waits for its end."""
        return float(self._line())

    def turn(self) -> float:
        self.go()
        return self.taken()

    def end(self) -> str:
        """What the program says at last."""
        return self._process.communicate()[0]


def learn(begin: Callable[[], Worker], report: Path) -> None:
    """Runs a program under tessera-run --json REPORT until what its functions touch is known, or cannot be."""
    for _ in range(MOST_LEARNING):
        worker = begin()
        worker.ready()
        worker.end()
        analysis = json.loads(report.read_text())["analysis"]
        if analysis["functions"] == analysis["known"] + analysis["unknown"]:
            return
    print(f"not all functions were analysed in {MOST_LEARNING} runs", file=sys.stderr)


@dataclass(frozen=True, slots=True)
class Turns:
    """`slower`: time with the shim over time without it, minus 1, in percent. `batches_s`: by mode and process."""

    slower: dict[str, Interval]
    batches_s: dict[str, list[list[float]]]


def turns(program: str, modes: Sequence[str], driver: Path, rounds: int, processes: int) -> Turns:
    with tempfile.TemporaryDirectory() as place:
        fronts = {mode: [shimmed(mode, f"{place}/{mode}{i}") for i in range(processes)] for mode in modes}
        fronts["native"] = [[]] * processes
        for mode in modes:
            for i in range(processes):
                Path(f"{place}/{mode}{i}").mkdir()
        command = [sys.executable, str(HERE / "turns.py"), program, str(STEPS[program])]
        workers = [
            (mode, Worker(mode, front, command, driver)) for mode, several in fronts.items() for front in several
        ]
        for _, worker in workers:
            worker.ready()
        taken: dict[int, list[float]] = {number: [] for number in range(len(workers))}
        order = random.Random(2)
        for _ in range(rounds):
            for number in order.sample(range(len(workers)), len(workers)):
                taken[number].append(workers[number][1].turn())
        for _, worker in workers:
            worker.end()
    by_mode = {mode: [taken[n] for n, (name, _) in enumerate(workers) if name == mode] for mode in fronts}
    return Turns({mode: ratio(by_mode[mode], by_mode["native"]) for mode in modes}, by_mode)


def ratio(ours: list[list[float]], native: list[list[float]]) -> Interval:
    """Of medians, from batches by process; processes and batches are both sampled."""

    def level(processes: list[list[float]], source: random.Random | None) -> float:
        chosen = processes if source is None else source.choices(processes, k=len(processes))
        return statistics.fmean(statistics.median(pick(batches, source)) for batches in chosen)

    return bootstrap(lambda source: (level(ours, source) / level(native, source) - 1) * 100)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--null", type=Path, default=ROOT / "build" / "native" / "null_driver" / "libcuda.so.1")
    parser.add_argument("--driver", type=Path)
    parser.add_argument("--turns", action="store_true")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--processes", type=int, default=3, help="of each mode that are alive at once")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    modes = arguments.modes.split(",")
    report: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as place:
        host = compile_host(Path(place))
        counted = instructions(host, arguments.null, modes)
        report["instructions"] = counted
        print("instructions per launch:", ", ".join(f"{mode} {value:.0f}" for mode, value in counted.items()))
        drivers = {"null": (arguments.null, 200, 20_000)}
        if arguments.driver is not None:
            drivers["driver"] = (arguments.driver, 400, 500)
        for name, (driver, batches, launches) in drivers.items():
            measured = {mode: times(host, driver, mode, batches, launches) for mode in modes}
            report[f"times_{name}"] = {mode: asdict(found) for mode, found in measured.items()}
            for mode, found in measured.items():
                print(f"{name:7} {mode:8} {found.direct:8.1f} ns, the shim adds {found.added.text('ns')}", flush=True)
    if arguments.turns:
        if arguments.driver is None:
            parser.error("--turns needs --driver")
        for program in STEPS:
            taken = turns(program, modes, arguments.driver, arguments.rounds, arguments.processes)
            report[program] = asdict(taken)
            for mode, processes in taken.batches_s.items():
                medians = [f"{statistics.median(batches) / STEPS[program] * 1e6:.1f}" for batches in processes]
                print(f"{program:7} {mode:8} {' '.join(medians)} us per step, by process")
            for mode, interval in taken.slower.items():
                print(f"{program:7} {mode:8} {interval.text('% slower')}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
