"""`tessera top` on a terminal, with textual: a list of the programs that run, and all that is known of the chosen one.

It draws what view.py says of what runs.py reads, and nothing else.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.widgets import DataTable, Static

from controlplane.base.drawing import block
from controlplane.live import view
from controlplane.live.runs import Run

KEYS = "up, down: choose a program   tab: scroll what is said of it   q: end"


class Top(App[None]):
    """look: which runs there are. every_s: seconds between looks. clock: in seconds."""

    TITLE = "tessera top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    DataTable { height: auto; max-height: 40%; overflow-x: hidden; }
    VerticalScroll { border: round $primary; padding: 0 1; }
    VerticalScroll:focus { border: round $accent; }
    #keys { height: 1; padding: 0 1; color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [("q,ctrl+c", "quit", "End")]

    def __init__(
        self, look: Callable[[], Sequence[Run]], every_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__()
        self._look, self._every_s, self._clock = look, every_s, clock
        self._now: dict[int, Run] = {}
        self._before: dict[int, Run] = {}
        self._at = self._elapsed_s = 0.0
        self._programs = DataTable[Text](cursor_type="row")
        self._said = Static()
        self._panel = VerticalScroll(self._said)

    def compose(self) -> ComposeResult:
        yield from (self._programs, self._panel, Static(KEYS, id="keys"))

    async def on_mount(self) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self.exit)
        for name in view.PROGRAM_COLUMNS:
            self._programs.add_column(_cell(name, name), key=name)
        await self.update()
        self.set_interval(self._every_s, self.update)

    async def update(self) -> None:
        """Looks, and shows what there is now."""
        found, at = await asyncio.to_thread(self._look), self._clock()
        self._before, self._elapsed_s, self._at = self._now, at - self._at, at
        self._now = {run.pid: run for run in found}
        self._list()
        self._tell()

    def _list(self) -> None:
        """Rows stay where they are while their programs run, so that the chosen one stays chosen."""
        there = {int(key.value or 0) for key in self._programs.rows}
        for pid in there - self._now.keys():
            self._programs.remove_row(str(pid))
        for pid, run in self._now.items():
            cells = view.program(run, self._before.get(pid), self._elapsed_s)
            row = dict(zip(view.PROGRAM_COLUMNS, cells, strict=True))
            if pid not in there:
                self._programs.add_row(*(_cell(name, text) for name, text in row.items()), key=str(pid))
                continue
            for name, text in row.items():
                self._programs.update_cell(str(pid), name, _cell(name, text), update_width=True)

    def _tell(self) -> None:
        run = self._chosen()
        self._programs.display = self._panel.can_focus = run is not None
        self._panel.border_title = None if run is None else Text(view.heading(run))
        parts = [view.NOTHING] if run is None else view.of_run(run, self._before.get(run.pid), self._elapsed_s)
        self._said.update(block(parts))

    def _chosen(self) -> Run | None:
        if not self._programs.row_count:
            return None
        key = self._programs.coordinate_to_cell_key(self._programs.cursor_coordinate).row_key
        return self._now.get(int(key.value or 0))

    def on_data_table_row_highlighted(self) -> None:
        self._tell()


def _cell(column: str, text: str) -> Text:
    return Text(text, justify="left" if column == "program" else "right")
