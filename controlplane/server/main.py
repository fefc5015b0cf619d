"""The control plane process: the only one that does input and output with programs under Tessera.

tessera-run starts it before the program, in a session of its own so that an interrupt from the terminal does not
end it before the program. It serves until the other end of its control socket is closed (the program has ended, or
tessera-run is gone), finishes its services, writes the report to that socket and ends. What it does is up to its
services.
"""

import mmap
import os
import resource
import select
import signal
import socket
import sys
from pathlib import Path

from controlplane.ipc.loop import Loop, Service, serve
from controlplane.server.setup import READY, Setup, WatchedPolicy, complain
from ptxtools.errors import InternalError

ABANDONED_SECONDS = 0.7


def main() -> int:
    """Whatever goes wrong in here is told in one line, between the lines of a program that goes on."""
    try:
        return _main(Setup.from_argument(sys.argv[1]))
    except Exception as error:
        complain(f"internal error of the control plane process: {type(error).__name__}: {error}")
        if os.environ.get("TESSERA_LOG") == "debug":
            raise
        return InternalError.exit_code


def _main(setup: Setup) -> int:
    control = socket.socket(fileno=setup.control)
    services = [] if setup.policy is None else [_watcher(setup.policy)]
    if setup.records < 0:
        serve(control, [_Abandoned(control), *services])
        return 0
    _allow_many_descriptors()
    # numpy and all that uses it: only here, so that tessera-run starts quickly.
    from controlplane.server.session import Session

    session = Session(setup, complain)
    control.sendall(READY)
    serve(control, [_Abandoned(control), *session.services, *services])
    report = session.finish()
    try:
        control.sendall(report.to_json().encode())
    except OSError:
        return 1
    return 0


class _Abandoned:
    """The first service to finish: when tessera-run is gone, nobody waits for a report, and the others get a moment."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control

    def start(self, loop: Loop) -> None:
        """Watches nothing."""

    def tick(self) -> float | None:
        return None

    def finish(self) -> None:
        """Of tessera-run that waits for the report, only one direction is closed."""
        state = select.poll()
        state.register(self._control, select.POLLRDHUP)
        if any(events & (select.POLLHUP | select.POLLERR) for _, events in state.poll(0)):
            signal.setitimer(signal.ITIMER_REAL, ABANDONED_SECONDS)  # SIGALRM ends the process


def _watcher(policy: WatchedPolicy) -> Service:
    from controlplane.policy.language import Order
    from controlplane.policy.watch import Watcher
    from ptxtools.machine.consent import Consent

    used = None if policy.signature is None else (policy.signature[0], policy.signature[1], policy.signature[2])
    consent = Consent(policy.disassemble)
    order = None if policy.order is None else Order(policy.order)
    return Watcher(Path(policy.file), used, mmap.mmap(policy.table, 0), complain, policy.verify, consent, order)


def _allow_many_descriptors() -> None:
    """Every thread of every process brings one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


if __name__ == "__main__":
    sys.exit(main())
