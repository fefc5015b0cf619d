"""The control plane process: the only one that does input and output with programs under Tessera.

tessera-run starts it before the program, in a session of its own so that an interrupt from the terminal does not
end it before the program. It serves until the other end of its control socket is closed (the program has ended, or
tessera-run is gone), finishes its services, writes the report to that socket and ends. What it does is up to its
services.
"""

import json
import os
import resource
import socket
import sys
from dataclasses import asdict, dataclass

from controlplane.errors import InternalError
from controlplane.loop import serve

NAME = "tessera-run"


@dataclass(frozen=True, slots=True)
class Setup:
    """What a control plane process is told when it starts: descriptors that it inherits, and what to do with them."""

    control: int
    records: int
    trace: int | None = None
    trace_name: str = ""

    def to_argument(self) -> str:
        return json.dumps(asdict(self))


def complain(message: str) -> None:
    """One line for the user. A standard error that nobody reads is no reason to fail."""
    try:
        os.write(2, f"{NAME}: {message}\n".encode())
    except OSError:
        return


def main() -> int:
    """Whatever goes wrong in here is told in one line, between the lines of a program that goes on."""
    try:
        return _main(Setup(**json.loads(sys.argv[1])))
    except Exception as error:
        complain(f"internal error of the control plane process: {type(error).__name__}: {error}")
        if os.environ.get("TESSERA_LOG") == "debug":
            raise
        return InternalError.exit_code


def _main(setup: Setup) -> int:
    _allow_many_descriptors()
    # numpy and all that uses it: only here, so that tessera-run starts quickly.
    from controlplane.observe.session import Session

    control = socket.socket(fileno=setup.control)
    session = Session(setup, complain)
    serve(control, [session.receiver])
    report = session.finish()
    try:
        control.sendall(report.to_json().encode())
    except OSError:
        return 1
    return 0


def _allow_many_descriptors() -> None:
    """Every thread of every process brings one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


if __name__ == "__main__":
    sys.exit(main())
