"""A policy as a layer of a run: the decision table, the executors, and the shim in the driver's place."""

import os
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from controlplane.ipc.handover import Listener
from controlplane.ipc.memory_file import memory_file, name_of
from controlplane.machine.visible import unhidden
from controlplane.policy.language import COPIES, Executor, Policy
from controlplane.policy.table import Launches, compile_table, read_launches
from controlplane.run import beside, shim
from controlplane.run.launch import Change, compose
from controlplane.server.setup import WatchedPolicy
from ptxtools import native

STOP_SECONDS = 5.0
WAITING = 64  # applications that come before the executor is ready for them


def _limits(executor: Executor) -> list[str]:
    """The executor's arguments for what the policy lets it use."""
    sms = ["--sm-limit", str(executor.sm_limit)] if executor.sm_limit else []
    memory = ["--memory-limit", str(executor.memory_limit_bytes)] if executor.memory_limit_bytes else []
    return sms + memory


def home_policy(home: int) -> Policy:
    """For runs without a policy: everything stays on one GPU, with the shim in charge of memory."""
    return Policy(Path(), home, (), (), home, memory_place=home)


class Redirection:
    """One executor per further GPU of the policy, from entering the context to leaving it.

    `driver` is the libcuda.so.1 in use, real or emulated; `environment` is what the executors run with: that of the
    application without the shim, and with all GPUs visible: which the application sees is no matter of theirs. `beside`
    is what else it takes to prove pairs of GPUs (interpose/executor/prove.h) beside the run. The context is entered on
    a thread that lives longer: executors end with it.
    """

    def __init__(
        self, policy: Policy, driver: Path, environment: Mapping[str, str], beside: Change | None = None
    ) -> None:
        self.policy, self._driver, self._environment = policy, driver, environment
        self._beside = beside or Change()
        self._listeners = [Listener(WAITING) for _ in policy.executors]
        self._executors: list[subprocess.Popen[bytes]] = []
        table = compile_table(policy, [listener.name for listener in self._listeners])
        self._table = memory_file("tessera-policy", len(table))
        os.pwrite(self._table, table, 0)

    def __enter__(self) -> Self:
        # The driver's file need not be called libcuda.so.1, so it is preloaded. A kernel that is loaded on its first
        # launch waits for the GPU to drain, and an executor's streams may wait for what comes later on the same lane.
        # How often executors ask an emulated GPU whether it is done depends on the machine that emulates.
        variables = {"CUDA_MODULE_LOADING": "EAGER", "TESSERA_QUERY_TIME": "0"}
        needs = Change(self._driver, (self._driver.parent,), variables)
        environment = unhidden(compose([needs], self._environment))
        for executor, listener in zip(self.policy.executors, self._listeners, strict=True):
            # When it has ended, and it alone has this socket, applications are refused at once.
            inherited = listener.socket.fileno()
            command = [str(native.file("executor/tessera-executor")), "--device", str(executor.device)]
            command += ["--listener", str(inherited), "--owner", str(os.getpid()), *_limits(executor)]
            self._executors.append(
                # In a session of its own: an interrupt from the terminal is the program's, which may handle it.
                subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    env=environment,
                    pass_fds=[inherited],
                    start_new_session=True,
                )
            )
            listener.socket.close()
        if self.policy.memory_place == COPIES:
            self._prove(compose([self._beside], environment))
        return self

    def _prove(self, environment: Mapping[str, str]) -> None:
        """Starts who proves the pairs of GPUs; the result comes into the table, which processes wait for."""
        command = [str(native.file("executor/tessera-executor")), "--prove", str(self._table)]
        self._executors.append(
            subprocess.Popen(
                [*command, "--owner", str(os.getpid())],
                stdin=subprocess.PIPE,
                env=environment,
                pass_fds=[self._table],
                start_new_session=True,
            )
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closing an executor's standard input tells it that nobody will come any more."""
        for executor in self._executors:
            if executor.stdin:
                executor.stdin.close()
            executor.send_signal(signal.SIGCONT)  # one that somebody has stopped would not see it
        for executor in self._executors:
            beside.end(executor, STOP_SECONDS)
        for listener in self._listeners:
            listener.close()

    def change(self) -> Change:
        """What the application needs: the shim in front of the driver, and the table."""
        table = name_of(self._table)
        front = shim.change(self._driver)
        marks = (native.file(shim.MARKS),) if self.policy.marks_library_calls else ()
        return replace(front, variables={**front.variables, "TESSERA_POLICY": table}, preload=marks)

    def watched(self, verify: int | None, order: str | None) -> WatchedPolicy:
        """What the control plane process is told, so that edits of the policy take effect. verify, order: see there."""
        policy = self.policy
        return WatchedPolicy(
            str(policy.file.absolute()), policy.signature, self._table, verify, policy.disassemble.value, order
        )

    def launches(self) -> Launches:
        """Counts so far; may be asked while the application runs and afterwards."""
        return read_launches(self.policy, os.pread(self._table, os.fstat(self._table).st_size, 0))
