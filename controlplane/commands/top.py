"""`tessera top`: the programs that run under Tessera now, on which GPUs, and why not elsewhere; until it is ended."""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import sys
import time
from dataclasses import asdict
from importlib.util import find_spec

from controlplane.base.screen import show
from ptxtools.errors import ConfigError

REQUIREMENT = "textual>=8.2,<8.3"  # of the extra `top`


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--once", action="store_true", help="one look, and end; what a pipe gets in any case")
    parser.add_argument("--json", action="store_true", help="print one JSON object, and end")
    parser.add_argument("--every", type=float, default=1.0, metavar="S", help="seconds between looks (default: 1)")


def run(options: argparse.Namespace) -> int:
    from controlplane.live.runs import runs  # only here: other commands start faster without it

    if not 0.1 <= options.every <= 3600:
        raise ConfigError(f"--every {options.every:g} is not usable here", expected="0.1 to 3600 seconds")
    if options.json:
        print(json.dumps({"runs": [asdict(each) for each in runs()]}, indent=2))
    elif options.once or not _is_terminal():
        _once(min(options.every, 1.0))
    elif find_spec("textual") is not None and sys.stdin.isatty() and sys.stderr.isatty():
        from controlplane.live.app import Top

        app = Top(runs, options.every)
        app.run()
        return app.return_code or 0
    else:
        _watch(options.every)
    return 0


def _is_terminal() -> bool:
    """One that can be drawn on."""
    if not sys.stdout.isatty():
        return False
    from controlplane.base.drawing import terminal_of

    return not terminal_of(sys.stdout).is_dumb_terminal


def _once(pause_s: float) -> None:
    from controlplane.live.runs import runs
    from controlplane.live.view import of_all

    before = {each.pid: each for each in runs()}
    time.sleep(pause_s if before else 0)
    show(of_all(runs(), before, pause_s))


def _watch(every_s: float) -> None:
    """Without keys: when textual is not installed, or only standard output is a terminal."""
    from rich.live import Live

    from controlplane.base.drawing import block, terminal_of
    from controlplane.live.runs import Run, runs
    from controlplane.live.view import of_all

    ended, end = os.pipe()
    # not an exception, which could come where nobody passes it on; nor an Event, whose lock may be held where it comes
    before_us = signal.signal(signal.SIGINT, lambda *_: os.write(end, b"."))
    try:
        with Live(console=terminal_of(sys.stdout), screen=True, auto_refresh=False) as screen:
            before_at, before = time.monotonic(), dict[int, Run]()
            while True:
                at, now = time.monotonic(), runs()
                shown = [_title(), "", *of_all(now, before, at - before_at)]
                screen.update(block(shown), refresh=True)
                if select.select([ended], [], [], every_s)[0]:
                    break
                before_at, before = at, {each.pid: each for each in now}
    finally:
        signal.signal(signal.SIGINT, before_us)
        os.close(ended)
        os.close(end)


def _title() -> str:
    more = "" if find_spec("textual") else f"; pip install '{REQUIREMENT}' for a list of programs to choose from"
    return f"tessera top (Ctrl-C ends it{more})"
