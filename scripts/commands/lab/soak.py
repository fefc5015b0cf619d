"""Runs a program that allocates and frees all the time under a policy, and says whether memory stays flat.

    scripts/lab soak [--hours H | --minutes M] [--memory copies] [--out DIRECTORY] [--threads N]

tests/soak/churn runs on three emulated GPUs, its launches on two executors, with --stats; the policy is edited every
few seconds. Of the program, each executor and the control plane, memory of their own (PSS without files on disk, whose
pages the kernel takes back, and which count more as soon as another process with the same libraries ends), descriptors,
threads and memory files are sampled, as well as /dev/shm, the memory in use on each GPU and, with copies, the
directory's cells and bytes and the bytes of copies. After a warm-up (a sixth of the time) the slope of each (Theil-Sen)
may take it up by no more than the tolerance within the rest. Writes samples.csv, verdict.json and memory.svg. Exit
status 0 when all is flat, the program ended well and, with copies, bytes were pulled. Needs a build tree with tests
(build/native, or the one that TESSERA_NATIVE names).
"""

import csv
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from ptxtools.native import records
from scripts.commands.dispatch import parser_of
from tests.command import with_project

ROOT = Path(__file__).resolve().parents[3]
PERIOD_SECONDS, EDIT_SECONDS, PROGRESS_SECONDS, MOST_PAIRS = 5.0, 4.0, 60.0, 400
WARM_UP_PART = 1 / 6
COPIES = "copies"
POLICY = """version: 1
devices: {{home: 0, executors: [1, 2]}}
rules:
  - {{match: {{function: k_one}}, device: {one}}}
  - {{match: {{function: k_two}}, device: {two}}}
  - {{match: {{function: k_other, nth: {{every: 2}}}}, device: {one}}}
default: home
memory: {{place: {place}}}
"""
# What a process may have more at the end of the measured time than at its beginning.
TOLERANCE = {
    "pss_kib": 2048.0,
    "descriptors": 8.0,
    "threads": 1.0,
    "memory_file_kib": 2048.0,
    "files": 1.0,
    "sockets": 1.0,
    # What the threads hold at a time goes up and down: sixteen allocations each.
    "used_kib": 32768.0,
    "copies_kib": 32768.0,
    "cells": 64.0,
    "directory_kib": 16.0,
}
UNITS = {name: "KiB" for name in TOLERANCE if name.endswith("_kib")}


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at one process, or at the machine."""

    seconds: float
    who: str
    values: dict[str, float]


@dataclass(frozen=True, slots=True)
class Slope:
    """How one number went; `growth` is that within the measured time."""

    who: str
    what: str
    first: float
    growth: float
    per_hour: float
    flat: bool


def children(pid: int) -> Iterator[int]:
    try:
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return
    for child in found:
        yield int(child)
        yield from children(int(child))


def role(pid: int, program: Path) -> str | None:
    """Which of the processes of interest it is."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return None
    if words[0] == bytes(program):
        return "program"
    if words[0].endswith(b"tessera-executor") and b"--device" in words:  # others prove pairs of GPUs
        parent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
        served = Path(f"/proc/{parent}/comm").read_text().startswith("tessera-exec")
        return f"executor {words[words.index(b'--device') + 1].decode()}" if served else None
    return "control plane" if b"controlplane.server.main" in words else None


def memory_files(pid: int) -> float:
    """KiB of the distinct memory files that it has open."""
    sizes = {}
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            if str(entry.readlink()).startswith("/memfd:"):
                status = entry.stat()
                sizes[status.st_ino] = status.st_blocks / 2
        except OSError:
            continue
    return sum(sizes.values())


def look(pid: int) -> dict[str, float]:
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    fields = {line.split(":")[0]: float(line.split()[1]) for line in rollup[1:]}
    return {
        "pss_kib": fields["Pss_Anon"] + fields["Pss_Shmem"],
        "rss_kib": fields["Rss"],
        "descriptors": float(sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())),
        "threads": float(sum(1 for _ in Path(f"/proc/{pid}/task").iterdir())),
        "memory_file_kib": memory_files(pid),
    }


def look_at_machine() -> dict[str, float]:
    """What could be left behind outside of processes: files of ours in /dev/shm and sockets without a file."""
    sockets = Path("/proc/net/unix").read_text().splitlines()
    ours = [line for line in sockets if "/tessera-" in line and " 00010000 " in line]
    return {"files": float(len(list(Path("/dev/shm").glob("tessera*")))), "sockets": float(len(ours))}


def shared(pid: int, variable: str, header: str, struct: str) -> Any:
    """A memory file that the process' environment names, as it is now."""
    words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    name = next(word.split(b"=", 1)[1] for word in words if word.startswith(variable.encode() + b"="))
    ffi, _ = records.header(header)
    return ffi.from_buffer(f"struct {struct} *", Path(name.decode()).read_bytes())


def look_at_gpus(pid: int, copies: bool) -> Iterator[tuple[str, dict[str, float]]]:
    """Memory in use on the emulated GPUs; of copies, what the shim reports of them."""
    machine = shared(pid, "TESSERA_MACHINE", "machine.h", "tsr_machine")
    policy = shared(pid, "TESSERA_POLICY", "policy.h", "tsr_policy")
    for gpu in range(machine.device_count):
        held = {"copies_kib": policy.copies_bytes[gpu] / 1024} if copies and gpu else {}
        yield f"GPU {gpu}", {"used_kib": machine.live[gpu].memory_used_bytes / 1024, **held}
    if copies:
        yield "directory", {"cells": float(policy.directory_cells), "directory_kib": policy.directory_bytes / 1024}


def slope_per_second(times: Sequence[float], values: Sequence[float]) -> float:
    """Theil-Sen: the median of the slopes between pairs of points."""
    step = max(1, len(times) // MOST_PAIRS)
    points = list(zip(times, values, strict=True))[::step]
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for i, a in enumerate(points) for b in points[i + 1 :] if b[0] > a[0]]
    return statistics.median(slopes) if slopes else 0.0


def judge(samples: Sequence[Sample], warm_up_seconds: float) -> list[Slope]:
    found = []
    for who in dict.fromkeys(sample.who for sample in samples):
        kept = [sample for sample in samples if sample.who == who and sample.seconds >= warm_up_seconds]
        if len(kept) < 3:
            raise SystemExit(f"{who}: {len(kept)} samples are too few")
        times = [sample.seconds for sample in kept]
        for what in (name for name in kept[0].values if name in TOLERANCE):
            slope = slope_per_second(times, [sample.values[what] for sample in kept])
            growth = slope * (times[-1] - times[0])
            first = statistics.median(sample.values[what] for sample in kept[: max(3, len(kept) // 10)])
            found.append(Slope(who, what, first, growth, slope * 3600, growth <= TOLERANCE[what]))
    return found


def round_marks(most: float) -> list[float]:
    """Up to seven multiples of 1, 2 or 5 times a power of ten, from 0 on."""
    power = 10 ** math.floor(math.log10(most / 6))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= most / 6)
    return [count * step for count in range(int(most / step) + 1)]


def draw(samples: Sequence[Sample], warm_up_seconds: float) -> str:
    """Memory of each process over time, as SVG."""
    width, height, left, top = 900, 420, 70, 30
    colors = ("#4e79a7", "#f28e2b", "#59a14f", "#b07aa1")
    seen = [sample for sample in samples if "pss_kib" in sample.values]
    longest = max(sample.seconds for sample in seen)
    highest = max(sample.values["pss_kib"] for sample in seen) * 1.1
    across, up = (width - left - 20) / longest, (height - top - 50) / highest
    floor = height - 50
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
        "<style>text{font:11px ui-sans-serif,system-ui,sans-serif;fill:#222}</style>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text x="{left}" y="18">Memory (PSS without files) in MiB over minutes; grey: warm-up</text>',
        f'<rect x="{left}" y="{top}" width="{warm_up_seconds * across:.1f}" height="{floor - top}" fill="#f0f1f3"/>',
    ]
    for mib in round_marks(highest / 1024):
        y = floor - mib * 1024 * up
        parts.append(f'<line x1="{left}" x2="{width - 20}" y1="{y:.1f}" y2="{y:.1f}" stroke="#d5d8dd"/>')
        parts.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{mib:g}</text>')
    for minutes in round_marks(longest / 60):
        x = left + minutes * 60 * across
        parts.append(f'<text x="{x:.1f}" y="{floor + 16}" text-anchor="middle">{minutes:g}</text>')
    for number, who in enumerate(dict.fromkeys(sample.who for sample in seen)):
        color = colors[number % len(colors)]
        line = " ".join(
            f"{left + sample.seconds * across:.1f},{floor - sample.values['pss_kib'] * up:.1f}"
            for sample in seen
            if sample.who == who
        )
        parts.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="1.5"/>')
        x = left + number * 150
        parts.append(f'<rect x="{x}" y="{height - 20}" width="10" height="10" fill="{color}"/>')
        parts.append(f'<text x="{x + 14}" y="{height - 11}">{escape(who)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def write_policy(file: Path, turn: int, place: str) -> None:
    """As editors do it: whole or not at all."""
    draft = file.with_suffix(".new")
    draft.write_text(POLICY.format(one=1 + turn % 2, two=2 - turn % 2, place=place))
    draft.replace(file)


def look_at_all(starter: int, program: Path, seconds: float, copies: bool) -> list[Sample]:
    found = [Sample(seconds, "machine", look_at_machine())]
    for pid in children(starter):
        who = role(pid, program)
        if who:
            try:
                found.append(Sample(seconds, who, look(pid)))
                if who == "program":
                    found += [Sample(seconds, *of_gpu) for of_gpu in look_at_gpus(pid, copies)]
            except (OSError, KeyError, IndexError):
                continue
    return found


def watch(process: "subprocess.Popen[str]", program: Path, policy: Path, place: str, total: float) -> list[Sample]:
    """Samples until a little before the program's time is over."""
    samples: list[Sample] = []
    start = edited = told = time.monotonic()
    turn = 0
    while process.poll() is None and (now := time.monotonic()) - start < total:
        if now - edited >= EDIT_SECONDS:
            turn, edited = turn + 1, now
            write_policy(policy, turn, place)
        if not samples or now - start - samples[-1].seconds >= PERIOD_SECONDS:
            samples += look_at_all(process.pid, program, now - start, place == COPIES)
        if now - told >= PROGRESS_SECONDS:
            told = now
            latest = {sample.who: sample.values.get("pss_kib", 0) / 1024 for sample in samples[-12:]}
            told_text = ", ".join(f"{who} {mib:.1f} MiB" for who, mib in latest.items() if mib)
            print(f"{(now - start) / 60:5.1f} min: {told_text}", flush=True)
        time.sleep(0.5)
    return samples


def write(directory: Path, samples: Sequence[Sample], warm_up_seconds: float, verdict: dict[str, object]) -> None:
    names = ("seconds", "who", "rss_kib", *TOLERANCE)
    with (directory / "samples.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows({"seconds": round(s.seconds, 1), "who": s.who, **s.values} for s in samples)
    (directory / "verdict.json").write_text(json.dumps(verdict, indent=1) + "\n")
    (directory / "memory.svg").write_text(draw(samples, warm_up_seconds))


def soak(native: Path, directory: Path, seconds: float, threads: int, memory: str) -> int:
    program = native.parent / "soak" / "churn"
    with tempfile.TemporaryDirectory() as place:
        policy, stats = Path(place) / "policy.yaml", Path(place) / "stats.json"
        write_policy(policy, 0, memory)
        command = [sys.executable, "-m", "controlplane.commands.run", "--emulate", "3", "--no-summary"]
        command += ["--policy", str(policy), f"--stats={stats}", "--", str(program), str(int(seconds)), str(threads)]
        environment = with_project(TESSERA_NATIVE=str(native))
        with (directory / "program.log").open("w") as log:
            process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, text=True, env=environment)
            try:
                samples = watch(process, program, policy, memory, seconds - PERIOD_SECONDS)
                code = process.wait(120)
            finally:
                if process.poll() is None:
                    process.send_signal(signal.SIGTERM)
        found = json.loads(stats.read_text()) if stats.exists() else {}
    counts, copies = found.get("launches", {}), found.get("memory_copies") or {}
    said = (directory / "program.log").read_text().splitlines()
    slopes = judge(samples, seconds * WARM_UP_PART)
    for slope in slopes:
        unit = UNITS.get(slope.what, "")
        print(
            f"{'flat' if slope.flat else 'GROWS':5} {slope.who:14} {slope.what:16} {slope.first:12.1f} {unit:3} "
            f"{slope.growth:+10.2f} in the measured time, {slope.per_hour:+10.2f} an hour"
        )
    pulled = sum(copies.get("pulled_bytes", {}).values())
    passed = code == 0 and "right" in said and all(slope.flat for slope in slopes)
    passed = passed and (memory != COPIES or pulled > 0)
    verdict: dict[str, object] = {
        "passed": passed,
        "seconds": seconds,
        "exit_code": code,
        "said": said[-3:],
        "launches": counts,
        "memory_copies": copies,
        "tolerance": TOLERANCE,
        "slopes": [{name: getattr(slope, name) for name in Slope.__slots__} for slope in slopes],
    }
    write(directory, samples, seconds * WARM_UP_PART, verdict)
    print(*said[-3:], sep="\n")
    if memory == COPIES:
        print(f"pulled {pulled / 2**20:.0f} MiB in {sum(copies.get('pulls', {}).values())}")
    print("flat" if passed else "NOT FLAT, or the program did not end well", f"after {seconds / 60:.1f} minutes")
    return 0 if passed else 1


def main(words: Sequence[str]) -> int:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("--hours", type=float)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--memory", default="follow", help="place of memory: follow, copies, home or a GPU")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "soak")
    arguments = parser.parse_args(words)
    seconds = 60 * (arguments.minutes or 60 * (arguments.hours or 1))
    if seconds < 40:
        parser.error("less than 40 seconds show nothing")
    arguments.out.mkdir(parents=True, exist_ok=True)
    native = Path(os.environ.get("TESSERA_NATIVE", ROOT / "build" / "native" / "native"))
    return soak(native.absolute(), arguments.out, seconds, arguments.threads, arguments.memory)
