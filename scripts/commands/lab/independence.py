"""How much of real models could run at once on two GPUs: runs tests/frameworks/independent.py on this machine's GPU.

    scripts/lab independence [--out DIR] [--units N] [--gpus N] [--json FILE] [--page] [PROGRAM...]
    scripts/lab independence --traces [--json FILE] TRACE...
    scripts/lab independence [--emulate SPEC] [--json FILE] -- COMMAND...
    scripts/lab independence --check

Each program runs under `tessera-run --trace --trace-parameters --timing all`, its trace goes through `tessera graph`.
DIR gets the trace, the log, the graph as JSON, and with --page as a page for a browser. What is printed: times one GPU,
as the bytes are known and if all were; bytes moved by request, branch or step; launches with a range that is only known
as its allocation; seconds that the graph took. Exit status 1 when a run fails or a program misses its targets
(TARGETS). With a command after --, that one instead; --traces takes traces that are there. --check, without a GPU, says
what is missing.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from controlplane.base.screen import plain
from controlplane.base.tables import amount, columns
from scripts.commands.dispatch import parser_of
from tests.command import with_project

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "tests" / "frameworks" / "independent.py"
PACKAGES = ("torch", "transformers")
TIMEOUT_S = 1800
NAMES = (
    *("llama-requests", "guidance", "ensemble", "bert", "vit", "whisper-encoder"),
    *("mamba2", "moe", "training", "decode"),
)
MOST_SECONDS = 10.0
UNITS = ("request", "branch", "step")


@dataclass(frozen=True, slots=True)
class Target:
    """gain: of two GPUs, at least; moved_bytes: by request or branch, at most; whole: share of launches, at most."""

    gain: float = 0.0
    moved_bytes: float = float("inf")
    whole: float = 0.001


TARGETS = {
    **{name: Target() for name in NAMES if name != "training"},
    **dict.fromkeys(("llama-requests", "guidance"), Target(1.9, 1e6)),
}


@dataclass(frozen=True, slots=True)
class Row:
    """Of one program. unit: what moved_bytes are by, on average; whole: share of launches."""

    name: str
    launches: int
    gain: float
    gain_if_known: float
    unit: str
    units: int
    moved_bytes: float
    whole: float
    unknown: int
    seconds: float


def row_of(name: str, found: dict[str, Any], seconds: float) -> Row:
    """From what `tessera graph --json` prints."""
    launches = max(found["operations"]["launch"], 1)
    unit = next((unit for unit in UNITS if unit in found["units"]), "")
    of = found["units"].get(unit, {"count": 1, "moved_bytes": [found["moved_bytes"]]})
    return Row(
        name,
        found["operations"]["launch"],
        found["gain"],
        found["gain_if_known"],
        unit or "program",
        of["count"],
        sum(of["moved_bytes"]) / max(of["count"], 1),
        found["whole_launches"] / launches,
        found["unknown_operations"],
        seconds,
    )


def misses(row: Row) -> list[str]:
    """What is not as it should be."""
    target = TARGETS.get(row.name, Target(whole=1.0))
    problems = []
    if row.gain < target.gain:
        problems.append(f"{row.gain:.2f} times one GPU, not {target.gain}")
    if row.moved_bytes > target.moved_bytes:
        problems.append(f"{amount(round(row.moved_bytes))} moved by {row.unit}")
    if row.whole > target.whole:
        problems.append(f"{100 * row.whole:.2f} % of its launches have a whole range")
    if row.seconds > MOST_SECONDS:
        problems.append(f"the graph took {row.seconds:.1f} s")
    return problems


def to_text(rows: Sequence[Row]) -> str:
    heading = ("program", "launches", "gain", "if known", "moved by", "each", "whole", "unknown", "graph")
    cells = [
        (
            row.name,
            str(row.launches),
            f"{row.gain:.2f}",
            f"{row.gain_if_known:.2f}",
            f"{row.units} x {row.unit}",
            amount(round(row.moved_bytes)),
            f"{100 * row.whole:.2f} %",
            str(row.unknown),
            f"{row.seconds:.1f} s",
        )
        for row in rows
    ]
    return plain(columns([heading, *cells], right=(1, 2, 3, 5, 6, 7, 8)))


def record(command: Sequence[str], trace: Path, more: Sequence[str]) -> str:
    """What went wrong; nothing if the text is empty."""
    options = ["--no-summary", "--timing", "all", "--trace", str(trace), "--trace-parameters", *more]
    whole = [sys.executable, "-m", "controlplane.commands.run", *options, "--", *command]
    log = trace.with_suffix(".log")
    with log.open("w") as stream:
        try:
            code = subprocess.run(whole, env=with_project(), stdout=stream, stderr=stream, timeout=TIMEOUT_S).returncode
        except subprocess.TimeoutExpired:
            return f"took longer than {TIMEOUT_S} s"
    return f"ended with code {code}, see {log}" if code else ""


def tessera(*words: str) -> str:
    """What `tessera` prints. Errors: RuntimeError with what it says."""
    command = [sys.executable, "-c", "import sys; from controlplane.commands.main import main; sys.exit(main())"]
    done = subprocess.run([*command, *words], env=with_project(), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return done.stdout


def look(name: str, trace: Path, gpus: int, *, page: bool) -> Row:
    """The second time, so that kernels are analysed already."""
    words = ("graph", str(trace), "--gpus", str(gpus))
    tessera(*words, *(["--html", str(trace.with_suffix(".html"))] if page else []))
    began = time.monotonic()
    said = tessera(*words, "--json")
    seconds = time.monotonic() - began
    trace.with_suffix(".json").write_text(said)
    return row_of(name, json.loads(said), seconds)


def check() -> int:
    for name in NAMES:
        print(f"{name:18} {PROGRAM.name} {name}")
    missing = [package for package in PACKAGES if importlib.util.find_spec(package) is None]
    for source in (PROGRAM, PROGRAM.with_name("mmdit.py"), PROGRAM.with_name("zoo.py")):
        compile(source.read_text(), str(source), "exec")
    print(f"missing: {', '.join(missing) or 'nothing'}")
    return 0


def main(words: Sequence[str]) -> int:
    words, command = (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, [])
    parser = parser_of(__name__, __doc__)
    parser.add_argument("names", nargs="*", metavar="PROGRAM", help=f"{', '.join(NAMES)}; all by default")
    parser.add_argument("--traces", action="store_true", help="the names are files of traces")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "independence")
    parser.add_argument("--units", type=int, default=16, help="requests, batches or steps of each (default: 16)")
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write the rows to a file")
    parser.add_argument("--page", action="store_true", help="also write a page for a browser for each")
    parser.add_argument("--emulate", metavar="SPEC", help="run the command on emulated GPUs")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args(words)
    if arguments.check:
        return check()
    wanted = arguments.names or ([] if command else NAMES)
    if not arguments.traces and (unknown := [name for name in wanted if name not in NAMES]):
        parser.error(f"no such program: {', '.join(unknown)}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    programs = {name: [sys.executable, str(PROGRAM), name, "--units", str(arguments.units)] for name in wanted}
    programs |= {"command": list(command)} if command else {}
    more = ["--emulate", arguments.emulate] if arguments.emulate else []
    rows, failed = list[Row](), False
    for name, program in programs.items():
        trace = Path(name) if arguments.traces else arguments.out / f"{name}.trace"
        problem = "" if arguments.traces else record(program, trace, more)
        try:
            rows += [] if problem else [look(trace.stem, trace, arguments.gpus, page=arguments.page)]
        except RuntimeError as error:
            problem = str(error)
        for each in [problem] if problem else misses(rows[-1]):
            print(f"{name}: {each}", file=sys.stderr, flush=True)
            failed = True
    if rows:
        print(to_text(rows))
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(row) for row in rows], indent=2))
    return int(failed)
