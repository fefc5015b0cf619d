"""Runs other projects' own test suites against the emulated driver, as ratchets.

    scripts/lab peers [numba-cuda] [cuda-python] [--json FILE] [--shrink] [--jobs N]
    scripts/lab peers --shim [--native] [--python FILE] [numba-cuda] [cuda-python] [--json FILE] [--jobs N]

Each suite comes from the wheel that PyPI has and runs in a virtual environment of its own (under build/peers). What is
known to fail stands in tests/peers/<suite>.tsv, a test and a reason per line; reasons that begin with "outside" name a
compiler or hardware feature that Tessera does not claim to emulate. A failure that is not listed fails the run, and so
does a listed test that passes: --shrink takes such lines out. The list is never made longer by this script.

--shim compares instead: each suite runs without the shim, with it, and with it recording, and every test must end the
same way. --native does so on this machine's own GPUs; --python names an interpreter that has the packages.
"""

import argparse
import json
import os
import shutil
import subprocess
import sysconfig
import venv
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

from scripts.commands.dispatch import parser_of

ROOT = Path(__file__).resolve().parents[3]
LISTS = ROOT / "tests" / "peers"
TEST_TIMEOUT_S = 300
SUITE_TIMEOUT_S = 3600


@dataclass(frozen=True, slots=True)
class Suite:
    """`packages` are pinned: the list of known failures belongs to these versions."""

    name: str
    packages: tuple[str, ...]
    tests: tuple[str, ...]
    options: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()  # directories in site-packages that the loader needs


COMMON = ("cffi", "pytest==9.0.3", "pytest-timeout", "pyyaml")
SUITES = {
    "numba-cuda": Suite(
        "numba-cuda",
        (
            *COMMON,
            "numba-cuda==0.30.4",
            "numba==0.68.1",
            "cuda-bindings==13.0.3",
            "nvidia-nvvm==13.5.37",
            "nvidia-cuda-nvrtc==13.5.37",
            "nvidia-cuda-runtime==13.5.37",
            "nvidia-cuda-cccl==13.3.5.0.6",
            "filecheck",
            "ml_dtypes",
            "psutil",
            "scipy",
        ),
        ("numba.cuda.tests.cudapy", "numba.cuda.tests.cudadrv"),
        ("-p", "numba_cuda_plugin", "-o", "consider_namespace_packages=true"),
    ),
    "cuda-python": Suite(
        "cuda-python",
        (*COMMON, "cuda-python==12.6.0", "numpy", "nvidia-cuda-nvrtc-cu12==12.6.*"),
        tuple(
            f"cuda.tests.{name}"
            for name in ("test_cuda", "test_kernelParams", "test_interoperability", "test_cython", "test_cudart")
        ),
        libraries=("nvidia/cuda_nvrtc/lib",),
    ),
}


def prepare(suite: Suite) -> Path:
    """The suite's Python, installed once per list of packages."""
    directory = ROOT / "build" / "peers" / suite.name
    python = directory / "bin" / "python"
    stamp = directory / "packages.txt"
    wanted = "\n".join(suite.packages)
    if not stamp.exists() or stamp.read_text() != wanted:
        print(f"{suite.name}: installing", flush=True)
        venv.create(directory, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *suite.packages], check=True)
        stamp.write_text(wanted)
    return python


LIST_MODULES = """
import importlib.util, pkgutil, sys
for name in sys.argv[1:]:
    places = importlib.util.find_spec(name).submodule_search_locations
    found = [m.name for m in pkgutil.iter_modules(places) if m.name.startswith("test_")] if places else []
    print(*([f"{name}.{module}" for module in found] or [name]), sep="\\n")
"""


TESSERA_RUN = Path(sysconfig.get_path("scripts")) / "tessera-run"
EMULATED = ("--emulate", str(LISTS / "machine.yaml"))
RECORDING = ("--stats=/dev/null", "--trace", "/dev/null")


def run(suite: Suite, python: Path, jobs: int, front: Sequence[str], name: str) -> dict[str, str]:
    """Outcome by test: passed, failed or skipped. Each test module has a process, and so a context, of its own.

    `front` is the command before the program's; `name` tells runs of a suite apart.
    """
    directory = ROOT / "build" / "peers" / f"{name}-reports"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    packages = next(python.parent.parent.glob("lib/python3*/site-packages"))
    paths = [str(packages / library) for library in suite.libraries] + [os.environ.get("LD_LIBRARY_PATH", "")]
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": ":".join(filter(None, paths)),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(LISTS), os.environ.get("PYTHONPATH", "")])),
        "TESSERA_LOG_FILE": str(directory / "driver.log"),
    }
    listing = subprocess.run(
        [python, "-c", LIST_MODULES, *suite.tests], env=environment, capture_output=True, text=True, check=True
    )
    modules = listing.stdout.split()
    print(f"{name}: {len(modules)} test modules, logs in {directory}", flush=True)
    found: dict[str, str] = {}
    with ThreadPoolExecutor(jobs) as pool:
        pending = [
            pool.submit(run_module, suite, [*front, str(python)], module, directory, environment) for module in modules
        ]
        for number, result in enumerate(as_completed(pending), 1):
            found.update(result.result())
            if number % 20 == 0:
                print(f"{name}: {number} of {len(modules)} modules", flush=True)
    return found


def run_module(
    suite: Suite, interpreter: Sequence[str], module: str, directory: Path, environment: Mapping[str, str]
) -> dict[str, str]:
    report = directory / f"{module}.xml"
    command = [*interpreter, "-m", "pytest"]
    command += ["-q", "-c", os.devnull, "--rootdir", str(directory), "--timeout", str(TEST_TIMEOUT_S)]
    command += ["-p", "no:cacheprovider", "--import-mode=importlib", *suite.options]
    command += [f"--junitxml={report}", "--pyargs", module]
    with report.with_suffix(".log").open("w") as out:
        subprocess.run(command, stdout=out, stderr=out, env=environment, timeout=SUITE_TIMEOUT_S, check=False)
    return outcomes(report, module) if report.exists() else {f"{module}::": "failed"}


def outcomes(report: Path, module: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        kinds = {child.tag for child in case}
        outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        group = (case.get("classname") or "").rpartition(".")[2]
        parts = [module, *([group] if group[:1].isupper() else []), case.get("name") or ""]
        name = "::".join(parts)
        if found.get(name) != "failed":
            found[name] = outcome
    return found


def read_known(file: Path) -> dict[str, str]:
    known: dict[str, str] = {}
    for number, line in enumerate(file.read_text().splitlines() if file.exists() else [], 1):
        if line and not line.startswith("#"):
            test, separator, reason = line.partition("\t")
            if not separator or not reason.strip() or test in known:
                raise SystemExit(f"{file}:{number}: expected one test, a tab and a reason, each test once")
            known[test] = reason
    return known


def shrink(file: Path, fixed: set[str]) -> None:
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(line for line in lines if line.partition("\t")[0] not in fixed))


@dataclass(frozen=True, slots=True)
class Verdict:
    """`outside`: failures in what Tessera does not claim to emulate. The lists are what is wrong with the run."""

    suite: str
    passed: int
    failed: int
    outside: int
    skipped: int
    new_failures: list[str]
    listed_but_passing: list[str]
    listed_but_absent: list[str]

    @property
    def findings(self) -> list[str]:
        lists = {"new failure": self.new_failures, "listed but passing": self.listed_but_passing}
        lists["listed but absent"] = self.listed_but_absent
        return [f"{kind}: {test}" for kind, tests in lists.items() for test in tests]

    def rates(self) -> dict[str, float]:
        """Of all tests that ran, and of those that need nothing outside."""
        ran = self.passed + self.failed
        return {
            "pass_rate": round(self.passed / max(ran, 1), 4),
            "pass_rate_without_outside": round(self.passed / max(ran - self.outside, 1), 4),
        }


def judge(suite: Suite, found: dict[str, str], may_shrink: bool) -> Verdict:
    file = LISTS / f"{suite.name}.tsv"
    known = read_known(file)
    failed = {test for test, outcome in found.items() if outcome == "failed"}
    passed = {test for test, outcome in found.items() if outcome == "passed"}
    fixed = passed & known.keys()
    if may_shrink and fixed:
        shrink(file, fixed)
    return Verdict(
        suite.name,
        len(passed),
        len(failed),
        sum(known.get(test, "").startswith("outside") for test in failed),
        sum(outcome == "skipped" for outcome in found.values()),
        sorted(failed - known.keys()),
        [] if may_shrink else sorted(fixed),
        sorted(known.keys() - found.keys()),
    )


def fronts(native: bool) -> dict[str, list[str]]:
    """How the suites run in a comparison; the first is without the shim."""
    start = [str(TESSERA_RUN), "--no-summary"]
    if native:
        return {"bare": [], "through": [*start, "--"], "recorded": [*start, *RECORDING, "--"]}
    return {
        "bare": [*start, *EMULATED, "--"],
        "through": [*start, *EMULATED, "--shim", "--"],
        "recorded": [*start, *EMULATED, *RECORDING, "--"],
    }


@dataclass(frozen=True, slots=True)
class Comparison:
    """How many tests ended how without the shim, and those that ended otherwise with it: mode, test, both ends."""

    suite: str
    passed: int
    failed: int
    skipped: int
    differences: list[tuple[str, str, str, str]]


def compare(suite: Suite, python: Path, jobs: int, native: bool) -> Comparison:
    found = {mode: run(suite, python, jobs, front, f"{suite.name}-{mode}") for mode, front in fronts(native).items()}
    bare = found.pop("bare")
    differences = [
        (mode, test, bare.get(test, "absent"), outcomes.get(test, "absent"))
        for mode, outcomes in found.items()
        for test in sorted(bare.keys() | outcomes.keys())
        if bare.get(test) != outcomes.get(test)
    ]
    ends = Counter(bare.values())
    return Comparison(suite.name, ends["passed"], ends["failed"], ends["skipped"], differences)


def compare_all(suites: list[Suite], arguments: argparse.Namespace) -> int:
    results = []
    for suite in suites:
        python = arguments.python or prepare(suite)
        result = compare(suite, python, arguments.jobs, arguments.native)
        results.append(result)
        print(
            f"{suite.name}: {result.passed} passed, {result.failed} failed, {result.skipped} skipped without the shim"
        )
        for mode, test, before, after in result.differences:
            print(f"  {mode}: {test} {before} without, {after} with")
        print(f"{suite.name}: {len(result.differences)} tests differ with the shim")
    if arguments.json:
        arguments.json.write_text(json.dumps({"suites": [asdict(result) for result in results]}, indent=2) + "\n")
    return 1 if any(result.differences or not result.passed for result in results) else 0


def main(words: Sequence[str]) -> int:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"{', '.join(SUITES)}; all by default")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--shrink", action="store_true", help="take tests that pass out of the lists")
    parser.add_argument("--shim", action="store_true", help="compare with and without the shim")
    parser.add_argument("--native", action="store_true", help="with --shim: on this machine's own GPUs")
    parser.add_argument("--python", type=Path, help="with --shim: an interpreter that has the packages")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args(words)
    if unknown := [name for name in arguments.suites if name not in SUITES]:
        parser.error(f"no such suite: {', '.join(unknown)}; there are {', '.join(SUITES)}")
    suites = [SUITES[name] for name in arguments.suites or SUITES]
    if arguments.shim:
        return compare_all(suites, arguments)
    verdicts = []
    for suite in suites:
        front = [str(TESSERA_RUN), *EMULATED, "--no-summary", "--"]
        found = run(suite, prepare(suite), arguments.jobs, front, suite.name)
        verdict = judge(suite, found, arguments.shrink)
        verdicts.append(verdict)
        rates = verdict.rates()
        print(
            f"{suite.name}: {verdict.passed} passed, {verdict.failed} failed, of them {verdict.outside} outside, "
            f"{verdict.skipped} skipped; {rates['pass_rate']:.1%} of all, "
            f"{rates['pass_rate_without_outside']:.1%} without those outside"
        )
        for finding in verdict.findings:
            print(f"  {finding}")
    if arguments.json:
        entries = [{**asdict(verdict), **verdict.rates()} for verdict in verdicts]
        arguments.json.write_text(json.dumps({"suites": entries}, indent=2) + "\n")
    return 1 if any(verdict.findings for verdict in verdicts) else 0
