"""Makes the corpus of kernels that `scripts/lab soundness --corpus DIR` launches: one PTX file for each.

    scripts/lab corpus DIR [--pack FILE] [SOURCE...]

SOURCE: project (this project's CUDA programs; needs nvcc), numba, triton (tests/instruments/kernels, compiled by the
packages in a virtual environment of DIR), cupy (its cub, thrust and random libraries), bitsandbytes (the PTX in its
library). All by default. Wheels are kept in DIR/fetched. --pack makes one file (.tar.xz) of all kernels in DIR. No GPU
is needed.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ptxtools.errors import PtxError
from ptxtools.image import best, texts
from scripts.commands.dispatch import parser_of
from tests.e2e.build import Toolkit, find_toolkit
from tests.instruments.pack import pack
from tests.instruments.pieces import pieces

ROOT = Path(__file__).resolve().parents[3]
NEWEST = 1000  # any architecture's PTX
WHEELS = {
    "cupy": ("cupy-cuda13x==14.2.0", ("cupy/cuda/cub.", "cupy/cuda/thrust.", "cupy/random/_generator_api.")),
    "bitsandbytes": ("bitsandbytes==0.50.2", ("libbitsandbytes_cuda130.",)),
}
COMPILERS = {
    "numba": ("numba-cuda==0.30.4", "numba==0.68.1", "nvidia-cuda-nvrtc==13.5.37", "nvidia-nvvm==13.5.37"),
    "triton": ("triton==3.9.0",),
}
KERNELS = ROOT / "tests" / "instruments" / "kernels"


def main(words: Sequence[str]) -> int:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("directory", type=Path, metavar="DIR")
    parser.add_argument("sources", nargs="*", metavar="SOURCE")
    parser.add_argument("--pack", type=Path, metavar="FILE")
    options = parser.parse_args(words)
    makers: dict[str, Callable[[Path, str], Iterator[tuple[str, str]]]] = {
        "project": project,
        **dict.fromkeys(COMPILERS, compiled),
        **dict.fromkeys(WHEELS, unpacked),
    }
    if unknown := set(options.sources) - makers.keys():
        parser.error(f"no source is called {', '.join(sorted(unknown))}")
    for source in options.sources or makers:
        count = write(options.directory / source, makers[source](options.directory / "fetched", source))
        print(f"{source}: {count} kernels", flush=True)
    if options.pack:
        pack(options.directory, options.pack)
    return 0


def write(directory: Path, modules: Iterator[tuple[str, str]]) -> int:
    """Cuts modules, each with its name, into files of one kernel."""
    directory.mkdir(parents=True, exist_ok=True)
    count = 0
    for name, text in modules:
        try:
            for number, (_, piece) in enumerate(pieces(text)):
                (directory / f"{name}.{number:04}.ptx").write_text(piece)
                count += 1
        except PtxError as problem:
            print(f"{directory.name}: {name} is left out: {problem}", file=sys.stderr)
    return count


def project(_fetched: Path, _source: str) -> Iterator[tuple[str, str]]:
    """What nvcc makes of this project's programs."""
    toolkit = find_toolkit()
    for file in sorted([*ROOT.glob("tests/**/*.cu"), *ROOT.glob("scripts/**/*.cu")]):
        text = ptx(toolkit, file)
        if text is not None:
            yield file.stem, text


def ptx(toolkit: Toolkit, file: Path) -> str | None:
    includes = [f"-I{path}" for path in (*toolkit.include, file.parent)]
    command = [str(toolkit.nvcc), "-O3", "-std=c++17", "-arch=sm_80", *includes, "-ptx", str(file), "-o", "-"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{file.name} is left out: {done.stderr.strip().splitlines()[:1]}", file=sys.stderr)
        return None
    return done.stdout


def compiled(fetched: Path, source: str) -> Iterator[tuple[str, str]]:
    """What a package's compiler makes of our kernels."""
    environment = fetched / source
    python = environment / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *COMPILERS[source]], check=True)
    made = fetched / f"{source}-ptx"
    subprocess.run([str(python), str(KERNELS / f"{source}_model.py"), str(made)], check=True)
    for file in sorted(made.glob("*.ptx")):
        yield file.stem, file.read_text()


def unpacked(fetched: Path, source: str) -> Iterator[tuple[str, str]]:
    """The newest PTX of each fat binary in a wheel's libraries."""
    package, libraries = WHEELS[source]
    wheels = fetched / f"{source}-wheel"
    if not list(wheels.glob("*.whl")):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(wheels), package]
        subprocess.run(command, check=True)
    for wheel in wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if any(library in name for library in libraries):
                    yield from in_library(Path(name).name.partition(".")[0], archive.read(name))


def in_library(name: str, data: bytes) -> Iterator[tuple[str, str]]:
    for number, text in enumerate(best(texts(data), NEWEST)):
        yield f"{name}.{number}", text.text
