#!/usr/bin/env python3
"""How much of the PTX in the wild decodes, and how fast (processor time on one core).

    scripts/bench/ptx_decode.py [--json] [--survey PROGRAM] SOURCE...

SOURCE: a wheel, a library, a PTX file, a directory of those, the name of an installed package whose libraries are to be
looked at, or `numba` or `triton`: PTX that those compile here for sm_80, sm_90 and sm_120, without a GPU, from the
kernels in kernels/. Every kernel is judged on its own; what does not decode is named by
instruction. PROGRAM is tests/fuzz/ptx_survey, built when not given.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GENERATORS = ("numba", "triton")
LARGE_MODULE_BYTES = 1 << 18
NUMBERS = ("bytes", "kernels", "failed", "instructions", "ms", "largest_frame_bytes")


@dataclass(slots=True)
class Coverage:
    """One source: kernels that decode and why the others do not."""

    source: str
    modules: int = 0
    megabytes: float = 0
    kernels: int = 0
    failed: int = 0
    instructions: int = 0
    milliseconds: float = 0
    slowest_ms_per_megabyte: float = 0
    largest_frame_bytes: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    @property
    def percent(self) -> float:
        return 100 * (self.kernels - self.failed) / self.kernels if self.kernels else 100.0

    def add(self, module: dict[str, object]) -> None:
        number = {
            name: float(str(module[name]))
            for name in ("bytes", "kernels", "failed", "instructions", "ms", "largest_frame_bytes")
        }
        self.modules += 1
        self.megabytes += number["bytes"] / 1e6
        self.kernels += int(number["kernels"])
        self.failed += int(number["failed"])
        self.instructions += int(number["instructions"])
        self.milliseconds += number["ms"]
        self.largest_frame_bytes = max(self.largest_frame_bytes, int(number["largest_frame_bytes"]))
        if number["bytes"] >= LARGE_MODULE_BYTES and not number["failed"]:
            self.slowest_ms_per_megabyte = max(self.slowest_ms_per_megabyte, number["ms"] / (number["bytes"] / 1e6))
        failures = module["failures"]
        assert isinstance(failures, list)
        for failure in failures:
            message = str(failure["message"])
            found = re.match(r"unsupported instruction (\S+)", message)
            self.reasons[found[1] if found else message] += 1


def build_survey() -> Path:
    sys.path.insert(0, str(ROOT))
    from tests.native_build import BUILD, build_native

    build_native(BUILD)
    return BUILD / "fuzz" / "ptx_survey"


def unpack(archive: Path, directory: Path) -> Iterator[Path]:
    with zipfile.ZipFile(archive) as wheel:
        for name in wheel.namelist():
            if name.endswith((".so", ".ptx", ".fatbin", ".cubin")) or ".so." in name:
                yield Path(wheel.extract(name, directory))


def files_of(source: str, directory: Path) -> list[Path]:
    """The files behind a source that is no generator; what has to be unpacked or made goes to the directory."""
    path = Path(source)
    if path.suffix == ".whl":
        return sorted(unpack(path, directory))
    if path.is_file():
        return [path]
    if not path.is_dir():
        spec = importlib.util.find_spec(source)
        if spec is None or not spec.submodule_search_locations:
            raise SystemExit(f"{source}: no file, directory or installed package")
        path = Path(next(iter(spec.submodule_search_locations)))
    return sorted(file for file in path.rglob("*") if file.suffix in (".so", ".ptx") or ".so." in file.name)


def generate(generator: str, directory: Path) -> list[Path]:
    module = Path(__file__).parent / "kernels" / f"{generator}_kernels.py"
    subprocess.run([sys.executable, module, directory], check=True, stdout=sys.stderr)
    return sorted(directory.glob("*.ptx"))


def survey(program: Path, source: str, files: list[Path]) -> Coverage:
    coverage = Coverage(source)
    for file in files:
        done = subprocess.run([program, file], capture_output=True, text=True, check=True)
        for line in done.stdout.splitlines():
            module = json.loads(line)
            if (
                module["arch"] or file.suffix == ".ptx"
            ):  # a library without any container is reported as text that is none
                coverage.add(module)
    return coverage


def print_table(rows: list[Coverage]) -> None:
    print(f"{'source':32} modules       MB kernels decoded       %  MB/s  worst ms/MB")
    for row in rows:
        rate = row.megabytes / row.milliseconds * 1e3 if row.milliseconds else 0
        decoded = row.kernels - row.failed
        print(
            f"{Path(row.source).name[:32]:32} {row.modules:7} {row.megabytes:8.1f} {row.kernels:7} {decoded:7} "
            f"{row.percent:7.2f} {rate:5.0f} {row.slowest_ms_per_megabyte:12.1f}"
        )
        for reason, count in row.reasons.most_common():
            print(f"    {count} kernels: {reason}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="*", metavar="SOURCE", default=list(GENERATORS))
    parser.add_argument("--survey", type=Path, metavar="PROGRAM")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    program = arguments.survey or build_survey()
    rows = []
    for source in arguments.sources:
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            files = generate(source, directory) if source in GENERATORS else files_of(source, directory)
            rows.append(survey(program, source, files))
    total = Coverage("all", kernels=sum(row.kernels for row in rows), failed=sum(row.failed for row in rows))
    for row in rows:
        total.modules += row.modules
        total.megabytes += row.megabytes
        total.milliseconds += row.milliseconds
        total.instructions += row.instructions
        total.slowest_ms_per_megabyte = max(total.slowest_ms_per_megabyte, row.slowest_ms_per_megabyte)
        total.largest_frame_bytes = max(total.largest_frame_bytes, row.largest_frame_bytes)
        total.reasons.update(row.reasons)
    if arguments.json:
        print(json.dumps({row.source: {**asdict(row), "percent": round(row.percent, 3)} for row in [*rows, total]}))
    else:
        print_table([*rows, total])
    return 0


if __name__ == "__main__":
    sys.exit(main())
