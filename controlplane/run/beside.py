"""Processes of Tessera's own beside a program: how they are started, and how they end."""

import subprocess
import sys
from collections.abc import Mapping, Sequence


def start(
    module: str, *arguments: str, descriptors: Sequence[int], environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Runs a module of ours, which inherits the descriptors. environment: None: this process' own.

    The process has a session of its own: an interrupt from the terminal is the program's.
    """
    return subprocess.Popen(
        # -P: modules of the program's directory are not ours.
        [sys.executable, "-P", "-m", module, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        env=environment,
        pass_fds=descriptors,
        start_new_session=True,
    )


def end(process: subprocess.Popen[bytes], within_s: float) -> None:
    """Waits for a process that was asked to end, and kills it if it has not ended in that time."""
    try:
        process.wait(within_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
