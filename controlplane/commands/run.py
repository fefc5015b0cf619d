"""`tessera-run`: runs a program on GPUs of Tessera's choosing and says afterwards what ran where."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from controlplane.base import screen
from controlplane.commands.split import STATS_FILE, split
from controlplane.commands.words import Parser
from controlplane.machine.emulate import SPEC
from controlplane.policy import Launches, Policy, amount_of, read_policy
from controlplane.policy.explain import with_usual_memory
from controlplane.policy.language import COPIES, EXECUTORS, Order
from controlplane.policy.read import in_order, pooled, scheduled
from controlplane.run import launch, shim, summary
from controlplane.run.emulation import Emulation
from controlplane.run.launch import Change
from controlplane.run.numbers import Present, Question, emulated
from controlplane.run.outputs import Output
from controlplane.run.redirect import Redirection, home_policy
from controlplane.run.strict import failures
from controlplane.run.unchecked import EXIT_CODE, absent_packages, unchecked
from ptxtools.errors import ConfigError, TesseraError
from ptxtools.machine.consent import Consent

if TYPE_CHECKING:
    from controlplane.report.statistics import AnalysisReport, Report
    from controlplane.run.checks import CheckReport, Checks
    from controlplane.run.observation import Observation
    from controlplane.run.planned import Outcome as PlanOutcome
    from controlplane.run.planned import Planned

NAME = "tessera-run"
JSON, STATS, PROFILE = "--json ", "--stats=", "--profile "  # before the name of a file


@dataclass(frozen=True, slots=True)
class Outcome:
    """The program's exit code, what the policy did if there was one, statistics and checks if they were asked for, and
    what the analysis knew and what became of the plan if there was one.
    """

    code: int
    launches: Launches | None
    report: Report | None
    checks: CheckReport | None
    analysis: AnalysisReport | None
    plan: PlanOutcome | None = None


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
        "--verify",
        metavar="N",
        type=_count,
        help="run every N-th launch that runs elsewhere at home too and compare; --verify: every one",
    )
    group.add_argument(
        "--order",
        choices=[each.value for each in Order],
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
        choices=[each.value for each in Consent],
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
    emulation = None if options.emulate is None else Emulation(options.emulate, options.host_time)
    planned = None if options.plan is None else _planned(options.plan, options.adapt)
    if options.adapt is not None and planned is None:
        raise ConfigError("--adapt is about the plan that is followed", expected="--plan with a plan's file")
    has_policy = options.policy is not None or options.gpus is not None or planned is not None
    policy = _policy(options, emulation, planned) if has_policy else None
    if options.verify is not None and policy is None:
        raise ConfigError("--verify compares launches that run elsewhere", expected="--policy with a policy file")
    if options.order is not None and policy is None:
        raise ConfigError("--order is about launches that run elsewhere", expected="--policy with a policy file")
    if options.pool and policy is None:
        raise ConfigError("--pool is about the memory of several GPUs", expected="--gpus all, or --policy with a file")
    if options.reserve is not None and not options.pool:
        raise ConfigError("--reserve is about the pool of --pool", expected="--pool")
    calls = _is_observed(options)
    if policy is not None and policy.memory_place == COPIES:
        options.analyze = True  # launches go elsewhere only if it is known what they touch
    if options.bounds and policy is None and not _is_checked(options):
        raise ConfigError("--bounds is about memory that a policy serves", expected="--policy with a policy file")
    if options.strict and policy is None and not _is_checked(options):
        raise ConfigError("--strict is about rules and checks", expected="--policy, --check-writes or --check-accesses")
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
    from controlplane.run.profiled import Profiling  # only here: it is rare

    with Profiling(options.trace) as profiling:
        wanted = options.trace is not None
        options.trace, options.trace_parameters = profiling.trace, True
        options.timing = options.timing or "all"
        outcome = _execute(emulation, policy, options, calls=True, planned=planned)
        options.trace = options.trace if wanted else None
        driver = shim.system_driver() if emulation is None else emulation.change().driver or shim.system_driver()
        limits = {} if policy is None else {each.device: each.sm_limit or 0 for each in policy.executors}
        home, consent = 0 if policy is None else policy.home, _consent(policy, options.disassemble)
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
    verify = policy.verify if options.strict and policy is not None else options.verify
    missing = [*unchecked(outcome.launches, outcome.checks, outcome.analysis, verify), *faults]
    _report(emulation, outcome, options, [each for each in outputs if each.option != PROFILE])
    for each in missing:
        screen.show(f"{NAME}: {each}\n", sys.stderr)
    failed = list(failures(outcome.launches, outcome.checks)) if options.strict else []
    for each in failed:
        screen.show(f"{NAME}: --strict: {each}\n", sys.stderr)
    useless = None if outcome.plan is None else outcome.plan.fault(shlex.join(options.command))
    if useless is not None:
        screen.show(f"{NAME}: {useless}\n", sys.stderr)
    if useless is not None and outcome.code == 0:
        return ConfigError.exit_code
    return EXIT_CODE if (missing or failed) and outcome.code == 0 else outcome.code


def _planned(file: Path, profile: Path | None) -> Planned:
    from controlplane.run.planned import Planned  # only here: other runs start faster without it

    return Planned(file, profile)


def _policy(options: argparse.Namespace, emulation: Emulation | None, planned: Planned | None) -> Policy:
    """As this run uses it. Errors: ConfigError."""
    if options.gpus is not None and options.policy is not None:
        raise ConfigError("--gpus takes the place of a policy", expected="--policy with schedule: auto in its file")
    if options.gpus is not None:
        policy = _scheduled(options.gpus, emulation)
    else:
        policy = planned.policy() if options.policy is None and planned is not None else read_policy(options.policy)
    if options.verify is not None:
        policy = replace(policy, verify=options.verify)
    if options.order is not None:
        policy = in_order(policy, Order(options.order))
    if options.pool:
        policy = pooled(policy, options.reserve)
    if policy.pool and policy.verify:
        raise ConfigError("in a pool two GPUs may share the copy of memory that --verify compares", expected="no pool")
    if not policy.says_memory:
        policy = with_usual_memory(policy, _against_copies(options))
    if options.check_writes is not None and policy.memory_place == COPIES:
        raise ConfigError(
            "--check-writes takes what home pulls from another GPU's copy of memory for written",
            expected="another memory.place",
        )
    return policy


def _against_copies(options: argparse.Namespace) -> str:
    """What in the run speaks against copies of memory where the policy does not say that there are some."""
    if options.check_writes is not None:
        return "writes are checked"
    if options.disassemble == Consent.NONE.value:
        return "no machine code may be disassembled"
    return "; ".join(absent_packages()) if options.emulate is None else ""


def _is_observed(options: argparse.Namespace) -> bool:
    files = (options.stats_file, options.trace, options.profile)
    return bool(options.stats or any(file is not None for file in files) or options.analyze)


def _outputs(options: argparse.Namespace) -> list[Output]:
    files = {JSON: options.json, STATS: options.stats_file, PROFILE: options.profile}
    return [Output(option, file) for option, file in files.items() if file is not None]


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
    observed_run = _is_observed(options)
    checks = _checks(options) if _is_checked(options) else None
    redirection: Redirection | None = None
    observation: Observation | None = None
    with ExitStack() as stack:
        present = _present(emulation, driver, layers, stack) if policy is not None or observed_run else Present
        if policy is not None:
            if planned is not None:
                planned.check(policy, [gpu.name for gpu in present().gpus])
                layers.append(stack.enter_context(planned).change())
            present().check(policy)
        used = policy if policy is not None or checks is None else home_policy(present().first)
        if used is not None:
            beside = launch.Change() if emulation is None else emulation.beside()
            redirection = Redirection(used, driver, launch.compose(layers, os.environ), beside)
            layers.insert(0, stack.enter_context(redirection).change())
            bounded = emulation is not None if options.bounds is None else options.bounds
            layers.append(launch.Change(variables={"TESSERA_BOUNDS": str(int(bounded))}))
            if checks is not None:
                layers.append(stack.enter_context(checks).change(used))
        elif options.shim or emulation is None or observed_run:
            layers.insert(0, shim.change(driver))
        if observed_run or redirection is not None:
            from controlplane.run.observation import Observation  # only here: a plain run starts faster without it

            asked = options.verify, options.order
            watched = None if redirection is None or options.policy is None else redirection.watched(*asked)
            consent = _consent(policy, options.disassemble) if options.analyze else None
            clones = options.check_accesses is not None
            observation = stack.enter_context(
                Observation(
                    options.trace,
                    records=observed_run,
                    calls=calls,
                    policy=watched,
                    disassemble=consent,
                    clones=clones,
                )
            )
            layers.append(observation.change(options.timing, parameters=options.trace_parameters))
        layers.append(present().change())
        code = launch.run(options.command, launch.compose(layers, os.environ))
        launches = None if redirection is None or policy is None else redirection.launches()
        report = None if observation is None else observation.finish()
        analysis = None if report is None else report.analysis
        checked = None if checks is None else checks.report()
        if planned is not None:
            planned.finish()
        followed = None if planned is None else planned.outcome()
        return Outcome(code, launches, report if calls else None, checked, analysis, followed)


def _scheduled(words: str, emulation: Emulation | None) -> Policy:
    """The policy that --gpus stands for. Raises ConfigError."""
    numbers = [int(word) for word in words.split(",") if word.strip().isdigit()]
    if words != "all" and len(numbers) != len(words.split(",")):
        raise ConfigError(f"--gpus {words!r} names no GPUs", expected="all, numbers such as 0,1, or how many")
    if "," not in words:
        with ExitStack() as stack:
            driver = shim.system_driver() if emulation is None else emulation.change().driver or shim.system_driver()
            found = _present(emulation, driver, [], stack)()
        others = [gpu for gpu in range(len(found.gpus)) if gpu != found.first]
        most = len(found.gpus) if words == "all" else numbers[0]
        if words == "all" and len(found.gpus) == 1:
            print(
                f"{NAME}: --gpus all: there is one GPU, which all launches run on; --emulate 2 has more",
                file=sys.stderr,
            )
        if not 0 < most <= len(found.gpus):
            raise ConfigError(
                f"--gpus {words}: this machine has {len(found.gpus)}", expected="all, or as many as there are"
            )
        numbers = [found.first, *others[: most - 1]]
    if len(set(numbers)) != len(numbers) or len(numbers) > EXECUTORS + 1 or max(numbers) > EXECUTORS:
        raise ConfigError(f"--gpus {words!r} does not name GPUs", expected=f"each once, numbers up to {EXECUTORS}")
    return scheduled(numbers[0], numbers[1:])


def _present(
    emulation: Emulation | None, driver: Path, layers: Sequence[Change], stack: ExitStack
) -> Callable[[], Present]:
    """Who tells of the machine's GPUs; a real driver is asked from now on, and takes a while."""
    if emulation is None:
        return stack.enter_context(Question(driver, os.environ)).answer
    return cache(lambda: emulated(emulation.machine, driver, launch.compose(layers, os.environ)))


def _is_checked(options: argparse.Namespace) -> bool:
    return options.check_writes is not None or options.check_accesses is not None


def _checks(options: argparse.Namespace) -> Checks:
    from controlplane.run.checks import Asked, Checks  # only here: other runs start faster without it

    writes, accesses = options.check_writes, options.check_accesses
    what = {"writes": writes is not None, "accesses": accesses is not None}
    limits = {"most": options.check_most, "memory_bytes": options.check_memory}
    return Checks(Asked(writes or accesses, seed=options.check_seed, **what, **limits))


def _consent(policy: Policy | None, asked: str | None) -> Consent:
    """The command line's word comes before the policy's."""
    if asked is not None:
        return Consent(asked)
    return Consent.OPEN if policy is None else policy.disassemble


def _report(
    emulation: Emulation | None, outcome: Outcome, options: argparse.Namespace, outputs: Sequence[Output]
) -> None:
    result = None if emulation is None else emulation.summary()
    text = summary.to_json(result, outcome.launches, outcome.report, outcome.checks, outcome.analysis, outcome.plan)
    for output in outputs:
        if output.option == JSON:
            output.write(text)
        elif outcome.report is not None:
            _write_statistics(output, text)
    explanation = None if emulation is None else emulation.explanation(options.command[0])
    if explanation and (options.summary or options.stats):
        screen.show(f"\n{NAME}: {explanation}\n", sys.stderr)
    elif options.summary and (result is not None or outcome.launches is not None):
        waited_ns = None if outcome.report is None else outcome.report.waited_ns
        with_kernels = outcome.report is None
        tables = summary.to_text(result, outcome.launches, with_kernels=with_kernels, waited_ns=waited_ns)
        screen.show(f"\n{NAME}: {tables}", sys.stderr)
    if options.summary and outcome.plan is not None:
        screen.show(f"{NAME}: {outcome.plan.line()}\n", sys.stderr)
    if options.trace is not None and options.summary and outcome.report is not None:
        screen.show(_trace_line(outcome.report), sys.stderr)
    if options.summary and outcome.analysis is not None:
        screen.show(_analysis_line(outcome.analysis), sys.stderr)
    if options.summary and outcome.checks is not None:
        from controlplane.run import checks_text

        screen.show(f"{NAME}: {checks_text.to_text(outcome.checks)}", sys.stderr)
    if options.stats and outcome.report is not None and (outcome.report.processes or not explanation):
        from controlplane.report import text as report_text

        screen.show(f"\n{NAME}: {report_text.to_text(outcome.report)}", sys.stderr)


def _write_statistics(output: Output, text: str) -> None:
    """No failure of the program."""
    try:
        output.write(text)
    except ConfigError as error:
        print(f"{NAME}: {error.message}", file=sys.stderr)


def _analysis_line(found: AnalysisReport) -> str:
    pending = found.functions - found.known - found.unknown
    return (
        f"{NAME}: of {found.functions} functions, what {found.known} read and write is known, "
        f"of {found.unknown} it is not, {pending} were not analysed in time; {found.cached} were in the cache\n"
    ) + "".join(f"{NAME}: {each}\n" for each in (absent_packages() if found.unknown else []))


def _trace_line(report: Report) -> str:
    trace = report.trace
    if trace is None or not trace.complete:
        return ""
    each = f", {trace.bytes / trace.launches:.1f} bytes per launch" if trace.launches else ""
    return f"{NAME}: wrote {trace.file}: {trace.launches} launches, {trace.bytes} bytes{each}\n"


if __name__ == "__main__":
    sys.exit(main())
