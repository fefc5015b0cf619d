"""`%%tessera`: a notebook's cell as a program of its own under tessera-run."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from controlplane.api import files
from controlplane.api.child import run
from controlplane.commands.run import parse
from controlplane.commands.split import END
from ptxtools.errors import ConfigError, TesseraError

if TYPE_CHECKING:
    from controlplane.observe.trace import Trace

NAME = "tessera"
LONGEST_PICTURE_NS = 10_000_000  # after the first launch
USAGE = "%%tessera [options of tessera run], for example %%tessera --emulate 2 --gpus all"


@runtime_checkable
class Shell(Protocol):
    """What is used of IPython's InteractiveShell."""

    def register_magic_function(self, func: Callable[..., object], magic_kind: str, magic_name: str) -> None: ...


def register(shell: Shell) -> None:
    """`%load_ext tessera`."""
    shell.register_magic_function(tessera, "cell", NAME)


def tessera(line: str, cell: str) -> None:
    """Runs the cell's code in a process of its own under `tessera run` with the options of the line.

    What it prints appears as it comes, then what ran where as a table. With --trace FILE and --profile FILE the trace
    and the report are shown, too. The process knows nothing of the notebook's variables, and leaves none.
    """
    from IPython.display import display

    try:
        options = shlex.split(line)
        asked = parse([*options, END, "true"])
        if asked.json is not None:
            raise ConfigError("--json is for the table under the cell", expected=USAGE)
        ran = run(cell, options, _say)
        display(ran)
        if asked.trace is not None and ran.report:
            display(_picture(files.read_trace(asked.trace)))
        if asked.profile is not None and ran.code == 0:
            display(files.report(files.read_profile(asked.profile)))
    except ValueError as error:  # of shlex
        print(f"tessera: {error}; expected {USAGE}", file=sys.stderr)
    except TesseraError as error:
        print(f"tessera: {error}", file=sys.stderr)
    except SystemExit:  # argparse has said why
        print(f"expected {USAGE}", file=sys.stderr)


def _picture(trace: Trace) -> files.Picture:
    first = files.launches(trace, limit=1)
    return files.picture(trace, 0, LONGEST_PICTURE_NS + (first[0].at_ns if first else 0))


def _say(text: str) -> None:
    print(text, end="", flush=True)
