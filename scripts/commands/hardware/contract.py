"""Builds the contract suite and runs it against the libcuda.so.1 that the loader finds.

    scripts/hardware contract [--build DIR] [--json FILE] [--library FILE | --redirect N] [FILTER...]

Needs a C compiler and cuda.h (of the Python wheel nvidia-cuda-runtime, of $CUDA_HOME, or beside nvcc). --library names
another driver to test than the one the loader would find; --redirect tests what a program sees whose launches run on
GPU 1 by policy, with --redirect 2 on two emulated GPUs, with --redirect 0 on the machine's own. Exit status 0 when
every test passed; under a policy, when what failed is what DIFFERENCES and, on real GPUs, DIFFERENCES_OF_GPUS list.
"""

import importlib.util
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from scripts.commands.dispatch import parser_of
from tests.command import with_project

ROOT = Path(__file__).resolve().parents[3]
SUITE = ROOT / "tests" / "contract"
POLICY = (
    'version: 1\ndevices: {home: 0, executors: [1]}\nrules:\n  - {match: {function: "*"}, device: 1}\ndefault: home\n'
)
# What a program under a policy sees otherwise than without (docs/faults.md): nothing on emulated GPUs, where bounds are
# exact. On real ones drivers do some things only with memory that they allocated themselves, not with mapped memory.
DIFFERENCES: dict[str, str] = {}
DIFFERENCES_OF_GPUS = {
    "copy.bad_addresses_are_refused": "freed memory stays mapped: a copy to it may succeed",
    "graph_general.nodes_are_added_and_changed": "cuGraphAddNode is refused a memset node",
    "memory.synchronous_operations_attribute": "there is no such attribute",
}
LEAST_REDIRECTED = 100


def cuda_include() -> Path:
    """The directory of cuda.h, CUDA 13.0 or newer."""
    spec = importlib.util.find_spec("nvidia")
    wheels = (spec.submodule_search_locations or []) if spec else []
    places = [Path(location, "cu13", "include") for location in wheels]
    home = os.environ.get("CUDA_HOME")
    if home:
        places.append(Path(home, "include"))
    nvcc = shutil.which("nvcc")
    if nvcc:
        places.append(Path(nvcc).resolve().parent.parent / "include")
    places.append(Path("/usr/local/cuda/include"))
    for place in places:
        header = place / "cuda.h"
        if header.exists():
            version = re.search(r"#define CUDA_VERSION (\d+)", header.read_text(errors="replace"))
            if version and int(version[1]) >= 13000:
                return place
    sys.exit("cuda.h of CUDA 13.0 not found: pip install 'nvidia-cuda-runtime>=13.0'")


def build(directory: Path) -> Path:
    """The suite, linked against a failover with every driver symbol and the SONAME libcuda.so.1; unless it is there."""
    directory.mkdir(parents=True, exist_ok=True)
    program = directory / "contract"
    inputs = [*SUITE.glob("*.[ch]"), ROOT / "interpose" / "api" / "driver.def", Path(__file__)]
    if program.exists() and program.stat().st_mtime > max(path.stat().st_mtime for path in inputs):
        return program
    compiler = os.environ.get("CC", "gcc")
    table = (ROOT / "interpose" / "api" / "driver.def").read_text()
    symbols = re.findall(r"^TSR_DRIVER\w*\((cu\w+),", table, flags=re.MULTILINE)
    link_source = directory / "link.c"
    link_source.write_text("".join(f"void {symbol}(void);\nvoid {symbol}(void) {{}}\n" for symbol in symbols))
    link = directory / "failover" / "libcuda.so.1"
    link.parent.mkdir(exist_ok=True)
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", str(link), str(link_source)], check=True
    )
    sources = [str(source) for source in sorted(SUITE.glob("*.c"))]
    flags = ["-std=gnu11", "-O1", "-g", "-pthread", "-Wall", "-Wextra", "-Wl,-z,lazy"]
    defines = ["-D_GNU_SOURCE", "-DCUDA_ENABLE_DEPRECATED"]
    include = ["-isystem", str(cuda_include())]
    command = [compiler, *flags, *defines, *include, *sources, str(link), "-o", str(program)]
    subprocess.run(command, check=True)
    return program


def exported(library: Path) -> list[str]:
    """The driver functions in the dynamic symbol table of a 64-bit ELF library."""
    image = library.read_bytes()
    offset, entry, count = struct.unpack_from("<Q", image, 0x28)[0], *struct.unpack_from("<HH", image, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", image, offset + entry * i) for i in range(count)]
    names: list[str] = []
    for section in sections:
        if section[1] != 11:  # SHT_DYNSYM
            continue
        strings = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], 24):
            name, info, _, index = struct.unpack_from("<IBBH", image, at)
            text = image[strings + name : image.index(b"\0", strings + name)].decode()
            if index and info & 15 == 2 and text.startswith("cu"):
                names.append(text)
    return sorted(names)


def loaded_driver(program: Path, environment: dict[str, str]) -> Path | None:
    """The library that the loader gives the suite."""
    answer = subprocess.run([str(program), "--driver"], env=environment, capture_output=True, text=True, check=False)
    return Path(answer.stdout.strip()).resolve() if answer.returncode == 0 else None


def redirect(program: Path, directory: Path, gpus: int, filters: list[str]) -> int:
    """Runs the suite under the policy; the differences that it shows must be the known ones."""
    policy, notes, report = directory / "policy.yaml", directory / "notes.json", directory / "run.json"
    policy.write_text(POLICY)
    run = [sys.executable, "-m", "controlplane.commands.run", *(["--emulate", str(gpus)] if gpus else [])]
    run += ["--no-summary", "--policy", str(policy), "--json", str(report), "--", str(program)]
    subprocess.run([*run, "--json", str(notes), *filters], env=with_project(), check=False)
    result, launches = json.loads(notes.read_text()), json.loads(report.read_text())["launches"]
    failed = {note["test"] for note in result["notes"] if note["kind"] == "failed"}
    elsewhere = launches["by_device"].get("1", 0)
    known = DIFFERENCES if gpus else DIFFERENCES | DIFFERENCES_OF_GPUS
    for name in sorted(failed & known.keys()):
        print(f"known difference: {name}: {known[name]}")
    unknown = sorted(failed - known.keys())
    gone = [] if filters else sorted(known.keys() - failed)
    idle = not filters and elsewhere < LEAST_REDIRECTED
    print(
        f"under the policy: {result['passed']} passed, {len(failed)} failed, of which {len(failed) - len(unknown)} "
        f"known; {elsewhere} of {launches['total']} launches on GPU 1; new: {unknown}; no longer failing: {gone}"
    )
    return 1 if unknown or gone or idle else 0


def main(words: Sequence[str]) -> int:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("--build", type=Path, help="directory to build in (a temporary one by default)")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--library", type=Path, help="the driver to test")
    parser.add_argument(
        "--redirect", type=int, metavar="N", help="run it under a policy, on N emulated GPUs or (0) real ones"
    )
    parser.add_argument("--list", action="store_true")
    parser.add_argument("filters", nargs="*")
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="contract-") as scratch:
        directory: Path = options.build or Path(scratch)
        program = build(directory)
        if options.list:
            environment = {**os.environ, "LD_LIBRARY_PATH": str(directory / "failover")}
            return subprocess.run([str(program), "--list"], env=environment, check=False).returncode
        if options.redirect is not None:
            return redirect(program, directory, options.redirect, options.filters)
        environment = dict(os.environ)
        if options.library:
            place = directory / "driver"
            place.mkdir(exist_ok=True)
            target = place / "libcuda.so.1"
            target.unlink(missing_ok=True)
            target.symlink_to(options.library.resolve())
            environment["LD_LIBRARY_PATH"] = f"{place}:{environment.get('LD_LIBRARY_PATH', '')}"
        driver = loaded_driver(program, environment)
        if driver is None:
            sys.exit("no libcuda.so.1 in the loader's path: use --library")
        print(f"driver: {driver}", flush=True)
        notes = directory / "notes.json"
        code = subprocess.run(
            [str(program), "--json", str(notes), *options.filters], env=environment, check=False
        ).returncode
        if options.json:
            report = json.loads(notes.read_text()) | {"driver": str(driver), "exports": exported(driver)}
            options.json.write_text(json.dumps(report, indent=1) + "\n")
        return code
