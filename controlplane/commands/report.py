"""`tessera report`: one page for a browser on a profile, a plan or a trace."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from controlplane.base.progress import Progress
from controlplane.commands.simulate import on_devices, planned_by, request_count
from ptxtools.errors import ConfigError

if TYPE_CHECKING:
    from controlplane.profile.model import Profile
    from controlplane.simulate.place import Placement

TRACE = b"TSRTRACE"
PLAN = b'"tessera.plan/'
OPERATIONS = 60_000  # that are simulated for each placement
LEAST = 12  # requests


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="a profile; a plan, with --profile; or a trace")
    parser.add_argument("-o", "--output", metavar="HTML", type=Path, required=True)
    parser.add_argument("--profile", metavar="PROFILE", type=Path, help="of which a plan is")
    parser.add_argument(
        "--plan", metavar="PLAN", type=Path, help="with a profile or trace: this plan among the placements"
    )
    parser.add_argument("--devices", metavar="SPEC", help="on these GPUs, as for tessera-run --emulate: h100,l40s")
    parser.add_argument(
        "--requests", metavar="R", type=request_count, help="so many at a time (default: as the program does)"
    )


def run(options: argparse.Namespace) -> int:
    profile, plan, name = _of(options)
    profile = on_devices(profile, options.devices)
    planned = [] if plan is None else [planned_by(plan, profile)]
    with Progress("simulating and drawing"):
        drawn = page(profile, planned, options.requests or 0, options.file.name, name)
    try:
        options.output.write_text(drawn)
    except OSError as error:
        raise ConfigError(f"-o {options.output}: {error.strerror}", expected="a writable file") from error
    print(f"wrote {options.output}: open it in a browser")
    return 0


def page(profile: Profile, planned: Sequence[Placement], requests: int, title: str, name: str) -> str:
    """HTML. requests: so many at a time; 0: as the program does. title: if the profile has none; name: of its file."""
    # numpy and all that uses it: only where it is needed, so that other commands start quickly.
    from controlplane.report.page.draw import draw
    from controlplane.simulate.comparison import compare
    from controlplane.simulate.load import Load

    count = max(OPERATIONS // len(profile.iteration.operations), LEAST, 3 * requests)
    load = Load(min(count, 400), (), requests, profile.iteration.threads)
    return draw(compare(profile, load, planned, keep=True), profile.program or title, name)


def _of(options: argparse.Namespace) -> tuple[Profile, Path | None, str]:
    """The profile, the plan if there is one, and the profile's file. Errors: ConfigError."""
    from controlplane.profile import file

    head = _head(options.file)
    if head.startswith(TRACE):
        return _of_trace(options.file), options.plan, "PROFILE"
    if PLAN in head:
        if options.profile is None:
            expected = "--profile PROFILE, the one that it was made of"
            raise ConfigError(f"{options.file} is a plan, which does not hold its program", expected=expected)
        return file.read(options.profile), options.file, str(options.profile)
    return file.read(options.file), options.plan, str(options.file)


def _head(file: Path) -> bytes:
    try:
        with file.open("rb") as stream:
            return stream.read(256)
    except OSError as error:
        raise ConfigError(error.strerror or str(error), expected="a profile, a plan or a trace", file=file) from error


def _of_trace(file: Path) -> Profile:
    from controlplane.commands.profile import profile_of_trace

    return profile_of_trace(file, None, None, lambda message: print(f"tessera: {message}", file=sys.stderr))
