"""Runs a command on this machine's GPU shown as two, each with half of the SMs: emulation, for developers with one GPU.

    scripts/lab halves [--parts N] -- COMMAND...

Starts an MPS daemon of its own, which gives each process 100/N percent of a GPU's SMs, and sets TESSERA_SPLIT=N: under
`tessera-run` the program and each executor have such a part. So has a program without Tessera; what both take compares.
Memory, caches, copy engines and links inside the card are shared, so no figure is that of N GPUs. Ends with the
command's exit status.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from controlplane.machine.parts import MOST, SPLIT
from controlplane.run import launch
from scripts.commands.dispatch import parser_of

DAEMON = "nvidia-cuda-mps-control"
END_S = 10  # that processes which are left have until the daemon ends them
TIMEOUT_S = 60


def shared(parts: int, place: str) -> dict[str, str]:
    """What the daemon and the command have in their environment."""
    return {
        **os.environ,
        "CUDA_MPS_PIPE_DIRECTORY": place,
        "CUDA_MPS_LOG_DIRECTORY": place,
        "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": f"{100 / parts:g}",
        SPLIT: str(parts),
    }


@contextmanager
def daemon(environment: Mapping[str, str]) -> Iterator[None]:
    """Raises CalledProcessError if it does not start. Whatever happens, it is told to end."""
    subprocess.run([DAEMON, "-d"], env=environment, check=True, timeout=TIMEOUT_S)
    try:
        yield
    finally:
        subprocess.run([DAEMON], input=f"quit -t {END_S}\n", text=True, env=environment, check=False, timeout=TIMEOUT_S)


def main(words: Sequence[str]) -> int:
    own, command = (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, ())
    parser = parser_of(__name__, __doc__)
    parser.add_argument("--parts", type=int, default=2, metavar="N", help="of each GPU (default: 2)")
    arguments = parser.parse_args(own)
    if not command or not 1 < arguments.parts <= MOST:
        parser.error(f"needs 2 to {MOST} parts, and a command after --")
    if shutil.which(DAEMON) is None:
        parser.error(f"there is no {DAEMON} here, which comes with NVIDIA's driver")
    print(f"emulation: {arguments.parts} parts of one GPU, by MPS; not {arguments.parts} GPUs", flush=True)
    with tempfile.TemporaryDirectory(prefix="tessera-mps-", ignore_cleanup_errors=True) as place:
        environment = shared(arguments.parts, place)
        try:
            with daemon(environment):
                return launch.run(list(command), environment)
        except subprocess.SubprocessError as error:
            print(f"scripts/lab halves: the MPS daemon: {error}", file=sys.stderr)
            return 1
