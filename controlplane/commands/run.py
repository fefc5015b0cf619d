"""`tessera-run`: runs a program on GPUs of Tessera's choosing and says afterwards what ran where."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from controlplane import launch, summary
from controlplane.emulate import SPEC
from controlplane.emulation import Emulation
from controlplane.errors import ConfigError, TesseraError

NAME = "tessera-run"


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog=NAME,
        usage=f"{NAME} [options] -- program [argument ...]",
        description="Run an unmodified CUDA program. Ends with its exit code, or 128 + n if signal n ended it.",
        allow_abbrev=False,
    )
    result.add_argument("--emulate", metavar="SPEC", help=f"run on emulated GPUs: {SPEC}")
    result.add_argument(
        "--host-time",
        choices=("real", "frozen"),
        help="whether the host's time passes in virtual time (default: frozen)",
    )
    result.add_argument(
        "--summary", action=argparse.BooleanOptionalAction, default=True, help="print what ran where to standard error"
    )
    result.add_argument("--json", metavar="FILE", type=Path, help="write what ran where to a file")
    result.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point. The result is the exit code."""
    options = parser().parse_args(arguments)
    try:
        return _run(options)
    except TesseraError as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return error.exit_code


def _run(options: argparse.Namespace) -> int:
    command: list[str] = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        raise ConfigError("no program is given", expected=f"{NAME} [options] -- program [argument ...]")
    if options.emulate is None:
        raise ConfigError("nothing to do", expected=f"--emulate with {SPEC}")
    emulation = Emulation(options.emulate, options.host_time)
    code = launch.run(command, launch.compose([emulation.change()], os.environ))
    _report(emulation, command[0], options)
    return code


def _report(emulation: Emulation, program: str, options: argparse.Namespace) -> None:
    result = emulation.summary()
    if options.json is not None:
        try:
            options.json.write_text(summary.to_json(result))
        except OSError as error:
            raise ConfigError(f"--json {options.json}: {error.strerror}", expected="a writable file") from error
    if options.summary:
        explanation = emulation.explanation(program)
        sys.stderr.write(f"\n{NAME}: {explanation}\n" if explanation else f"\n{NAME}: {summary.to_text(result)}")
