"""`tessera simulate`: what a profiled program would do on some GPUs, in virtual time."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from controlplane.base.progress import Progress
from controlplane.base.screen import show
from ptxtools.errors import ConfigError

if TYPE_CHECKING:
    from controlplane.profile.model import Profile
    from controlplane.simulate.load import Load
    from controlplane.simulate.place import Placement

MOST_REQUESTS = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("profile", metavar="PROFILE", type=Path, help="of tessera-run --profile FILE")
    parser.add_argument(
        "--devices",
        metavar="SPEC",
        help="on these GPUs, as for tessera-run --emulate: h100,l40s (default: the profile's)",
    )
    parser.add_argument("--plan", metavar="PLAN", type=Path, help="of tessera plan -o PLAN: as it places launches, too")
    load = parser.add_mutually_exclusive_group()
    load.add_argument(
        "--requests", metavar="R", type=request_count, help="so many at a time (default: as the program does it)"
    )
    load.add_argument(
        "--arrivals",
        metavar="SPEC",
        help="as they come: poisson:RATE (per second), or a CSV file as BurstGPT's or Azure's traces of LLM inference",
    )
    parser.add_argument(
        "--at-a-time",
        metavar="R",
        type=request_count,
        help="with --arrivals: how many are served at a time (default: the profiled program's threads)",
    )
    parser.add_argument("--count", metavar="N", type=request_count, help="simulate N requests (default: enough)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def request_count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST_REQUESTS:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to {MOST_REQUESTS}")
    return int(text)


def run(options: argparse.Namespace) -> int:
    # numpy and all that uses it: only where it is needed, so that other commands start quickly.
    from controlplane.profile import file
    from controlplane.simulate import text
    from controlplane.simulate.comparison import compare

    if options.at_a_time is not None and options.arrivals is None:
        raise ConfigError("--at-a-time is about requests that arrive", expected="--arrivals, or --requests R")
    profile = on_devices(file.read(options.profile), options.devices)
    planned = [] if options.plan is None else [planned_by(options.plan, profile)]
    with Progress("simulating"):
        found = compare(profile, _load(options, profile), planned)
    if options.json:
        print(json.dumps(text.to_json(found), indent=2))
    else:
        show(text.to_text(found))
    return 0


def planned_by(file: Path, profile: Profile) -> Placement:
    """As a plan says. Errors: ConfigError, of one for other launches or GPUs."""
    from controlplane.plan import planfile
    from controlplane.simulate.place import Fixed

    return Fixed("plan", planfile.patterns(planfile.read(file), profile, file))


def on_devices(profile: Profile, spec: str | None) -> Profile:
    """The same on other GPUs, the first of which is the program's own, or on its own ones: times that were not measured
    on one of these are scaled.
    """
    from controlplane.machine import emulate
    from controlplane.profile import machine, scale

    if spec is None:
        return scale.on_machine(profile, profile.machine)
    try:
        described = emulate.parse(spec)
    except ConfigError as error:
        message = error.message.replace("--emulate", "--devices")
        raise ConfigError(message, expected=error.expected, file=error.file, line=error.line) from error
    return scale.on_machine(profile, machine.of_emulated(described, emulated=profile.machine.emulated))


def _load(options: argparse.Namespace, profile: Profile) -> Load:
    from controlplane.simulate.load import Load, arrivals
    from controlplane.simulate.result import LEAST, MOST, OPERATIONS

    if options.arrivals is not None:
        usual = max(min(OPERATIONS // len(profile.iteration.operations), MOST), LEAST)
        return arrivals(options.arrivals, options.count or usual, options.at_a_time or profile.iteration.threads)
    if options.requests is not None:
        return Load(options.count or 0, (), options.requests)
    return Load(options.count or 0, threads=profile.iteration.threads)
