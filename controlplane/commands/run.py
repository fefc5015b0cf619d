"""`tessera-run`: runs a program on GPUs of Tessera's choosing and says afterwards what ran where."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from controlplane import launch, shim, summary
from controlplane.emulate import SPEC
from controlplane.emulation import Emulation
from controlplane.errors import ConfigError, TesseraError
from controlplane.policy import Launches, Policy, read_policy
from controlplane.redirect import Redirection

NAME = "tessera-run"


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog=NAME,
        usage=f"{NAME} [options] -- program [argument ...]",
        description="Run an unmodified CUDA program. Ends with its exit code, or 128 + n if signal n ended it.",
        allow_abbrev=False,
    )
    result.add_argument("--emulate", metavar="SPEC", help=f"run on emulated GPUs: {SPEC}")
    result.add_argument("--policy", metavar="FILE", type=Path, help="run launches on the GPUs that a policy names")
    result.add_argument(
        "--shim",
        action="store_true",
        help="stand in front of the driver even if nothing asks for it (only for --emulate)",
    )
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
    policy = None if options.policy is None else read_policy(options.policy)
    emulation = None if options.emulate is None else Emulation(options.emulate, options.host_time)
    code, launches = _execute(command, emulation, policy, options.shim or emulation is None)
    _report(emulation, launches, command[0], options)
    return code


def _execute(
    command: list[str], emulation: Emulation | None, policy: Policy | None, with_shim: bool
) -> tuple[int, Launches | None]:
    """The program's exit code, and what the policy did if there is one."""
    layers = [] if emulation is None else [emulation.change()]
    driver = layers[0].driver if layers and layers[0].driver else shim.system_driver()
    if policy is None:
        front = [shim.change(driver)] if with_shim else []
        return launch.run(command, launch.compose([*front, *layers], os.environ)), None
    with Redirection(policy, driver, launch.compose(layers, os.environ)) as redirection:
        environment = launch.compose([redirection.change(), *layers], os.environ)
        return launch.run(command, environment), redirection.launches()


def _report(emulation: Emulation | None, launches: Launches | None, program: str, options: argparse.Namespace) -> None:
    result = None if emulation is None else emulation.summary()
    if options.json is not None:
        try:
            options.json.write_text(summary.to_json(result, launches))
        except OSError as error:
            raise ConfigError(f"--json {options.json}: {error.strerror}", expected="a writable file") from error
    if options.summary and (result is not None or launches is not None):
        explanation = None if emulation is None else emulation.explanation(program)
        sys.stderr.write(
            f"\n{NAME}: {explanation}\n" if explanation else f"\n{NAME}: {summary.to_text(result, launches)}"
        )


if __name__ == "__main__":
    sys.exit(main())
