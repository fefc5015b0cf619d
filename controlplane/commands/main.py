"""`tessera`: one module of this package per sub-command, each with add_arguments(parser) and run(options)."""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from typing import Protocol

from controlplane import __version__
from controlplane.commands import analyze, devices, doctor, graph, plan, policy, probe, profile, report, simulate, trace
from ptxtools.errors import TesseraError

SIGPIPE_CODE = 128 + signal.SIGPIPE


class Command(Protocol):
    """What a module of a sub-command offers."""

    HELP: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...
    def run(self, options: argparse.Namespace) -> int: ...


COMMANDS: dict[str, Command] = {
    "analyze": analyze,
    "devices": devices,
    "doctor": doctor,
    "graph": graph,
    "plan": plan,
    "policy": policy,
    "probe": probe,
    "profile": profile,
    "report": report,
    "simulate": simulate,
    "trace": trace,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point. The result is the exit code."""
    parser = argparse.ArgumentParser(prog="tessera", description="Look at what Tessera knows.", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"tessera {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name, module in COMMANDS.items():
        module.add_arguments(commands.add_parser(name, help=module.HELP, description=module.HELP, allow_abbrev=False))
    options = parser.parse_args(arguments)
    try:
        code = COMMANDS[options.command].run(options)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader has seen enough, as in `tessera trace show FILE | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return SIGPIPE_CODE
    except TesseraError as error:
        print(f"tessera: {error}", file=sys.stderr)
        return error.exit_code
