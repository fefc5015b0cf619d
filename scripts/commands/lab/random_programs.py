"""Random programs whose launches run on other GPUs, compared byte for byte with the same programs without a policy.

    scripts/lab random-programs [--programs N] [--seed S] [--policies NAME,...] [--jobs N] [--json FILE] ...
    scripts/lab random-programs --all-copies --programs 50000 --jobs 28 [--json FILE]
    scripts/lab random-programs --shrink SEED --policies NAME [--tries N]

Programs are made from seeds (tests/random/program.h): threads, streams, events, memory of all kinds, graphs, modules
with variables, functions called by address, the device's heap. Each program runs under one policy on emulated GPUs; a
table says how many were equal. Of a failure it says the seed, and with --shrink makes it small: the operations that are
enough, and the command that runs them. Exit status 1 if a program differs, fails or hangs. Needs a build tree with
tests (build/native, or --build).

A policy's name can be followed by another place of memory, another number of GPUs and what is special about the
machine, nth+copies@4:no-peer:full (no-peer, pcie; full: little memory on other GPUs; limited: by memory_limit);
--memory, --gpus and --machines run each of the policies with that place, on each of these numbers, on each machine.
--all-copies stands for --memory copies --gpus 2,3,4 --machines plain,no-peer,full,limited,no-peer:full. Below the table
is what the programs did, by operation and kind of memory, and a campaign that never did one of some (replacing memory,
pools, lending it to another process) fails.
"""

import argparse
import dataclasses
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from scripts.commands.dispatch import parser_of
from tests.random.campaign import (
    ALONE,
    MACHINES,
    POLICIES,
    Campaign,
    Failure,
    Policy,
    Setting,
    Shrinker,
    named,
    run_campaign,
)

ROOT = Path(__file__).resolve().parents[3]
PROGRESS_SECONDS = 15.0
WANTED = ("replace", "lend", "async", "pool", "scatter", "chase", "copy", "graph_launch")
PLACED = ("all", "name", "nth", "share", "stream")  # that make sense with any place of memory


def arguments_of(words: Sequence[str]) -> argparse.Namespace:
    parser = parser_of(__name__, __doc__)
    parser.add_argument("--programs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1, help="of the first program")
    parser.add_argument(
        "--policies", help=f"of {', '.join(POLICIES)}; all by default, with --memory {', '.join(PLACED)}"
    )
    parser.add_argument("--memory", help="place of memory instead of the policies' own: copies, follow, home or a GPU")
    parser.add_argument("--gpus", help="numbers of GPUs instead of the policies' own, for example 2,3,4")
    parser.add_argument("--machines", help=f"plain, or some of {', '.join(MACHINES)}, each: plain,no-peer:full")
    parser.add_argument("--all-copies", action="store_true", help="copies of memory on machines of all kinds")
    parser.add_argument("--without", default="", help="features that no program uses, for example indirect,heap")
    parser.add_argument("--chunk", type=int, default=100, help="programs of a process")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--delay-seed", type=int, default=0, help="calls of the driver take longer, by this seed")
    parser.add_argument("--patience", type=int, default=15, help="seconds after which a program counts as hanging")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "native", help="build tree")
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument(
        "--shrink", type=int, metavar="SEED", help="make this program small under the first of --policies"
    )
    parser.add_argument("--tries", type=int, default=3, help="with --shrink: runs in which a smaller program may fail")
    options = parser.parse_args(words)
    if options.all_copies:
        options.memory, options.gpus = options.memory or "copies", options.gpus or "2,3,4"
        options.machines = options.machines or "plain,no-peer,full,limited,no-peer:full"
    return options


def policies_of(options: argparse.Namespace) -> list[Policy]:
    bases = (options.policies or ",".join(PLACED if options.memory else POLICIES)).split(",")
    place = f"+{options.memory}" if options.memory else ""
    machines = ["" if each == "plain" else f":{each}" for each in (options.machines or "plain").split(",")]
    names = [base + place + gpus + machine for machine in machines for gpus in _on(options.gpus) for base in bases]
    policies = [named(name) for name in names]
    if unknown := [name for name, policy in zip(names, policies, strict=True) if policy is None]:
        sys.exit(f"no such policy: {', '.join(unknown)}; there are {', '.join(POLICIES)}")
    return [policy for policy in policies if policy]


def _on(gpus: str | None) -> list[str]:
    return [f"@{number}" for number in gpus.split(",")] if gpus else [""]


def delayed(build: Path, folder: Path, seed: int) -> dict[str, str]:
    if not seed:
        return {}
    from tests.fault.fault_driver import build as build_driver
    from tests.fault.fault_driver import delays

    return delays(build / "native", build_driver(build / "native", build / "cuda-headers", folder), seed)


def describe(failure: Failure) -> str:
    command = f"scripts/lab random-programs --policies {failure.policy}"
    again = (
        f"alone {failure.alone} of {ALONE} times" if failure.alone else f"not alone; {command} --seed {failure.chunk}"
    )
    return f"seed {failure.seed}, {failure.policy}: {failure.what}; {again}\n    {command} --shrink {failure.seed}"


def table(campaign: Campaign) -> str:
    names = (
        f"{'policy':28} {'programs':>9} {'failed':>7} {'launches':>10} {'elsewhere':>10} {'unknown':>8} {'pulls':>8}"
    )
    lines = [f"{names} {'brought home':>13} {'full':>5} {'seconds':>8}"]
    for name, row in sorted(campaign.rows.items()):
        counts = f"{row.launches:10} {row.away:10} {row.unknown:8} {row.pulls:8} {row.brought_home:13} {row.full:5}"
        lines.append(f"{name:28} {row.programs:9} {row.failed:7} {counts} {row.seconds:8.0f}")
    done = ", ".join(f"{what} {count}" for what, count in campaign.done.most_common())
    lines += [f"what they did: {done}"] if done else []
    return "\n".join([*lines, f"{campaign.programs} programs ran, {len(campaign.failures)} failed"])


def missing(campaign: Campaign, options: argparse.Namespace) -> list[str]:
    """What --all-copies is to show and did not happen."""
    if not options.all_copies:
        return []
    rows = campaign.rows.values()
    sums = {
        "launches of which nothing is known": sum(row.unknown + row.brought_home for row in rows),
        "pulls": sum(row.pulls for row in rows),
        "GPUs without room": sum(row.full for row in rows),
        **{f"operation {what}": campaign.done[what] for what in WANTED},
    }
    return [what for what, count in sums.items() if not count]


def compare(setting: Setting, options: argparse.Namespace) -> int:
    started = said = time.monotonic()

    def progress(campaign: Campaign, failures: list[Failure]) -> None:
        for failure in failures:
            print(describe(failure), flush=True)
        nonlocal said
        if time.monotonic() - said > PROGRESS_SECONDS:
            said = time.monotonic()
            print(f"{campaign.programs} programs, {len(campaign.failures)} failed", file=sys.stderr, flush=True)

    seeds = range(options.seed, options.seed + options.programs)
    campaign = run_campaign(
        setting, policies_of(options), seeds, chunk=options.chunk, jobs=options.jobs, progress=progress
    )
    print(table(campaign))
    absent = missing(campaign, options)
    if absent:
        print(f"never happened: {', '.join(absent)}")
    if options.json:
        found = {
            "programs": campaign.programs,
            "seconds": round(time.monotonic() - started, 1),
            "policies": {name: dataclasses.asdict(row) for name, row in campaign.rows.items()},
            "done": campaign.done,
            "never_happened": absent,
            "failures": [dataclasses.asdict(failure) for failure in campaign.failures],
        }
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    return 1 if campaign.failures or absent or campaign.programs != options.programs else 0


def shrink(setting: Setting, options: argparse.Namespace) -> int:
    policy = policies_of(options)[0]
    shrinker = Shrinker(setting, policy, options.shrink, options.tries)
    left = shrinker.shrink(lambda ops: print(f"{len(ops)} operations are enough", flush=True))
    if left is None:
        print(f"seed {options.shrink} does not fail under {policy.name} in {options.tries} runs")
        return 0
    only = ",".join(left)
    arguments = f"--seed {options.shrink} --only {only}"
    folder = Path(tempfile.mkdtemp(prefix="random-"))
    run_it = " ".join(["tessera-run", *policy.files(folder), "--", str(setting.program), arguments, "--print"])
    print(f"TESSERA_NATIVE={setting.build / 'native'} {run_it}")
    return 1


def main(words: Sequence[str]) -> int:
    options = arguments_of(words)
    policies_of(options)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        variables = delayed(options.build, folder, options.delay_seed)
        setting = Setting(options.build.absolute(), folder, options.without, variables, options.patience)
        return compare(setting, options) if options.shrink is None else shrink(setting, options)
