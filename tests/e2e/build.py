"""Build the end-to-end CUDA programs, in parallel, each at most once per content.

A program is one file in ``programs/``: ``.cu`` with the runtime API or ``.c`` with the driver API.  Its leading comment
may hold ``devices: N`` (GPUs needed, default 1).  Device code is embedded as PTX; the shared runtime is
linked, 13 or, for some programs, 12.  The compiler comes from ``PATH`` or from the PyPI wheels ``nvidia-cuda-nvcc``,
``nvidia-nvvm``, ``nvidia-cuda-crt``, ``nvidia-cuda-cccl``; cuRAND's headers and runtime 12 from ``nvidia-curand`` and
``nvidia-cuda-runtime-cu12``.  Nothing here needs a GPU or a driver, and only the standard library is used, so that
``scripts/hardware e2e-native`` runs anywhere.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"
DRIVER_TABLE = Path(__file__).parents[2] / "interpose" / "api" / "driver.def"
IMAGES = PROGRAMS / "device" / "driver_kernels.cu"
DEFAULT_FLAGS = ("-gencode", "arch=compute_80,code=compute_80")


class BuildError(Exception):
    """A program did not compile, or the toolkit lacks a part."""


@dataclass(frozen=True, slots=True)
class Toolkit:
    """An nvcc with the headers and the shared runtime it links."""

    nvcc: Path
    include: tuple[Path, ...]
    cudart: Path
    runtime12: Path | None  # the wheel nvidia-cuda-runtime-cu12: include/ and lib/

    @property
    def library_path(self) -> str:
        """Where a loader finds the runtimes."""
        wheel = [] if self.runtime12 is None else [str(self.runtime12 / "lib")]
        return os.pathsep.join([str(self.cudart.parent), *wheel])


@dataclass(frozen=True, slots=True)
class Program:
    """One executable to build: a source file and how its device code is embedded."""

    name: str
    source: Path
    devices: int
    flags: tuple[str, ...] = DEFAULT_FLAGS
    runtime: int = 13

    @property
    def uses_driver_api(self) -> bool:
        return self.source.suffix == ".c"


# The same source once more, with PTX for another architecture and each way fatbins are compressed.
VARIANTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "softmax_sm90_uncompressed": (
        "softmax",
        ("-gencode", "arch=compute_90,code=compute_90", "-Xfatbin", "--compress=false"),
    ),
    "histogram_lz4": ("histogram", (*DEFAULT_FLAGS, "--compress-mode=speed")),
    "gemm_wmma_sm90_zstd": (
        "gemm_wmma",
        ("-gencode", "arch=compute_90,code=compute_90", "--compress-mode=size"),
    ),
    "scan_two_architectures": (
        "scan",
        ("-gencode", "arch=compute_75,code=compute_75", "-gencode", "arch=compute_80,code=compute_80"),
    ),
    "scan_line_numbers": ("scan", (*DEFAULT_FLAGS, "-lineinfo")),
    "vector_add_debug": ("vector_add", (*DEFAULT_FLAGS, "-G")),
    "pitched_copies_per_thread": ("pitched_copies", (*DEFAULT_FLAGS, "--default-stream", "per-thread")),
    "constant_memory_per_thread": ("constant_memory", (*DEFAULT_FLAGS, "--default-stream", "per-thread")),
    "device_calls_unoptimised": ("device_calls", (*DEFAULT_FLAGS, "-Xcicc", "-O0")),
}

# Programs built once more against the headers and the library of runtime 12, where its interface differs.
RUNTIME12 = ("event_timing", "graph_capture", "managed_memory", "pinned_mapped", "runtime_queries")


def programs() -> list[Program]:
    """Every program and variant, by name."""
    found = {path.stem: _program(path) for path in sorted(PROGRAMS.glob("*.c*"))}
    for name, (base, flags) in VARIANTS.items():
        found[name] = Program(name, found[base].source, found[base].devices, flags)
    for base in RUNTIME12:
        name = f"{base}_runtime12"
        found[name] = Program(name, found[base].source, found[base].devices, runtime=12)
    return [found[name] for name in sorted(found)]


def _program(path: Path) -> Program:
    match = re.search(r"^(?://| \*|/\*)?\s*devices: (\d+)", path.read_text(), re.MULTILINE)
    return Program(path.stem, path, int(match[1]) if match else 1)


def find_toolkit() -> Toolkit:
    """The toolkit on PATH, else the one from PyPI wheels in this environment."""
    wheels = Path(sysconfig.get_paths()["purelib"]) / "nvidia"
    nvcc = _find_nvcc(wheels)
    root = _toolkit_root(nvcc)
    include = [root / "include", *sorted(wheels.glob("*/include"))]
    cudart = [lib for directory in ("lib64", "lib") for lib in sorted((root / directory).glob("libcudart.so.1[0-9]"))]
    if not cudart:
        raise BuildError(f"no shared cudart under {root}")
    runtime12 = wheels / "cuda_runtime"
    has_runtime12 = (runtime12 / "lib" / "libcudart.so.12").exists()
    existing = tuple(path for path in include if path.is_dir() and path.parent != runtime12)
    return Toolkit(nvcc, existing, cudart[0], runtime12 if has_runtime12 else None)


def _find_nvcc(wheels: Path) -> Path:
    on_path = shutil.which("nvcc")
    if on_path:
        return Path(on_path)
    for candidate in sorted(wheels.glob("*/bin/nvcc")):
        return candidate
    raise BuildError("no nvcc on PATH and no nvidia-cuda-nvcc wheel in this environment")


def _toolkit_root(nvcc: Path) -> Path:
    """Where nvcc itself says it lives; the file on PATH may be a script that starts it."""
    answer = _run([str(nvcc), "--dryrun", "-c", "-x", "cu", os.devnull, "-o", os.devnull])
    match = re.search(r"^#\$ TOP=(.*)$", answer, re.MULTILINE)
    if not match:
        raise BuildError(f"{nvcc} --dryrun names no TOP directory")
    return Path(match[1]).resolve()


def _run(command: list[str]) -> str:
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    if done.returncode:
        raise BuildError(f"{' '.join(command)}\n{done.stdout}")
    return done.stdout


class Builder:
    """Builds programs into ``directory/<name>-<hash of everything that matters>/<name>``."""

    def __init__(self, toolkit: Toolkit, directory: Path) -> None:
        self.toolkit = toolkit
        self.directory = directory
        self._version = _run([str(toolkit.nvcc), "--version"])
        self._shared = b"".join(path.read_bytes() for path in (*sorted(PROGRAMS.glob("*.h")), IMAGES))
        self._includes = [f"-I{path}" for path in toolkit.include]
        directory.mkdir(parents=True, exist_ok=True)

    def build_all(self, wanted: Iterable[Program], jobs: int) -> dict[str, Path | BuildError]:
        """Executable or error by program name."""
        wanted = list(wanted)
        if any(program.uses_driver_api for program in wanted):
            self.build_shared()

        def build(program: Program) -> Path | BuildError:
            try:
                return self.build(program)
            except BuildError as error:
                return error

        with ThreadPoolExecutor(jobs) as pool:
            return dict(zip((program.name for program in wanted), pool.map(build, wanted), strict=True))

    def build_shared(self) -> None:
        """What all programs of the driver API are built with."""
        self._images()
        self._driver_stub()

    def build(self, program: Program) -> Path:
        place = self._place(program.name, program.source.read_bytes(), repr((program.flags, program.runtime)).encode())
        executable = place / program.name
        if executable.exists():
            return executable
        place.mkdir(parents=True, exist_ok=True)
        partial = place / f"{program.name}.partial"
        command = self._driver_command if program.uses_driver_api else self._runtime_command
        _run(command(program, partial))
        if program.uses_driver_api:
            for image in self._images():
                shutil.copy(image, place / image.name)
        partial.rename(executable)
        return executable

    def _runtime_command(self, program: Program, output: Path) -> list[str]:
        include, linked = self._includes, self.toolkit.cudart
        if program.runtime == 12:
            if self.toolkit.runtime12 is None:
                raise BuildError(f"{program.name}: the wheel nvidia-cuda-runtime-cu12 is missing")
            include = [f"-I{self.toolkit.runtime12 / 'include'}", *include]
            linked = self.toolkit.runtime12 / "lib" / "libcudart.so.12"
        command = [str(self.toolkit.nvcc), "-std=c++17", "-cudart", "none", "-cudadevrt", "none", *program.flags]
        return [*command, *include, "-o", str(output), str(program.source), "-Xlinker", str(linked)]

    def _driver_command(self, program: Program, output: Path) -> list[str]:
        command = ["gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", *self._includes, str(program.source)]
        return [*command, "-o", str(output), "-pthread", f"-L{self._driver_stub().parent}", "-lcuda"]

    def _place(self, name: str, *contents: bytes) -> Path:
        digest = hashlib.sha256(self._version.encode() + self._shared)
        for content in contents:
            digest.update(content)
        return self.directory / f"{name}-{digest.hexdigest()[:16]}"

    def _images(self) -> list[Path]:
        place = self._place("images")
        wanted = {"driver_kernels.ptx": "-ptx", "driver_kernels.fatbin": "-fatbin"}
        for name, kind in wanted.items():
            if not (place / name).exists():
                place.mkdir(exist_ok=True)
                _run([str(self.toolkit.nvcc), kind, *DEFAULT_FLAGS, "-o", str(place / name), str(IMAGES)])
        return [place / name for name in wanted]

    def _driver_stub(self) -> Path:
        """A libcuda.so to link against on a machine without a driver: every driver symbol, doing nothing."""
        names = re.findall(r"^TSR_DRIVER\w*\((cu\w+),", DRIVER_TABLE.read_text(), re.MULTILINE)
        directory = self._place("stub", "".join(names).encode())
        library = directory / "libcuda.so"
        if not library.exists():
            directory.mkdir(exist_ok=True)
            source = directory / "stub.c"
            source.write_text("".join(f"void {name}(void) {{}}\n" for name in names))
            _run(["gcc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", str(library), str(source)])
        return library


class Executables(dict[str, Path | BuildError]):
    """Executable or error by program name, built when first asked for, and once for all processes."""

    def __init__(self, builder: Builder) -> None:
        super().__init__()
        self._builder = builder
        self._programs = {program.name: program for program in programs()}

    def __missing__(self, name: str) -> Path | BuildError:
        try:
            if self._programs[name].uses_driver_api:
                with self._locked("shared"):
                    self._builder.build_shared()
            with self._locked(name):
                self[name] = self._builder.build(self._programs[name])
        except BuildError as error:
            self[name] = error
        return self[name]

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        with (self._builder.directory / f"{name}.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
