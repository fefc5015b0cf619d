"""`tessera graph`: what depends on what in a trace, and how much of it could run at the same time."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from controlplane.base.progress import Progress
from controlplane.base.screen import show
from ptxtools.errors import ConfigError

if TYPE_CHECKING:
    from controlplane.graph.study import Study
    from controlplane.observe.trace import Trace

MOST_GPUS = 16


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", metavar="TRACE", type=Path, help="of tessera-run --trace FILE --trace-parameters")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print one JSON object")
    form.add_argument("--dot", metavar="FILE", type=Path, help="write the graph for Graphviz")
    form.add_argument("--html", metavar="FILE", type=Path, help="write one page with a timeline of the GPUs")
    parser.add_argument(
        "--gpus", metavar="N", type=_gpus, default=2, help="on how many GPUs it is simulated (default: 2)"
    )
    parser.add_argument("--process", metavar="PID", type=int, help="look at this process (default: most launches)")


def _gpus(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST_GPUS:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to {MOST_GPUS}")
    return int(text)


def run(options: argparse.Namespace) -> int:
    from controlplane.graph import output, page, text
    from controlplane.observe import trace

    with Progress("finding what depends on what"):
        found = study_of(trace.load(options.trace, options.process), options.gpus)
    if options.json:
        print(json.dumps(output.to_json(found), indent=2))
        return 0
    if options.dot is not None:
        _write("--dot", options.dot, output.to_dot(found))
    elif options.html is not None:
        _write("--html", options.html, [page.draw(found, options.trace.name)])
    show(text.to_text(found))
    return 0


def study_of(loaded: Trace, gpus: int) -> Study:
    """Errors: ConfigError, of a trace without parameters."""
    # numpy and all that uses it: only where it is needed, so that other commands start quickly.
    from controlplane.analysis.analyst import Analyst
    from controlplane.analysis.cache import Cache
    from controlplane.analysis.pool import Pool
    from controlplane.graph.recorded import read_program
    from controlplane.graph.study import study
    from controlplane.graph.versions import dependencies
    from ptxtools.machine.consent import Consent

    program = read_program(loaded, Analyst(Cache(complain=_say), Pool()), Consent.OPEN, _say)
    return study(dependencies(program), gpus)


def _write(option: str, file: Path, lines: Iterable[str]) -> None:
    try:
        with file.open("w") as stream:
            stream.writelines(f"{line}\n" for line in lines)
    except OSError as error:
        raise ConfigError(f"{option} {file}: {error.strerror}", expected="a writable file") from error


def _say(message: str) -> None:
    print(f"tessera: {message}", file=sys.stderr)
