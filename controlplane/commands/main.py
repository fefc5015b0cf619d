"""`tessera`: one module of this package per sub-command, each with add_arguments(parser) and run(options).

A module is imported when its command is asked for, and no other.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Protocol

from controlplane import __version__
from controlplane.commands.words import Parser, RawHelp
from ptxtools.errors import ConfigError, TesseraError

SIGPIPE_CODE = 128 + signal.SIGPIPE
RUN = "run"  # the same as `tessera-run`, whose options end where a program begins

COMMANDS = {  # what each is for; its module has its name
    "demo": "show on emulated GPUs what a second GPU gives a program; needs no GPU, takes seconds",
    RUN: "run a program on the GPUs that a policy names, on several, or on emulated ones (as tessera-run)",
    "analyze": "say what the kernels of a PTX text, fat binary, cubin or executable read and write",
    "completion": "print what makes your shell complete tessera's words",
    "devices": "list the GPUs that can be emulated, or the machine that an --emulate argument describes",
    "doctor": "look for what Tessera needs: driver, GPUs, links, its own parts; the exit code tells",
    "graph": "show what depends on what in a trace, how much of it could run at once on several GPUs, and why not more",
    "plan": "plan where a profiled program's launches run: the placement, how far it is from the best one, what limits",
    "policy": "explain, check and try a policy, or print the language of policies as JSON Schema",
    "probe": "make launches of a trace whose ranges are unknown again, on poisoned memory, and say what they write",
    "profile": "show a profile of tessera-run --profile, or make one of a trace",
    "report": "write a page for a browser: what a program does, where it would run on several GPUs, what that brings",
    "simulate": "simulate a profiled program on these or other GPUs, with so many requests at a time or as they arrive",
    "top": "watch the programs that run under Tessera now: on which GPUs, how much, and why not elsewhere",
    "trace": "show a trace of tessera-run --trace, or export it for viewers",
}
ABOUT = """\
Runs an unmodified CUDA program on every GPU of the machine, one kernel launch at a time; where
there is no GPU, it runs the program on emulated ones.

  tessera demo                                      a first look, without a GPU
  tessera run --emulate 2 -- python app.py          on two emulated GPUs
  tessera run --policy rules.yaml -- python app.py  launches go where rules say
  tessera run --gpus all -- python app.py           launches are placed one by one (experimental)
"""
MORE = "`tessera COMMAND --help` says more of one. What does not work, and why: `tessera doctor`."


class Command(Protocol):
    """What a module of a sub-command offers."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...
    def run(self, options: argparse.Namespace) -> int: ...


def module_of(name: str) -> Command:
    found: Command = import_module(f"controlplane.commands.{name}")
    return found


def parser(*chosen: str) -> argparse.ArgumentParser:
    """For all commands, with the options of some."""
    result = Parser(
        prog="tessera",
        description=ABOUT,
        epilog=MORE,
        formatter_class=RawHelp,
        allow_abbrev=False,
    )
    result.add_argument("--version", action="version", version=f"tessera {__version__}")
    commands = result.add_subparsers(dest="command", required=True, metavar="COMMAND", title="commands")
    for name, text in COMMANDS.items():
        about = text[0].upper() + text[1:] + "."
        each = commands.add_parser(name, help=text, description=about, allow_abbrev=False)
        if name in chosen and name != RUN:
            module_of(name).add_arguments(each)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point. The result is the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == [RUN]:
        from controlplane.commands import run

        return run.main(words[1:], name="tessera run")
    if not words:
        parser().print_help()
        return ConfigError.exit_code
    try:
        options = parser(*words[:1]).parse_args(words)
        code = module_of(options.command).run(options)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader has seen enough, as in `tessera trace show FILE | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return SIGPIPE_CODE
    except KeyboardInterrupt:
        from controlplane.base import interrupt  # only here: a start imports little

        return interrupt.end()
    except TesseraError as error:
        print(f"tessera: {error}", file=sys.stderr)
        return error.exit_code
