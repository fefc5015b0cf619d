"""What a run says at its end: the files of --json and --stats, and to standard error what ran where."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from controlplane.base.screen import show
from controlplane.run.strict import failures
from controlplane.run.unchecked import EXIT_CODE, absent_packages, unchecked
from ptxtools.errors import ConfigError

if TYPE_CHECKING:
    from controlplane.base.tables import Part
    from controlplane.policy.language import Policy
    from controlplane.report.statistics import AnalysisReport, TraceReport
    from controlplane.run.emulation import Emulation
    from controlplane.run.outcome import Outcome
    from controlplane.run.outputs import Output

NAME = "tessera-run"
MOST_NAMED, NAME_WIDTH = 3, 60  # functions, per reason
JSON, PROFILE = "--json ", "--profile "  # before the name of a file


def end(
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
    report(emulation, outcome, options, [each for each in outputs if each.option != PROFILE])
    for each in missing:
        _warn(each)
    failed = list(failures(outcome.launches, outcome.checks)) if options.strict else []
    for each in failed:
        _warn(f"--strict: {each}")
    useless = None if outcome.plan is None else outcome.plan.fault(shlex.join(options.command))
    if useless is not None:
        _warn(useless)
    if useless is not None and outcome.code == 0:
        return ConfigError.exit_code
    return EXIT_CODE if (missing or failed) and outcome.code == 0 else outcome.code


def report(
    emulation: Emulation | None, outcome: Outcome, options: argparse.Namespace, outputs: Sequence[Output]
) -> None:
    if outputs:
        _write(emulation, outcome, outputs)
    explanation = None if emulation is None else emulation.explanation(options.command[0])
    if explanation and (options.summary or options.stats):
        _say(explanation, apart=True)
    elif options.summary and (emulation is not None or outcome.launches is not None):
        from controlplane.run import summary  # only here: a program that used no GPU need not wait for it

        result = None if emulation is None else emulation.summary()
        waited_ns = None if outcome.report is None else outcome.report.waited_ns
        with_kernels = outcome.report is None
        tables = summary.to_text(result, outcome.launches, with_kernels=with_kernels, waited_ns=waited_ns)
        _say(*tables, apart=True)
    if options.summary and outcome.plan is not None:
        _say(outcome.plan.line())
    trace = None if options.trace is None or outcome.report is None else outcome.report.trace
    if options.summary and trace is not None and trace.complete:
        _say(_trace_line(trace))
    if options.summary and outcome.analysis is not None:
        for each in _analysis_lines(outcome.analysis):
            _say(each)
    if options.summary and outcome.checks is not None:
        from controlplane.run import checks_text

        _say(*checks_text.to_text(outcome.checks))
    if options.stats and outcome.report is not None and (outcome.report.processes or not explanation):
        from controlplane.report import text as report_text

        virtual = emulation is not None and options.host_time != "real"
        _say(*report_text.to_text(outcome.report, is_virtual=virtual), apart=True)


def _write(emulation: Emulation | None, outcome: Outcome, outputs: Sequence[Output]) -> None:
    from controlplane.run import summary

    result = None if emulation is None else emulation.summary()
    text = summary.to_json(result, outcome.launches, outcome.report, outcome.checks, outcome.analysis, outcome.plan)
    for output in outputs:
        if output.option == JSON:
            output.write(text)
        elif outcome.report is not None:
            _write_statistics(output, text)


def _write_statistics(output: Output, text: str) -> None:
    """No failure of the program."""
    try:
        output.write(text)
    except ConfigError as error:
        print(f"{NAME}: {error.message}", file=sys.stderr)


def _say(*parts: Part, apart: bool = False) -> None:
    """apart: after an empty line, as the program may have written, too."""
    if apart:
        sys.stderr.write("\n")
    show(parts, sys.stderr, f"{NAME}: ")


def _warn(text: str) -> None:
    from controlplane.base.tables import Warned  # only here: most runs have nothing to warn of

    _say(Warned(text))


def _analysis_lines(found: AnalysisReport) -> list[str]:
    pending = found.functions - found.known - found.unknown
    counts = (
        f"what functions read and write: of {found.functions}, {found.known} are known, {found.unknown} are not, "
        f"{pending} were not analysed in time; {found.cached} were in the cache"
    )
    return [counts, *_unexpected(found.reasons), *(absent_packages() if found.unknown else [])]


def _unexpected(reasons: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Closed libraries' functions are seldom known by themselves: their calls are."""
    if not reasons:
        return
    from controlplane.analysis.describe import REFUSED  # only here: most runs have no reason to
    from controlplane.base.demangle import short

    for reason, names in reasons.items():
        if reason != REFUSED:
            named = ", ".join(short(name, NAME_WIDTH) for name in names[:MOST_NAMED])
            yield f"not known, {reason}: {named}{' and others' if len(names) > MOST_NAMED else ''}"


def _trace_line(trace: TraceReport) -> str:
    from controlplane.base.tables import many  # only here: most runs have no trace

    each = f", {trace.bytes / trace.launches:.1f} bytes per launch" if trace.launches > 1 else ""
    return f"wrote {trace.file}: {many(trace.launches, 'launch', 'launches')}, {trace.bytes} bytes{each}"
