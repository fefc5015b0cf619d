"""How far something long has got, in the last line of a terminal, if it takes longer than a second.

Files and pipes get nothing of it. What is a part of something else that is shown has a line below it.
"""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Self, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

FIRST_S = 1.0


class Progress:
    """total: None: nobody knows how much there is. stream: standard error, unless another one is given."""

    _shown: ClassVar[Bars | None] = None  # by the outermost one

    def __init__(
        self, what: str, total: int | None = None, stream: TextIO | None = None, first_s: float = FIRST_S
    ) -> None:
        self._what, self._total, self._first_s = what, total, first_s
        self._stream = sys.stderr if stream is None else stream
        self._begin: threading.Timer | None = None  # of the outermost one

    def __enter__(self) -> Self:
        self._bars = Progress._shown or _bars(self._stream)
        if self._bars is None:
            return self
        self._task: TaskID = self._bars.add_task(self._what, total=self._total)
        if Progress._shown is None:
            Progress._shown = self._bars
            self._begin = threading.Timer(self._first_s, self._bars.start)
            self._begin.daemon = True
            self._begin.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None and self._begin is None:
            self._bars.remove_task(self._task)
        elif self._bars is not None and self._begin is not None:
            Progress._shown = None
            self._begin.cancel()
            self._begin.join()
            if self._bars.live.is_started:
                self._bars.stop()

    def step(self, count: int = 1) -> None:
        if self._bars is not None:
            self._bars.advance(self._task, count)


def _bars(stream: TextIO) -> Bars | None:
    """None: nobody would see them."""
    if not stream.isatty():
        return None
    from rich import progress  # only here: files and pipes do without

    from controlplane.base.drawing import terminal_of

    terminal = terminal_of(stream)
    return (
        None
        if terminal.is_dumb_terminal
        else progress.Progress(
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(),
            progress.TaskProgressColumn(),
            progress.TimeElapsedColumn(),
            console=terminal,
            transient=True,
            redirect_stdout=False,  # it may be a file
        )
    )
