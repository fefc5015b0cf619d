"""`tessera profile`: what a program gives its GPUs again and again, as a file that planning and simulation read."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from controlplane.base.progress import Progress
from controlplane.base.screen import show
from ptxtools.errors import ConfigError

if TYPE_CHECKING:
    from controlplane.profile.model import Profile


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="action")
    show = actions.add_parser("show", help="what is in it, in words", allow_abbrev=False)
    show.add_argument("file", metavar="PROFILE", type=Path)
    show.add_argument("--json", action="store_true", help="print one JSON object: the profile itself")
    make = actions.add_parser(
        "make",
        help="from a trace",
        description="From a trace of tessera-run --trace FILE --trace-parameters --timing all.",
        allow_abbrev=False,
    )
    make.add_argument("trace", metavar="TRACE", type=Path)
    make.add_argument("-o", "--output", metavar="FILE", type=Path, required=True)
    make.add_argument("--process", metavar="PID", type=int, help="of this process (default: most launches)")
    make.add_argument(
        "--machine",
        metavar="SPEC",
        help="the machine that it ran on, as for tessera-run --emulate (default: what the catalogue says of its GPUs)",
    )


def run(options: argparse.Namespace) -> int:
    return _show(options) if options.action == "show" else _make(options)


def _show(options: argparse.Namespace) -> int:
    from controlplane.base import valuefile
    from controlplane.profile import file, text

    profile = file.read(options.file)
    if options.json:
        print(json.dumps({"schema": file.SCHEMA, **valuefile.encoded(profile)}, indent=1))
    else:
        show(text.to_text(profile))
    return 0


def _make(options: argparse.Namespace) -> int:
    from controlplane.profile import file
    from controlplane.profile.text import line

    with Progress("making the profile"):
        profile = profile_of_trace(options.trace, options.process, options.machine, _say)
    file.write(profile, options.output)
    print(f"wrote {options.output}: {line(profile)}")
    return 0


def profile_of_trace(file: Path, process: int | None, spec: str | None, say: Callable[[str], None]) -> Profile:
    """spec: the machine that it ran on, as for --emulate. Errors: ConfigError."""
    # numpy and all that uses it: only where it is needed, so that other commands start quickly.
    from controlplane.analysis.analyst import Analyst
    from controlplane.analysis.cache import Cache
    from controlplane.analysis.pool import Pool
    from controlplane.graph.recorded import read_recording
    from controlplane.machine import emulate
    from controlplane.observe import trace
    from controlplane.profile import machine
    from controlplane.profile.recorded import profile_of
    from ptxtools.machine.consent import Consent

    loaded = trace.load(file, process)
    recording = read_recording(loaded, Analyst(Cache(complain=say), Pool()), Consent.OPEN, say)
    traced = recording.process.traced
    emulated = traced.process.emulated
    if spec is not None:
        found = machine.of_emulated(emulate.parse(spec), emulated=emulated)
        _check(traced.devices, len(found.gpus))
    else:
        found = machine.of_names(
            [traced.devices.get(number, "") for number in range(max(traced.devices, default=0) + 1)]
        )
    return profile_of(recording, found)


def _check(devices: dict[int, str], count: int) -> None:
    if max(devices, default=0) >= count:
        raise ConfigError(f"--machine has {count} GPUs, the trace {max(devices) + 1}", expected="at least as many")


def _say(message: str) -> None:
    print(f"tessera: {message}", file=sys.stderr)
