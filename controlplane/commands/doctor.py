"""`tessera doctor`: whether this machine has what Tessera needs, and what to do where it has not.

Ends with 0 when everything is usable, 1 when real GPUs are not but emulated ones are, 70 when the installation is
broken.
"""

import argparse
import json
import os
from dataclasses import asdict
from typing import TypedDict

from controlplane.machine import doctor
from controlplane.machine.doctor import Check, Report, State
from controlplane.machine.gpus import Gpu, Link
from ptxtools.errors import InternalError, TesseraError

VERDICTS = {
    State.OK: "Everything is usable.",
    State.NOTE: "Everything is usable; the notes say what could be better.",
    State.MISSING: "Emulated GPUs are usable (tessera-run --emulate); for real ones something is missing.",
    State.BROKEN: "The installation is broken.",
}
EXIT_CODES = {State.MISSING: TesseraError.exit_code, State.BROKEN: InternalError.exit_code}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(options: argparse.Namespace) -> int:
    report = doctor.diagnose(doctor.collect(os.environ))
    print(to_json(report) if options.json else to_text(report))
    return EXIT_CODES.get(report.worst, 0)


class DriverJson(TypedDict):
    """The driver. cuda: 13000 for 13.0; error: why nothing else is known."""

    path: str | None
    cuda: int
    release: str | None
    error: str | None


class DoctorJson(TypedDict):
    """What Tessera needs of a machine. verdict: the worst state of a check. emulated: whether the driver is."""

    verdict: State
    emulated: bool
    driver: DriverJson | None
    gpus: list[Gpu]
    links: list[Link]
    checks: list[Check]


def to_json(report: Report) -> str:
    answer = report.facts.answer
    parts: DoctorJson = {
        "verdict": report.worst,
        "emulated": report.facts.emulated,
        "driver": None
        if answer is None
        else {
            "path": str(report.facts.driver) if report.facts.driver else None,
            "cuda": answer.version,
            "release": answer.release,
            "error": answer.error,
        },
        "gpus": list(answer.gpus) if answer else [],
        "links": list(answer.links) if answer else [],
        "checks": list(report.checks),
    }
    return json.dumps(parts, indent=2, default=asdict)


def to_text(report: Report) -> str:
    lines = _head(report)
    width = max(len(check.name) for check in report.checks)
    for check in report.checks:
        remedy = f"  ({check.remedy})" if check.state is not State.OK else ""
        lines.append(f"{check.state:8} {check.name:{width}}  {check.found}{remedy}")
    return "\n".join([*lines, "", VERDICTS[report.worst]])


def _head(report: Report) -> list[str]:
    answer = report.facts.answer
    if answer is None or answer.error is not None:
        return []
    place = report.facts.driver or ("emulated" if report.facts.emulated else "libcuda.so.1")
    release = f", release {answer.release}" if answer.release else ""
    lines = [f"driver {place}{release}, CUDA {doctor.cuda_version(answer.version)}"]
    lines += [_gpu_line(gpu) for gpu in answer.gpus]
    if answer.links:
        lines += ["", *_matrix(answer.gpus, answer.links)]
    return [*lines, ""]


def _gpu_line(gpu: Gpu) -> str:
    version = f" {gpu.nvlink_version}" if gpu.nvlink_version else ""
    links = f", {gpu.nvlinks} links of NVLink{version}" if gpu.nvlinks else ""
    return (
        f"GPU {gpu.number}  {gpu.name}, {gpu.memory_bytes / 2**30:.1f} GiB, "
        f"compute capability {gpu.compute[0]}.{gpu.compute[1]}, {gpu.sm_count} SMs, {gpu.pci}{links}"
    )


def _matrix(gpus: tuple[Gpu, ...], links: tuple[Link, ...]) -> list[str]:
    """From row to column."""
    words = {(link.source, link.target): _word(link) for link in links}
    rows = [
        ["from \\ to", *(f"GPU {gpu.number}" for gpu in gpus)],
        *([f"GPU {a.number}", *(words.get((a.number, b.number), "-") for b in gpus)] for a in gpus),
    ]
    width = max(len(cell) for row in rows for cell in row)
    return ["  ".join(f"{cell:{width}}" for cell in row).rstrip() for row in rows]


def _word(link: Link) -> str:
    if not link.peer_access:
        return "no access"
    kind = "peer" if link.nvlink is None else "NVLink" if link.nvlink else "PCIe"
    return f"{kind}, atomics" if link.atomics else kind
