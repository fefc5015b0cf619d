"""Running an application under a policy: the decision table, the executors, and the shim's environment."""

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from controlplane import native
from controlplane.errors import WireError
from controlplane.policy import Launches, Policy, compile_table, read_launches

STOP_SECONDS = 5.0
DRIVER_PLACES = (
    "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
    "/usr/lib64/libcuda.so.1",
    "/usr/local/nvidia/lib64/libcuda.so.1",
    "/usr/lib/wsl/lib/libcuda.so.1",
)


@dataclass(frozen=True, slots=True)
class Redirection:
    """`environment` is what the application needs on top of its own; launches() works while it runs and afterwards."""

    policy: Policy
    environment: Mapping[str, str]
    descriptor: int

    def launches(self) -> Launches:
        return read_launches(self.policy, os.pread(self.descriptor, os.fstat(self.descriptor).st_size, 0))


def system_driver() -> Path:
    """The real driver's absolute path. Raises WireError when there is none."""
    override = os.environ.get("TESSERA_DRIVER")
    for place in (override,) if override else DRIVER_PLACES:
        if Path(place).exists():
            return Path(place).absolute()
    raise WireError("no CUDA driver found: install one, name it in TESSERA_DRIVER, or use --emulate")


@contextmanager
def redirect(policy: Policy, driver: Path, environment: Mapping[str, str]) -> Iterator[Redirection]:
    """Starts one executor per further GPU of the policy and stops them at the end.

    `driver` is the libcuda.so.1 in use, real or emulated; `environment` is what the executors run with, shim excluded.
    """
    sockets = tuple(f"tessera-{os.getpid()}-{device}" for device in policy.executors)
    descriptor = os.memfd_create("tessera-policy")
    os.write(descriptor, compile_table(policy, sockets))
    executors: list[subprocess.Popen[bytes]] = []
    try:
        for device, socket in zip(policy.executors, sockets, strict=True):
            executors.append(
                subprocess.Popen(
                    [native.file("executor/tessera-executor"), "--device", str(device), "--socket", socket],
                    stdin=subprocess.PIPE,
                    env={**environment, "LD_LIBRARY_PATH": _first(driver.parent, environment.get("LD_LIBRARY_PATH"))},
                )
            )
        shim = native.file("shim/libcuda.so.1")
        yield Redirection(
            policy,
            {
                "TESSERA_POLICY": f"/proc/{os.getpid()}/fd/{descriptor}",
                "TESSERA_DRIVER": str(driver),
                "LD_PRELOAD": _first(shim, environment.get("LD_PRELOAD")),
            },
            descriptor,
        )
    finally:
        _stop(executors)
        os.close(descriptor)


def _first(path: Path, rest: str | None) -> str:
    return f"{path}:{rest}" if rest else str(path)


def _stop(executors: list[subprocess.Popen[bytes]]) -> None:
    """Closing an executor's standard input tells it that nobody will come any more."""
    for executor in executors:
        if executor.stdin:
            executor.stdin.close()
    for executor in executors:
        try:
            executor.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            executor.kill()
            executor.wait()
