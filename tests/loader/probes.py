"""Small C programs that reach the driver in all ways, with the shim preloaded and a driver behind it."""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.null_driver.calls import read_calls

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs"
TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a probe printed and what reached the driver."""

    lines: list[str]
    log: str
    calls: Mapping[str, int]

    @property
    def objects(self) -> dict[str, Path]:
        """Which file each function that the probe found belongs to."""
        return {name: Path(path).resolve() for name, path in (line.split(" ", 1) for line in self.lines)}


@dataclass(frozen=True, slots=True)
class Probes:
    """`directory` holds the compiled programs, and libcuda.so, .so.1 and .so.580.1: names for the driver."""

    directory: Path
    shim: Path
    driver: Path

    def run(self, program: str, *arguments: str | Path, text: str = "", **variables: str) -> Outcome:
        """Runs a probe that must succeed."""
        calls = self.directory / "calls"
        calls.unlink(missing_ok=True)
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("TESSERA_")},
            "LD_PRELOAD": str(self.shim),
            "TESSERA_DRIVER": str(self.driver),
            "TESSERA_NULL_CALLS": str(calls),
            **variables,
        }
        command = [str(self.directory / program), *map(str, arguments)]
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, env=environment, timeout=TIMEOUT_S, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return Outcome(done.stdout.splitlines(), done.stderr, read_calls(calls))


COMPILE = ("cc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE")


def compile_program(output: Path, source: str, *options: str | Path) -> None:
    command = [*COMPILE, PROGRAMS / source, "-o", output, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def build(directory: Path, shim: Path, driver: Path) -> Probes:
    """Compiles everything."""
    for name in ("libcuda.so", "libcuda.so.1", "libcuda.so.580.1"):
        (directory / name).symlink_to(driver)
    library = ("-shared", "-fPIC")
    linked = (f"-L{directory}", "-lcuda")
    rpath = (*linked, "-Wl,--disable-new-dtags", f"-Wl,-rpath,{directory}")
    for source in ("opened", "details", "replay", "runtime"):
        compile_program(directory / source, f"{source}.c")
    compile_program(directory / "linked", "linked.c", "-pthread", *linked)
    compile_program(directory / "linked_rpath", "linked.c", "-pthread", *rpath)
    compile_program(directory / "plugin.so", "plugin.c", *library)
    compile_program(directory / "plugin_linked.so", "plugin.c", "-DLINKED", *library, *linked)
    compile_program(directory / "plugin_rpath.so", "plugin.c", "-DLINKED", *library, *rpath)
    compile_program(directory / "interposer.so", "interposer.c", *library)
    compile_program(directory / "other.so", "other.c", *library)
    (directory / "old").mkdir()
    compile_program(directory / "old" / "libcuda.so.1", "old_driver.c", *library, "-Wl,-soname,libcuda.so.1")
    third, second = directory / "next3.so", directory / "next2.so"
    compile_program(third, "next.c", "-DNUMBER=3", *library)
    compile_program(second, "next.c", "-DNUMBER=2", *library)
    compile_program(
        directory / "next",
        "next.c",
        "-DNUMBER=1",
        "-rdynamic",
        "-Wl,--no-as-needed",
        second,
        third,
        f"-Wl,-rpath,{directory}",
    )
    return Probes(directory, shim, driver)
