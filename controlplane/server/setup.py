"""What tessera-run tells the control plane process when it starts it, and how that process complains."""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass

NAME = "tessera-run"
READY = b"\n"  # the first byte on the control socket: records are read from now on


@dataclass(frozen=True, slots=True)
class WatchedPolicy:
    """A policy whose edits take effect: its file, its state when it was read, the live decision table's descriptor.

    verify, order: what the command line asked for; None: the file decides. disassemble: what the file said.
    """

    file: str
    signature: Sequence[int] | None
    table: int
    verify: int | None
    disassemble: str
    order: str | None


@dataclass(frozen=True, slots=True)
class Setup:
    """What a control plane process is told when it starts: descriptors that it inherits, and what to do with them."""

    control: int
    records: int = -1  # none are read
    trace: int | None = None
    trace_name: str = ""
    policy: WatchedPolicy | None = None
    templates: int = -1  # the table for templates; without it nothing is analysed
    disassemble: str = "open"  # whose machine code may be (ptxtools.machine.consent)
    clones: bool = False  # analyses come with clones

    def to_argument(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_argument(cls, argument: str) -> "Setup":
        value = json.loads(argument)
        return cls(**{**value, "policy": value["policy"] and WatchedPolicy(**value["policy"])})


def complain(message: str) -> None:
    """One line for the user. A standard error that nobody reads is no reason to fail."""
    try:
        os.write(2, f"{NAME}: {message}\n".encode(errors="backslashreplace"))
    except OSError:
        return
