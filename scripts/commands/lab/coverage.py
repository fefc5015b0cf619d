"""How many launches of real models have known ranges: runs tests/frameworks/zoo.py on this machine's GPU and analyses.

    scripts/lab coverage [--out DIR] [--steps N] [--share S] [--json FILE] [RUN...]
    scripts/lab coverage --traces TRACE...
    scripts/lab coverage --check

Each run is a model under `tessera-run --trace --trace-parameters`, then `tessera analyze --trace`; DIR gets the
trace, the analysis as JSON and as a picture. --traces analyses traces that are there. Exit status 1 when a run fails
or less than S of its launches (0.99), those that were not recorded among them, are known. --check, without a GPU,
says which packages are missing.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts.commands.dispatch import parser_of
from tests.command import with_project

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = ROOT / "tests" / "frameworks" / "zoo.py"
PACKAGES = ("torch", "transformers")
TIMEOUT_S = 1800


@dataclass(frozen=True, slots=True)
class Run:
    """A model, as it is or through torch.compile."""

    model: str
    compiled: bool = False

    @property
    def name(self) -> str:
        return f"{self.model}-compiled" if self.compiled else self.model


ALL = {
    run.name: run
    for run in (
        Run("llama-prefill"),
        Run("llama-prefill", compiled=True),
        Run("llama-decode"),
        Run("llama-decode", compiled=True),
        Run("diffusion"),
        Run("mixtral"),
        Run("mamba2"),
        Run("resnet50"),
        Run("whisper"),
    )
}


def record(run: Run, trace: Path, steps: int) -> str:
    """What went wrong; nothing if the text is empty."""
    options = ["--no-summary", "--timing", "off", "--trace", str(trace), "--trace-parameters"]
    command = [sys.executable, "-m", "controlplane.commands.run", *options, "--", sys.executable, str(PROGRAM)]
    command += [run.model, "--steps", str(steps), *(["--compile"] if run.compiled else [])]
    with trace.with_suffix(".log").open("w+") as log:
        try:
            code = subprocess.run(command, env=with_project(), stdout=log, stderr=log, timeout=TIMEOUT_S).returncode
        except subprocess.TimeoutExpired:
            return f"took longer than {TIMEOUT_S} s"
    return f"ended with code {code}, see {trace.with_suffix('.log')}" if code else ""


def analyse(trace: Path) -> dict[str, Any]:
    """The analysis as JSON, which is also written beside the trace."""
    command = [sys.executable, "-c", "import sys; from controlplane.commands.main import main; sys.exit(main())"]
    command += ["analyze", "--trace", str(trace), "--json", "--svg", str(trace.with_suffix(".svg"))]
    done = subprocess.run(command, env=with_project(), stdout=subprocess.PIPE, check=True, text=True)
    trace.with_suffix(".json").write_text(done.stdout)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def show(name: str, found: dict[str, Any]) -> None:
    total = found["coverage"]
    tiers = ", ".join(f"{tier} {count}" for tier, count in total["by_tier"].items())
    print(f"{name:24} {total['known_launches']:>8} of {total['launches']:>8}  {100 * total['share']:6.2f} %  {tiers}")
    if total["overwritten_share"] is not None:
        print(f"    {100 * total['overwritten_share']:6.2f} %  of written bytes are overwritten")
    if total["lost"]:
        print(f"    {total['lost']:>6}  more launches, which were not recorded")
    lost = [each for each in found["functions"] if each["known_launches"] < each["launches"]]
    for each in lost:
        reasons = "; ".join(each["reasons"])
        print(f"    {each['launches'] - each['known_launches']:>6}  {each['name'][:80]}: {reasons}", flush=True)


def check() -> int:
    for run in ALL.values():
        print(f"{run.name:24} {PROGRAM.name} {run.model}{' --compile' if run.compiled else ''}")
    missing = [package for package in PACKAGES if importlib.util.find_spec(package) is None]
    for source in (PROGRAM, PROGRAM.with_name("mmdit.py")):
        compile(source.read_text(), str(source), "exec")
    print(f"missing: {', '.join(missing) or 'nothing'}")
    return 0


def main(words: Sequence[str]) -> int:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("names", nargs="*", metavar="RUN", help=f"{', '.join(ALL)}; all by default")
    parser.add_argument("--traces", action="store_true", help="the names are files of traces")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "coverage")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--share", type=float, default=0.99)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args(words)
    if arguments.check:
        return check()
    wanted = arguments.names or list(ALL)
    if not arguments.traces and (unknown := [name for name in wanted if name not in ALL]):
        parser.error(f"no such run: {', '.join(unknown)}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    failed, totals = False, {}
    for name in wanted:
        trace = Path(name) if arguments.traces else arguments.out / f"{name}.trace"
        problem = "" if arguments.traces else record(ALL[name], trace, arguments.steps)
        if problem:
            print(f"{name:24} {problem}", flush=True)
            failed = True
            continue
        found = analyse(trace)
        show(trace.stem, found)
        totals[trace.stem] = found["coverage"]
        total = found["coverage"]
        failed |= total["known_launches"] < arguments.share * (total["launches"] + total["lost"])
    if arguments.json:
        arguments.json.write_text(json.dumps(totals, indent=2))
    return int(failed)
