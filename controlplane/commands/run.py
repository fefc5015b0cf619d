"""`tessera-run`: runs a program on GPUs of Tessera's choosing and says afterwards what ran where."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from controlplane.commands.split import STATS_FILE, split
from controlplane.commands.words import Parser
from controlplane.machine import SPEC
from controlplane.run import launch, shim
from controlplane.run.launch import Change
from controlplane.run.outcome import Outcome
from ptxtools.errors import ConfigError, TesseraError

if TYPE_CHECKING:
    from controlplane.policy.language import Policy
    from controlplane.run.checks import Checks
    from controlplane.run.emulation import Emulation
    from controlplane.run.outputs import Output
    from controlplane.run.planned import Planned
    from controlplane.run.redirect import Redirection

# A module of the run is imported where an option asks for it: a run without them starts in a tenth of a second.

NAME = "tessera-run"
PLACES = "--policy, --gpus or --emulate"
PLACING = "--policy with a policy file, --gpus or --plan"
HOME, ALL = "home", "all"  # what the program sees
ORDERS = "stream", "data"  # of controlplane.policy.language.Order
CONSENTS = "open", "all", "none"  # of ptxtools.machine.consent.Consent
JSON, STATS, PROFILE = "--json ", "--stats=", "--profile "  # before the name of a file


def parser(name: str = NAME) -> argparse.ArgumentParser:
    result = Parser(
        prog=name,
        usage=f"{name} [options] -- program [argument ...]",
        description="Run an unmodified CUDA program. Ends with its exit code, or 128 + n if signal n ended it; with 3 "
        "if it ended with 0 but a check that was asked for checked nothing (--strict: or failed).",
        allow_abbrev=False,
    )
    _add_place(result.add_argument_group("where the program runs", "without any: on the machine's own driver"))
    _add_report(result.add_argument_group("what is said about it"))
    _add_checks(result.add_argument_group("whether what is known of its kernels is true"))
    return result


def _count(text: str) -> int:
    if not text.isdigit() or int(text) >= 2**32:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    return int(text)


def _positive(text: str) -> int:
    if _count(text) == 0:
        raise argparse.ArgumentTypeError("0 is too small")
    return _count(text)


def _size(text: str) -> int:
    from controlplane.policy.read import amount_of

    found = amount_of(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not an amount of memory, for example 20GiB")
    return found


def _add_place(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--emulate", metavar="SPEC", help=f"run on emulated GPUs: {SPEC}")
    group.add_argument("--policy", metavar="FILE", type=Path, help="run launches on the GPUs that a policy names")
    group.add_argument(
        "--gpus",
        metavar="GPUS",
        help="place each launch by itself on several GPUs, without a policy (experimental): all, how many, or numbers "
        "such as 0,1, of which the first is the program's",
    )
    group.add_argument(
        "--plan",
        metavar="FILE",
        type=Path,
        help="run launches where a plan of `tessera plan PROFILE -o FILE` says; those that it does not have are placed "
        "as --gpus does (experimental)",
    )
    group.add_argument(
        "--adapt",
        metavar="PROFILE",
        type=Path,
        help="with --plan, of the profile that it was made of: follow another plan when requests in flight, the speed "
        "of GPUs or the shape of launches change, or an executor is lost",
    )
    group.add_argument(
        "--pool",
        action="store_true",
        help="the memory of all GPUs is one pool: a program that is larger than its GPU runs as it is (experimental)",
    )
    group.add_argument(
        "--reserve",
        metavar="SIZE",
        type=_size,
        help="with --pool: memory of each GPU that is left to copies and drivers (default: 2GiB)",
    )
    group.add_argument(
        "--host",
        metavar="SIZE",
        type=_size,
        help="with --pool: page-locked host memory for what fits no GPU any more (default: none)",
    )
    group.add_argument(
        "--show",
        choices=(HOME, ALL),
        help="GPUs that CUDA_VISIBLE_DEVICES names to the program: its own, or all (default: home in a pool, else all)",
    )
    group.add_argument(
        "--verify",
        metavar="N",
        type=_count,
        help="run every N-th launch that runs elsewhere at home too and compare; --verify: every one",
    )
    group.add_argument(
        "--order",
        choices=ORDERS,
        help="what launches of one stream that run on different GPUs wait for: those before them, or only where data "
        "flows, with copies of memory (default: what the policy says, else stream)",
    )
    group.add_argument(
        "--bounds",
        action=argparse.BooleanOptionalAction,
        help="whether accesses beyond an allocation, and to freed memory, fault under a policy as they do without one "
        "(default: on emulated GPUs; on others each allocation takes 2 MiB more at most)",
    )
    group.add_argument(
        "--shim",
        action="store_true",
        help="stand in front of the driver even if nothing asks for it (only for --emulate)",
    )
    group.add_argument(
        "--host-time",
        choices=("real", "frozen"),
        help="whether the host's time passes in virtual time (default: frozen)",
    )


def _add_report(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--stats",
        action="store_true",
        help="print statistics of launches, copies and waiting to standard error; --stats=FILE writes them as JSON",
    )
    group.add_argument(STATS_FILE, dest="stats_file", metavar="FILE", type=Path, help=argparse.SUPPRESS)
    group.add_argument(
        "--trace", metavar="FILE", type=Path, help="write a trace, for `tessera trace show FILE` and `... export FILE`"
    )
    group.add_argument(
        "--profile",
        metavar="FILE",
        type=Path,
        help="write what the program does again and again, with all times, for `tessera profile show FILE`, `tessera "
        "simulate` and `tessera report`",
    )
    group.add_argument(
        "--trace-parameters",
        action="store_true",
        help="record the parameters of launches in the trace, for the ranges that `tessera analyze --trace` finds",
    )
    group.add_argument(
        "--analyze",
        action="store_true",
        help="find out what kernels read and write while the program runs, for the shim (cached on disk)",
    )
    group.add_argument(
        "--disassemble",
        choices=CONSENTS,
        help="whose machine code --analyze may disassemble; open: all but NVIDIA's closed libraries (default: what the "
        "policy says, else open)",
    )
    group.add_argument(
        "--timing",
        choices=("off", "sampled", "all"),
        help="which launches are timed on the GPU for --stats and --trace, which costs time (default: sampled)",
    )
    group.add_argument(
        "--summary",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="print what ran where (emulated GPUs, policy) to standard error",
    )
    group.add_argument("--json", metavar="FILE", type=Path, help="write what ran where to a file")
    group.add_argument(
        "--metrics",
        metavar="[HOST:]PORT",
        help="answer Prometheus while the program runs, on the loopback interface (docs/metrics.md)",
    )


def _add_checks(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--check-writes",
        metavar="N",
        type=_positive,
        help="compare the bytes that launches change with those they are predicted to write: the first launch of each "
        "function, and one of N as if at random; --check-writes: every one (docs/checking.md)",
    )
    group.add_argument(
        "--check-accesses",
        metavar="N",
        type=_positive,
        help="the same for each read, write and atomic access of kernels that have PTX, tested on the GPU by a "
        "rewritten clone of the kernel; with --check-writes both are checked of the same launches",
    )
    group.add_argument("--check-seed", metavar="SEED", type=_count, default=0, help="another seed draws other launches")
    group.add_argument("--check-most", metavar="M", type=_count, default=0, help="so many drawn launches at most")
    group.add_argument(
        "--check-memory", metavar="SIZE", type=_size, default=0, help="GPU memory for copies at most (default: any)"
    )
    group.add_argument(
        "--strict",
        action="store_true",
        help="end with 3, if the program ended with 0, also when a check found a difference, the policy's own verify "
        "verified nothing, or a rule matched no launch",
    )


def parse(arguments: Sequence[str], name: str = NAME) -> argparse.Namespace:
    """`command`: the program and its arguments. Errors: ConfigError."""
    words, command = split(arguments)
    options = parser(name).parse_args(words)
    options.command = command
    return options


def main(arguments: Sequence[str] | None = None, name: str = NAME) -> int:
    """Entry point. The result is the exit code; name: what was typed."""
    try:
        return _run(parse(sys.argv[1:] if arguments is None else arguments, name))
    except KeyboardInterrupt:  # before the program began, or after it ended
        from controlplane.base import interrupt  # only here: a start imports little

        return interrupt.end()
    except TesseraError as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return error.exit_code


def _run(options: argparse.Namespace) -> int:
    if not options.command:
        raise ConfigError("no program is given", expected=f"{NAME} [options] -- program [argument ...]")
    if options.timing is not None and not _is_observed(options):
        raise ConfigError("--timing is about statistics and traces", expected="--stats, --trace or --profile")
    if options.trace_parameters and options.trace is None:
        raise ConfigError("--trace-parameters is about traces", expected="--trace with a file")
    if _is_checked(options):
        options.analyze = True
    if None not in (options.check_writes, options.check_accesses) and options.check_writes != options.check_accesses:
        raise ConfigError("--check-writes and --check-accesses draw the same launches", expected="the same N for both")
    if options.disassemble is not None and not options.analyze:
        raise ConfigError("--disassemble is about what kernels read and write", expected="--analyze")
    emulation = None if options.emulate is None else _emulation(options)
    planned = None if options.plan is None else _planned(options.plan, options.adapt)
    if options.adapt is not None and planned is None:
        raise ConfigError("--adapt is about the plan that is followed", expected="--plan with a plan's file")
    has_policy = options.policy is not None or options.gpus is not None or planned is not None
    policy: Policy | None = None
    if has_policy:
        from controlplane.run.placing import policy_of

        policy = policy_of(options, emulation, planned)
    if options.verify is not None and policy is None:
        raise ConfigError("--verify compares launches that run elsewhere", expected=PLACING)
    if options.show is not None and policy is None:
        raise ConfigError("--show is about the GPUs that the program runs on", expected="--gpus or --policy")
    if options.order is not None and policy is None:
        raise ConfigError("--order is about launches that run elsewhere", expected=PLACING)
    if options.pool and policy is None:
        raise ConfigError("--pool is about the memory of several GPUs", expected="--gpus all, or --policy with a file")
    for option, given in (("--reserve", options.reserve), ("--host", options.host)):
        if given is not None and not options.pool:
            raise ConfigError(f"{option} is about the pool of --pool", expected="--pool")
    calls = _is_observed(options)
    if policy is not None and policy.has_copies:
        options.analyze = True  # launches go elsewhere only if it is known what they touch
    if options.bounds and policy is None and not _is_checked(options):
        raise ConfigError("--bounds is about memory that a policy serves", expected="--policy with a policy file")
    if options.strict and policy is None and not _is_checked(options):
        raise ConfigError("--strict is about rules and checks", expected="--policy, --check-writes or --check-accesses")
    if options.metrics is not None and policy is None and emulation is None:
        raise ConfigError("--metrics reads counters of policies and emulated GPUs", expected=PLACES)
    outputs = _outputs(options)
    for output in outputs:
        output.check()
    if not launch.is_there(options.command[0]):
        return launch.NOT_FOUND
    if options.profile is not None:
        return _profiled(emulation, policy, options, outputs, planned)
    outcome = _execute(emulation, policy, options, calls, planned)
    return _end(emulation, policy, outcome, options, outputs, [])


def _profiled(
    emulation: Emulation | None,
    policy: Policy | None,
    options: argparse.Namespace,
    outputs: Sequence[Output],
    planned: Planned | None,
) -> int:
    """A run with a trace of all launches, parameters and times, from which the profile is made."""
    from controlplane.run.outputs import Output
    from controlplane.run.placing import consent_of
    from controlplane.run.profiled import Profiling

    with Profiling(options.trace) as profiling:
        wanted = options.trace is not None
        options.trace, options.trace_parameters = profiling.trace, True
        options.timing = options.timing or "all"
        outcome = _execute(emulation, policy, options, calls=True, planned=planned)
        options.trace = options.trace if wanted else None
        driver = shim.system_driver() if emulation is None else emulation.change().driver or shim.system_driver()
        limits = {} if policy is None else {each.device: each.sm_limit or 0 for each in policy.executors}
        home, consent = 0 if policy is None else policy.home, consent_of(policy, options.disassemble)
        command = shlex.join(options.command)
        fault = profiling.write(command, Output(PROFILE, options.profile), emulation, driver, home, limits, consent)
    return _end(emulation, policy, outcome, options, outputs, [] if fault is None else [fault])


def _end(
    emulation: Emulation | None,
    policy: Policy | None,
    outcome: Outcome,
    options: argparse.Namespace,
    outputs: Sequence[Output],
    faults: Sequence[str],
) -> int:
    """Says what there is to say; the exit code."""
    told = (emulation is not None and options.summary) or outcome.launches or outcome.report or outcome.checks
    if not (told or outcome.analysis or outcome.plan or outputs or faults):
        return outcome.code
    from controlplane.run import closing

    return closing.end(emulation, policy, outcome, options, outputs, faults)


def _emulation(options: argparse.Namespace) -> Emulation:
    from controlplane.run.emulation import Emulation

    return Emulation(options.emulate, options.host_time)


def _planned(file: Path, profile: Path | None) -> Planned:
    from controlplane.run.planned import Planned

    return Planned(file, profile)


def _is_observed(options: argparse.Namespace) -> bool:
    files = (options.stats_file, options.trace, options.profile)
    return bool(options.stats or any(file is not None for file in files) or options.analyze)


def _outputs(options: argparse.Namespace) -> list[Output]:
    files = {JSON: options.json, STATS: options.stats_file, PROFILE: options.profile}
    if not any(files.values()):
        return []
    from controlplane.run.outputs import Output

    return [Output(option, file) for option, file in files.items() if file is not None]


def _hides(policy: Policy, options: argparse.Namespace) -> bool:
    """Whether the program is to see one GPU."""
    return options.show == HOME or (options.show is None and policy.pool)


def _execute(
    emulation: Emulation | None,
    policy: Policy | None,
    options: argparse.Namespace,
    calls: bool,
    planned: Planned | None = None,
) -> Outcome:
    """calls: whether somebody wants to know what the program calls."""
    layers = [] if emulation is None else [emulation.change()]
    driver = layers[0].driver if layers and layers[0].driver else shim.system_driver()
    if policy is None and not _is_observed(options):
        return Outcome(_plain(layers, driver, options))
    from controlplane.run.observation import Observation
    from controlplane.run.placing import consent_of, present_of
    from controlplane.run.redirect import Redirection, home_policy

    checks = _checks(options) if _is_checked(options) else None
    redirection: Redirection | None = None
    with ExitStack() as stack:
        present = present_of(emulation, driver, layers, stack)
        if policy is not None:
            if planned is not None:
                planned.check(policy, [gpu.name for gpu in present().gpus])
                layers.append(stack.enter_context(planned).change())
            present().check(policy)
        used = policy if policy is not None or checks is None else home_policy(present().first)
        if used is None:
            layers.insert(0, shim.change(driver))
        else:
            beside = launch.Change() if emulation is None else emulation.beside()
            redirection = Redirection(used, driver, launch.compose(layers, os.environ), beside)
            layers.insert(0, stack.enter_context(redirection).change())
            bounded = emulation is not None if options.bounds is None else options.bounds
            layers.append(launch.Change(variables={"TESSERA_BOUNDS": str(int(bounded))}))
            if checks is not None:
                layers.append(stack.enter_context(checks).change(used))
        asked = options.verify, options.order
        observation = stack.enter_context(
            Observation(
                options.trace,
                records=_is_observed(options),
                calls=calls,
                policy=None if redirection is None or options.policy is None else redirection.watched(*asked),
                disassemble=consent_of(policy, options.disassemble) if options.analyze else None,
                clones=options.check_accesses is not None,
            )
        )
        layers.append(observation.change(options.timing, parameters=options.trace_parameters))
        layers.append(present().change(policy.home if policy is not None and _hides(policy, options) else None))
        _serve_metrics(options, stack)
        code = launch.run(options.command, launch.compose(layers, os.environ))
        launches = None if redirection is None or policy is None else redirection.launches()
        report = observation.finish()
        analysis = None if report is None else report.analysis
        checked = None if checks is None else checks.report()
        if planned is not None:
            planned.finish()
        followed = None if planned is None else planned.outcome()
        return Outcome(code, launches, report if calls else None, checked, analysis, followed)


def _plain(layers: list[Change], driver: Path, options: argparse.Namespace) -> int:
    """The exit code of a program of whose launches nothing is asked."""
    if options.shim or options.emulate is None:
        layers.insert(0, shim.change(driver))
    with ExitStack() as stack:
        _serve_metrics(options, stack)
        return launch.run(options.command, launch.compose([*layers, launch.UNNUMBERED], os.environ))


def _serve_metrics(options: argparse.Namespace, stack: ExitStack) -> None:
    if options.metrics is not None:
        from controlplane.run.metrics import Metrics

        print(f"{NAME}: metrics at {stack.enter_context(Metrics(options.metrics)).address}", file=sys.stderr)


def _is_checked(options: argparse.Namespace) -> bool:
    return options.check_writes is not None or options.check_accesses is not None


def _checks(options: argparse.Namespace) -> Checks:
    from controlplane.run.checks import Asked, Checks

    writes, accesses = options.check_writes, options.check_accesses
    what = {"writes": writes is not None, "accesses": accesses is not None}
    limits = {"most": options.check_most, "memory_bytes": options.check_memory}
    return Checks(Asked(writes or accesses, seed=options.check_seed, **what, **limits))


if __name__ == "__main__":
    sys.exit(main())
