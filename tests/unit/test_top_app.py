"""`tessera top` on a terminal, with textual: what is on its screen, and what keys do."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Awaitable, Callable
from dataclasses import replace
from html import unescape
from typing import TypeAlias

from textual.pilot import Pilot

from controlplane.live.app import KEYS, Top
from controlplane.live.runs import Run
from controlplane.live.view import NOTHING
from scripts.commands.gen.terminal import BEFORE, NOW, SIZE

Steps: TypeAlias = Callable[[Top, Pilot[None]], Awaitable[None]]
LETTER = 12.2  # wide, in the picture
TEXT = re.compile(r'<text class="terminal-[^"]*" x="([\d.]+)" y="([\d.]+)"[^>]*>([^<\n]+)</text>')
LIST = """\
  pid         age  GPUs  launches  per s  kept home  gain  program
 4711  1 min 15 s  0, 1    82,160    986        240  1.82  python serve.py --threads 4
 5120        12 s  0, 1     9,750    117          0     -  ./train --epochs 3"""
SERVED = """
   4711  python serve.py --threads 4  (1 min 15 s, virtual time 340.000 ms)
    GPU  name         launches  share  per s  busy  memory
      0  NVIDIA H200    41,200   50 %    494  85 %  9.4 GB
      1  NVIDIA H200    40,960   50 %    492  84 %  9.1 GB
    kept home although a rule sent them elsewhere: 240 (ranges: 200, capture: 40)
      ranges: it is not known, or not yet, what they touch: run it again, or say memory: {place: follow}
      capture: they are recorded into CUDA graphs; the graphs themselves may leave
    estimated gain: 1.82 times as early as the program's own GPU alone
    pulled from other GPUs' copies of memory: 1.3 GB in 310 on GPU 0, 16.9 GB in 655 on GPU 1; waits for
    another stream: 0
    of that for launches 3.9 GB, launches to come 14.3 GB
    a stream's work on one GPU waited for its work on another: 310
    copies held: 14.2 GB on GPU 1
    guard: placing paid off in 148 of 150 windows; 410 launches rested at home
    GPU  kernel     launches        time
      0  attention    20,600  201.000 ms
      1  attention    20,480  199.000 ms"""
TRAINED = """
   5120  ./train --epochs 3  (12 s)
    GPU  name         launches  share  per s  busy  memory
      0  NVIDIA H200       510    5 %      6     -       -
      1  NVIDIA H200     9,240   95 %    111     -       -
    kept home although a rule sent them elsewhere: 0
    the rule in line 5 matched no launch; did you mean softmax?
    launches by rule: line 4: 9,240, line 5: 0"""


def screen(app: Top) -> str:
    """Its text, without frames and empty lines."""
    rows: dict[float, str] = {}
    for x, y, text in TEXT.findall(app.export_screenshot()):
        before = rows.get(float(y), "").ljust(round(float(x) / LETTER))
        rows[float(y)] = before + unescape(text).replace("\xa0", " ")
    return "\n".join(filter(None, (re.sub("[─│╭╮╰╯]", " ", rows[y]).rstrip() for y in sorted(rows))))


def drive(steps: Steps, *looks: tuple[Run, ...]) -> Top:
    """With what is found at each look, a second apart; the last one goes on."""
    left, seconds = list(looks), iter(range(100))

    async def run() -> Top:
        app = Top(lambda: left.pop(0) if len(left) > 1 else left[0], 3600.0, lambda: float(next(seconds)))
        async with app.run_test(size=SIZE) as pilot:
            await steps(app, pilot)
        return app

    return asyncio.run(run())


def test_what_is_shown_of_the_program_that_the_arrow_keys_choose() -> None:
    async def steps(app: Top, pilot: Pilot[None]) -> None:
        await app.update()
        assert screen(app) == f"{LIST}{SERVED}\n {KEYS}"
        await pilot.press("down")
        await pilot.pause()
        assert screen(app) == f"{LIST}{TRAINED}\n {KEYS}"
        await app.update()
        assert f"{TRAINED.splitlines()[1]}\n" in screen(app)  # it stays chosen

    drive(steps, BEFORE, NOW)


def test_programs_come_and_end() -> None:
    served, trained = NOW

    async def steps(app: Top, pilot: Pilot[None]) -> None:
        assert screen(app) == f"  {NOTHING}\n {KEYS}"
        for number in (4711, 5120):
            await app.update()
            await pilot.pause()
            assert [line.split()[0] for line in screen(app).splitlines()[1:3]] == 2 * [str(number)]
        await app.update()
        await pilot.pause()
        assert screen(app) == f"  {NOTHING}\n {KEYS}"

    drive(steps, (), (served,), (trained,), ())


def test_words_of_a_command_are_no_markup() -> None:
    async def steps(app: Top, _: Pilot[None]) -> None:
        assert screen(app).count("./train '[bold]' [/]") == 2

    drive(steps, (replace(NOW[1], command="./train '[bold]' [/]"),))


def test_what_ends_it() -> None:
    async def by_key(_: Top, pilot: Pilot[None]) -> None:
        await pilot.press("q")

    async def by_control(_: Top, pilot: Pilot[None]) -> None:
        await pilot.press("ctrl+c")

    async def by_signal(_: Top, pilot: Pilot[None]) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await pilot.pause()

    for steps in (by_key, by_control, by_signal):
        assert drive(steps, NOW).return_code == 0
