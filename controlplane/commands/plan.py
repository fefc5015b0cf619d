"""`tessera plan`: where the launches of a profiled program should run, how good that is, and what limits it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from controlplane.base.progress import Progress
from controlplane.base.screen import show
from controlplane.commands.simulate import on_devices
from ptxtools.errors import ConfigError

if TYPE_CHECKING:
    from controlplane.profile.model import GpuType

OBJECTIVES = ("throughput", "latency", "cost", "energy")
MOST_REQUESTS = 4096


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("profile", metavar="PROFILE", type=Path, help="of tessera-run --profile FILE")
    parser.add_argument(
        "--objective", choices=OBJECTIVES, default=OBJECTIVES[0], help="what is made as good as possible"
    )
    parser.add_argument(
        "--requests", metavar="R", type=_requests, help="in flight at once (default: threads of the profiled program)"
    )
    parser.add_argument("--policy", metavar="FILE", type=Path, help="its GPUs, their limits, and its rules hold")
    parser.add_argument(
        "--devices",
        metavar="SPEC",
        help="for these GPUs, as for tessera run --emulate: h100,l40s (default: the profile's)",
    )
    parser.add_argument("--price", metavar="GPU=DOLLARS", action="append", default=[], help="of an hour")
    parser.add_argument("--power", metavar="GPU=WATTS[:IDLE]", action="append", default=[], help="when it works")
    parser.add_argument("-o", "--output", metavar="PLAN", type=Path, help="write the plan")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _requests(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST_REQUESTS:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to {MOST_REQUESTS}")
    return int(text)


def run(options: argparse.Namespace) -> int:
    # numpy and all that uses it: only where it is needed, so that other commands start quickly.
    from controlplane.plan import output, planfile, planner, solver_package, text
    from controlplane.plan.judged import judge_of
    from controlplane.plan.problem import Objective
    from controlplane.plan.profiled import Wanted, problem_of
    from controlplane.policy.read import read_policy
    from controlplane.profile import file

    solver_package.require()
    profile = on_devices(file.read(options.profile), options.devices)
    dollars = {name: figures[0] for name, figures in _figures("--price", options.price, 1).items()}
    watts = {name: (figures[0], sum(figures[1:])) for name, figures in _figures("--power", options.power, 2).items()}
    wanted = Wanted(
        Objective(options.objective),
        options.requests or max(profile.iteration.threads, 1),
        read_policy(options.policy) if options.policy is not None else None,
        dollars,
        watts,
    )
    given = problem_of(profile, wanted)
    _known(
        [profile.machine.types[profile.machine.gpus[kind.numbers[0]]] for kind in given.problem.kinds],
        [*dollars, *watts],
    )
    with Progress("planning"):
        planned = planner.plan(given.problem, judge=judge_of(profile, wanted.requests))
    if options.output is not None:
        planfile.write(planfile.make(profile, planned, given.notes), options.output)
    if options.json:
        print(json.dumps(output.to_json(planned, given.notes), indent=2))
    else:
        show(text.to_text(planned, given.notes))
    return 0


def _figures(option: str, texts: Sequence[str], most: int) -> dict[str, list[float]]:
    found = {}
    for text in texts:
        name, _, figures = text.rpartition("=")
        try:
            numbers = [float(figure) for figure in figures.split(":")]
        except ValueError:
            numbers = []
        if not name or not 1 <= len(numbers) <= most or not all(0 <= number < 1e9 for number in numbers):
            expected = "GPU=DOLLARS, as in h100=2.5" if most == 1 else "GPU=WATTS or GPU=WATTS:IDLE, as in h100=700:100"
            raise ConfigError(f"{option} {text}", expected=expected)
        if numbers[1:] and numbers[1] > numbers[0]:
            raise ConfigError(f"{option} {text}: more when it waits than when it works", expected="WATTS:IDLE")
        found[name] = numbers
    return found


def _known(types: Sequence[GpuType], names: Sequence[str]) -> None:
    for name in names:
        if not any(name in (each.key, each.name) for each in types):
            shown = dict.fromkeys(each.key or each.name for each in types)
            raise ConfigError(f"there is no GPU {name!r} to plan for", expected=f"one of {', '.join(shown)}")
