"""The control plane process as a layer of a run: started before the program, asked for its report afterwards.

The program never depends on it: if it dies, records are no longer read, and that is all.
"""

import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from controlplane.ipc.handover import Listener
from controlplane.ipc.memory_file import name_of
from controlplane.report.statistics import Report, from_json
from controlplane.run import beside, shim
from controlplane.run.launch import Change
from controlplane.server.setup import READY, Setup, WatchedPolicy, complain
from ptxtools import native
from ptxtools.errors import ConfigError
from ptxtools.machine.consent import Consent

READY_SECONDS = 20.0  # it ends at once if the process does; on a busy machine Python alone takes seconds to start
FINISH_SECONDS = 10.0
WAITING_PROCESSES = 4096  # that have connected before the control plane process is up


class Observation:
    """Runs from entering the context on. Raises ConfigError when the trace cannot be written.

    records: whether programs are observed; calls: and not only what they load and which functions they launch; policy:
    one whose edits take effect; disassemble: what kernels read and write is found out while the program runs, and this
    is whose machine code may be for that; None: it is not; clones: functions' clones are made, too.
    """

    def __init__(
        self,
        trace: Path | None,
        *,
        records: bool = True,
        calls: bool = True,
        policy: WatchedPolicy | None = None,
        disassemble: Consent | None = None,
        clones: bool = False,
    ) -> None:
        self._trace, self._records, self._policy = trace, records, policy
        self._templates = -1 if disassemble is None else _create_templates()
        self._calls = calls
        self._disassemble, self._clones = disassemble or Consent.OPEN, clones
        self._listener: Listener | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def __enter__(self) -> Self:
        file = None if self._trace is None else _create(self._trace)
        ours, theirs = socket.socketpair()
        # Made here, so that the program can start at once: it may connect before anybody accepts.
        self._listener = Listener(WAITING_PROCESSES) if self._records else None
        with theirs:
            records = -1 if self._listener is None else self._listener.socket.fileno()
            setup = Setup(
                theirs.fileno(),
                records,
                file,
                str(self._trace),
                self._policy,
                self._templates,
                self._disassemble.value,
                self._clones,
            )
            table = None if self._policy is None else self._policy.table
            inherited = [theirs.fileno(), *(one for one in (file, table) if one is not None)]
            inherited += [one for one in (records, self._templates) if one >= 0]
            self._process = beside.start(
                "controlplane.server.main",
                setup.to_argument(),
                descriptors=inherited,
                environment={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            )
        if file is not None:
            os.close(file)
        if self._listener is not None:
            self._listener.socket.close()
        self._control = ours
        if self._records:
            _wait(ours)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._control is not None:
            self._control.close()
        if self._listener is not None:
            self._listener.close()
        if self._templates >= 0:
            os.close(self._templates)
        if self._process is not None:
            beside.end(self._process, FINISH_SECONDS)

    def change(self, timing: str | None = None, *, parameters: bool = False) -> Change:
        """timing: which launches the shim times on the GPU; None: as the environment says. parameters: whether launches
        are recorded with theirs, and with the operands of the library calls around them.
        """
        if self._listener is None:
            return Change()
        variables = {"TESSERA_RECORDS": self._listener.name, "TESSERA_CALLS": str(int(self._calls))}
        if timing is not None:
            variables["TESSERA_TIMING"] = timing
        if parameters:
            variables["TESSERA_PARAMETERS"] = "1"
        if self._trace is not None or self._templates >= 0:
            variables["TESSERA_CODE"] = "1"
        if self._templates >= 0:
            variables["TESSERA_TEMPLATES"] = name_of(self._templates)
        return Change(variables=variables, preload=(native.file(shim.MARKS),) if parameters else ())

    def finish(self) -> Report | None:
        """Lets the control plane process end, within a bounded time; None without records, or if it has died."""
        if not self._records or self._control is None or self._process is None:
            return None
        answer, in_time = _read(self._control, time.monotonic() + FINISH_SECONDS)
        if not in_time:
            self._process.kill()
        code = self._process.wait()
        if code == 0:
            return from_json(answer.decode())
        how = "did not finish in time" if not in_time else f"ended with code {code}" if code > 0 else _signal(-code)
        kept = "" if self._trace is None else f"; {self._trace} holds what had come before"
        complain(f"no statistics of this run: the control plane process {how}{kept}; the program was not affected")
        return None


def _create_templates() -> int:
    from controlplane.analysis import table  # only here: it reads the layout of records

    return table.create()


def _create(file: Path) -> int:
    try:
        return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise ConfigError(f"--trace {file}: {error.strerror}", expected="a writable file") from error


def _wait(control: socket.socket) -> None:
    """Until records are read, as a program may fill its rings in its first milliseconds. Bounded."""
    control.settimeout(READY_SECONDS)
    try:
        control.recv(len(READY))
    except OSError:
        complain("the control plane process is slow to start; records may be lost")


def _read(control: socket.socket, deadline: float) -> tuple[bytes, bool]:
    """Closing our direction asks for the answer. What came, and whether it ended before the deadline."""
    answer = b""
    try:
        control.shutdown(socket.SHUT_WR)
        while True:
            control.settimeout(max(deadline - time.monotonic(), 0.001))
            piece = control.recv(1 << 16)
            if not piece:
                return answer, True
            answer += piece
    except TimeoutError:
        return answer, False
    except OSError:
        return answer, True


def _signal(number: int) -> str:
    return f"was ended by signal {number} ({signal.strsignal(number)})"
