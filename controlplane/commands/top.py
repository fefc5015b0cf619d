"""`tessera top`: the programs that run under Tessera now, on which GPUs, and why not elsewhere; until Ctrl-C."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from dataclasses import asdict
from typing import NoReturn

from controlplane.base.screen import is_styled, styled
from ptxtools.errors import ConfigError

HOME, CLEAR_LINE, CLEAR_BELOW = "\033[H", "\033[K", "\033[J"
ENTER, LEAVE = "\033[?1049h\033[?25l", "\033[?25h\033[?1049l"  # a screen of our own, without a cursor


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--once", action="store_true", help="one look, and end; what a pipe gets in any case")
    parser.add_argument("--json", action="store_true", help="print one JSON object, and end")
    parser.add_argument("--every", type=float, default=1.0, metavar="S", help="seconds between looks (default: 1)")


def run(options: argparse.Namespace) -> int:
    from controlplane.live.runs import runs  # only here: other commands start faster without it
    from controlplane.live.view import lines

    if not 0.1 <= options.every <= 3600:
        raise ConfigError(f"--every {options.every:g} is not usable here", expected="0.1 to 3600 seconds")
    if options.json:
        print(json.dumps({"runs": [asdict(each) for each in runs()]}, indent=2))
        return 0
    if options.once or not is_styled(sys.stdout):
        before = {each.pid: each for each in runs()}
        time.sleep(min(options.every, 1.0) if before else 0)
        print("\n".join(lines(runs(), before, min(options.every, 1.0))))
        return 0
    sys.stdout.write(ENTER)
    try:
        _watch(options.every)
    except KeyboardInterrupt:
        return 0
    finally:
        sys.stdout.write(LEAVE)
        sys.stdout.flush()


def _watch(every_s: float) -> NoReturn:
    from controlplane.live.runs import Run, runs
    from controlplane.live.view import lines

    before_at, before = time.monotonic(), dict[int, Run]()
    while True:
        at, now = time.monotonic(), runs()
        size = shutil.get_terminal_size()
        shown = ["tessera top (Ctrl-C ends it)", "", *lines(now, before, at - before_at)][: size.lines - 1]
        text = f"{CLEAR_LINE}\n".join(styled(line[: size.columns]) for line in shown)
        sys.stdout.write(f"{HOME}{text}{CLEAR_LINE}{CLEAR_BELOW}")
        sys.stdout.flush()
        time.sleep(every_s)
        before_at, before = at, {each.pid: each for each in now}
