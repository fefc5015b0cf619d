"""Stresses what lives in the application's process: threads, forks, objects and ends, in sanitized builds.

    scripts/lab stress [--iterations N] [--sanitize NAME] [--build DIR] [--modes LIST] [--json FILE] [KIND...]

Builds interpose/ and tests/stress with a sanitizer (asan: addresses and undefined behaviour; tsan: threads; none) and
runs each kind N times on two emulated GPUs: behind the shim alone, with --stats and --trace, with --check-writes and
--check-accesses, and with a control plane that is killed in the middle. Exit status 0 when every run ended well,
launches were tested where they are checked, and the sanitizer found nothing.
"""

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from scripts.commands.dispatch import parser_of
from tests.command import with_project
from tests.native_build import build_native

ROOT = Path(__file__).resolve().parents[3]
SANITIZERS = {"asan": "address,undefined", "tsan": "thread", "none": ""}
KINDS = ("threads", "objects", "fork", "exit", "init", "reopen")
CHECKED = "checked"
MODES: dict[str, tuple[str, ...]] = {
    "through": ("--shim",),
    "records": ("--stats=/dev/null", "--trace", "/dev/null"),
    CHECKED: ("--check-writes=5", "--check-accesses=5"),
    "killed": ("--stats=/dev/null", "--trace", "/dev/null"),
}
NEEDS_ARENA = (CHECKED,)  # which lies where the sanitizer of threads keeps its own memory
KILL_AFTER_S = 1.0
OPTIONS = {
    # The preloaded shim comes before the sanitizer's runtime, which is harmless as the program has it too. Threads that
    # are at work when the process exits own memory that nobody frees.
    "ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0",
    "TSAN_OPTIONS": "halt_on_error=1:die_after_fork=0:report_thread_leaks=0:atexit_sleep_ms=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}


def compile_program(directory: Path, sanitizer: str) -> Path:
    """The stress program, with the sanitizer of the libraries that it will load."""
    spec = importlib.util.find_spec("nvidia")
    wheels = (spec.submodule_search_locations or []) if spec else []
    includes = [f"-I{Path(place, 'cu13', 'include')}" for place in wheels]
    program = directory / "stress"
    flags = ["-std=gnu11", "-O1", "-g", "-pthread", "-Wall", "-Wextra", "-Werror", *includes]
    flags += [f"-fsanitize={SANITIZERS[sanitizer]}", "-fno-sanitize-recover=all"] if SANITIZERS[sanitizer] else []
    sources = sorted((ROOT / "tests" / "stress").glob("*.c"))
    subprocess.run([os.environ.get("CC", "cc"), *flags, *sources, "-o", program, "-ldl"], check=True)
    return program


def control_plane_of(starter: int) -> int | None:
    for child in Path(f"/proc/{starter}/task/{starter}/children").read_text().split():
        if b"controlplane.server.main" in Path(f"/proc/{child}/cmdline").read_bytes():
            return int(child)
    return None


def kill_control_plane(starter: "subprocess.Popen[str]") -> None:
    """A little after it began, unless the program has ended by then."""
    found = None
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        while found is None and starter.poll() is None:
            found = control_plane_of(starter.pid)
            time.sleep(0.01)
        time.sleep(KILL_AFTER_S)
        if found is not None:
            os.kill(found, signal.SIGKILL)


def report_of(native: Path) -> Path:
    return native.parent / "stress.json"


def begin(program: Path, native: Path, mode: str, kind: str, iterations: int) -> "subprocess.Popen[str]":
    options = ["--emulate", "2", "--no-summary", "--json", str(report_of(native)), *MODES[mode]]
    return subprocess.Popen(
        [sys.executable, "-m", "controlplane.commands.run", *options, "--", str(program), kind, str(iterations)],
        env=with_project(**OPTIONS, TESSERA_NATIVE=str(native), XDG_CACHE_HOME=str(native.parent / "cache")),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def run(program: Path, native: Path, mode: str, kind: str, iterations: int) -> dict[str, object]:
    started = time.monotonic()
    process = begin(program, native, mode, kind, iterations)
    if mode == "killed":
        kill_control_plane(process)
    said, complaints = process.communicate()
    passed = process.returncode == 0 and said == "started\ndone\n"
    tested = (
        int(json.loads(report_of(native).read_text())["check"]["tested_launches"])
        if passed and mode == CHECKED
        else None
    )
    passed = passed and tested != 0
    seconds = round(time.monotonic() - started, 1)
    more = "" if tested is None else f", {tested} launches tested"
    print(
        f"{'ok' if passed else 'FAIL':5} {kind:8} {mode:8} {iterations:6} iterations {seconds:7.1f} s{more}", flush=True
    )
    if not passed:
        print(said, complaints[-6000:], f"exit code {process.returncode}", sep="\n", flush=True)
    return {
        "kind": kind,
        "mode": mode,
        "iterations": iterations,
        "passed": passed,
        "seconds": seconds,
        "tested": tested,
    }


def iterations_of(mode: str, kind: str, iterations: int) -> int:
    """Fewer where each is a process of its own, which loads clones of its own."""
    return -(-iterations // 4) if mode == CHECKED and kind in ("exit", "init") else iterations


def main(words: Sequence[str]) -> int:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("--iterations", type=int, default=10_000)
    parser.add_argument("--sanitize", choices=SANITIZERS, default="asan")
    parser.add_argument("--build", type=Path, help="a build with this sanitizer, used as it is")
    parser.add_argument("--modes", help="comma-separated; all that the sanitizer allows by default")
    parser.add_argument("--json", type=Path)
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"{', '.join(KINDS)}; all by default")
    arguments = parser.parse_args(words)
    if unknown := [kind for kind in arguments.kinds if kind not in KINDS]:
        parser.error(f"no such kind: {', '.join(unknown)}")
    directory: Path = arguments.build or ROOT / "build" / f"stress-{arguments.sanitize}"
    if arguments.build is None:
        build_native(directory, "-DTESSERA_TESTS=OFF", f"-DTESSERA_SANITIZE={SANITIZERS[arguments.sanitize]}")
    program = compile_program(directory, arguments.sanitize)
    if CHECKED in (arguments.modes or CHECKED):
        begin(program, directory / "native", CHECKED, "reopen", 1).communicate()  # then analyses are in the cache
    fit = [mode for mode in MODES if arguments.sanitize != "tsan" or mode not in NEEDS_ARENA]
    results = [
        run(program, directory / "native", mode, kind, iterations_of(mode, kind, arguments.iterations))
        for mode in (arguments.modes.split(",") if arguments.modes else fit)
        for kind in arguments.kinds or KINDS
    ]
    if arguments.json:
        arguments.json.write_text(json.dumps({"sanitizer": arguments.sanitize, "runs": results}, indent=1) + "\n")
    passed = sum(bool(result["passed"]) for result in results)
    print(f"{passed} of {len(results)} runs ended well under {arguments.sanitize}")
    return 0 if passed == len(results) else 1
