"""`tessera probe`: makes launches of a trace again, on poisoned memory, and says what they were seen to write."""

import argparse
import json
import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from controlplane.machine import SPEC
from controlplane.policy.read import amount_of
from ptxtools.errors import ConfigError
from ptxtools.machine.consent import Consent

if TYPE_CHECKING:
    from controlplane.analysis.poison import Experiment
    from controlplane.analysis.probe import Probe
    from controlplane.analysis.probing import FunctionProbes

MOST_RANGES = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--trace", metavar="TRACE", type=Path, required=True, help="of tessera-run --trace --trace-parameters"
    )
    parser.add_argument("--function", metavar="GLOB", default="*", help="only kernels whose name matches")
    parser.add_argument("--emulate", metavar="SPEC", help=f"on an emulated GPU: {SPEC}; else on the machine's first")
    parser.add_argument(
        "--launches", metavar="N", type=int, default=4, help="different launches of a kernel to make (default: 4)"
    )
    parser.add_argument(
        "--memory", metavar="SIZE", default="256MiB", help="of one launch's memory at most (default: 256MiB)"
    )
    parser.add_argument("--seconds", metavar="S", type=float, default=60.0, help="for one launch's runs (default: 60)")
    parser.add_argument(
        "--disassemble",
        choices=[each.value for each in Consent],
        default=Consent.OPEN.value,
        help="whose machine code the analysis may disassemble, which says what is unknown (default: open)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(options: argparse.Namespace) -> int:
    # numpy and all that uses it: only where it is needed, so that other commands start quickly.
    from controlplane.analysis.analyst import Analyst
    from controlplane.analysis.cache import Cache
    from controlplane.analysis.observed import Observations
    from controlplane.analysis.pool import Pool
    from controlplane.analysis.probing import Limits, probe_trace
    from controlplane.observe import trace

    memory = amount_of(options.memory)
    if memory is None:
        raise ConfigError(f"--memory {options.memory}", expected="an amount of memory, for example 1GiB")
    with ExitStack() as stack:
        environment = _environment(options.emulate, stack)
        found = probe_trace(
            trace.load(options.trace),
            Analyst(Cache(complain=_say), Pool()),
            Observations(),
            environment,
            Limits(options.launches, memory, options.seconds),
            options.function,
            Consent(options.disassemble),
            _say,
        )
    print(json.dumps({"functions": [_to_json(each) for each in found]}, indent=2) if options.json else _text(found))
    return 0


def _say(message: str) -> None:
    print(f"tessera: {message}", file=sys.stderr)


def _environment(emulate: str | None, stack: ExitStack) -> dict[str, str]:
    from controlplane.run.emulation import Emulation
    from controlplane.run.launch import compose

    if emulate is None:
        return dict(os.environ)
    emulation = Emulation(emulate)
    stack.callback(lambda: emulation)  # its machine is there as long as it is
    return compose([emulation.change()], os.environ)


def _to_json(function: "FunctionProbes") -> dict[str, object]:
    return {
        "name": function.name,
        "tier": "observed",
        "launches": function.launches,
        "cached": function.cached,
        "probed": [_probe_json(*each) for each in function.probed],
        "not_probed": dict(function.not_probed),
    }


def _probe_json(probe: "Probe", found: "Experiment") -> dict[str, object]:
    buffers = [
        {
            "parameters": [at for at, _ in buffer.pointers],
            "bytes": seen.size,
            "written": [{"first": first, "last": last} for first, last in seen.written],
            "written_bytes": seen.written_bytes,
            "exact": seen.is_exact,
            "matters": seen.matters,
        }
        for buffer, seen in zip(probe.buffers, found.buffers, strict=True)
    ]
    ends = {"runs": found.runs, "failed": found.failed, "stable": found.is_stable, "complete": found.is_complete}
    shape = {"grid": list(probe.grid), "block": list(probe.block), "shared_bytes": probe.shared_bytes}
    return {**shape, "parameters": probe.parameters, **ends, "buffers": buffers}


def _text(found: "list[FunctionProbes]") -> str:
    return "\n".join(line for function in found for line in _lines(function)) or "all launches have known ranges"


def _lines(function: "FunctionProbes") -> list[str]:
    from controlplane.base.demangle import short
    from controlplane.base.tables import LINE

    lines = [f"{short(function.name, LINE - 30)}: {function.launches} different unknown launches"]
    lines += [f"  not probed: {count}, as {reason}" for reason, count in function.not_probed.items()]
    for probe, experiment in function.probed:
        whole = "all" if experiment.is_complete else "only a part"
        runs = f"{experiment.runs} runs, {experiment.failed} failed"
        lines.append(f"  grid {_sizes(probe.grid)}, block {_sizes(probe.block)}: {runs}; {whole} seen")
        for buffer, seen in zip(probe.buffers, experiment.buffers, strict=True):
            at = ", ".join(str(each) for each, _ in buffer.pointers)
            role = "its contents matter" if seen.matters else "its contents do not matter"
            lines.append(f"    memory of {seen.size} bytes at parameter offset {at}: {_written(seen.written)}; {role}")
    return lines


def _sizes(sizes: tuple[int, int, int]) -> str:
    return "x".join(map(str, sizes))


def _written(ranges: list[tuple[int, int]]) -> str:
    shown = ", ".join(f"{first} to {last}" for first, last in ranges[:MOST_RANGES])
    rest = f" and {len(ranges) - MOST_RANGES} more ranges" if len(ranges) > MOST_RANGES else ""
    return f"bytes {shown}{rest} written" if ranges else "not written"
