"""Starting a program under Tessera: the environment that its layers ask for, its signals, its exit code.

A layer (the emulated machine, a policy) says in a Change what it needs; compose() puts several together. The driver
that stands first takes the driver's place by its SONAME; the one behind it is named to the first in TESSERA_DRIVER.
"""

import errno
import os
import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ptxtools.errors import ConfigError

NOT_FOUND, NOT_EXECUTABLE, SIGNAL_BASE = 127, 126, 128
FORWARDED = frozenset({signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2})
IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
SI_KERNEL = 0x80


@dataclass(frozen=True, slots=True)
class Change:
    """What one layer adds to the program's environment. driver takes the place of libcuda.so.1."""

    driver: Path | None = None
    library_path: tuple[Path, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    preload: tuple[Path, ...] = ()


UNNUMBERED = Change(variables={"TESSERA_GPUS": ""})  # for a run that nobody needs the machine's numbers of GPUs in


def compose(changes: Iterable[Change], environment: Mapping[str, str]) -> dict[str, str]:
    """The environment with all changes; the outermost layer, whose driver the program sees, comes first.

    Raises ConfigError when a path cannot be written in the loader's lists.
    """
    result = dict(environment)
    drivers: list[Path] = []
    others: list[Path] = []
    directories: list[Path] = []
    for change in changes:
        result.update(change.variables)
        directories += change.library_path
        others += change.preload
        if change.driver is not None:
            drivers.append(change.driver)
    if drivers or others:
        result["LD_PRELOAD"] = _joined([*drivers[:1], *dict.fromkeys(others)], result.get("LD_PRELOAD", ""), " :")
    if len(drivers) > 1:
        result["TESSERA_DRIVER"] = str(drivers[1])
    if directories:
        result["LD_LIBRARY_PATH"] = _joined(directories, result.get("LD_LIBRARY_PATH", ""), ":;")
    return result


def _joined(paths: Sequence[Path], rest: str, separators: str) -> str:
    for path in paths:
        if any(separator in str(path) for separator in separators):
            raise ConfigError(
                f"Tessera is installed in {path}, which the dynamic loader cannot be told",
                expected="a path without spaces, colons and semicolons",
            )
    return ":".join([*map(str, paths), *([rest] if rest else [])])


def find_program(name: str, search_path: str) -> str | None:
    """The file that a shell would run; a name with a slash is that file, whatever it is."""
    if os.sep in name:
        return name if Path(name).exists() else None
    for directory in search_path.split(os.pathsep):
        file = Path(directory, name)
        if file.is_file() and os.access(file, os.X_OK):
            return str(file)
    return None


def is_there(name: str) -> bool:
    """Whether there is such a program; says so if not."""
    if find_program(name, os.environ.get("PATH", os.defpath)) is not None:
        return True
    _cannot_start(name, errno.ENOENT)
    return False


def run(command: list[str], environment: Mapping[str, str]) -> int:
    """Runs the program to its end and gives the exit code a shell would give.

    Signals sent to this process are passed on. Those that the terminal sends, and those that the program sends to its
    group, reach the program by themselves, as it is in the same process group; they are only kept from ending this
    process first.
    """
    program = find_program(command[0], environment.get("PATH", os.defpath))
    if program is None:
        return _cannot_start(command[0], errno.ENOENT)
    watched = FORWARDED | {signal.SIGCHLD}
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    try:
        try:
            child = os.posix_spawn(program, command, dict(environment), setsigmask=before, setsigdef=IGNORED_BY_PYTHON)
        except OSError as error:
            return _cannot_start(command[0], error.errno or 0)
        return _wait(child, watched)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _cannot_start(name: str, number: int) -> int:
    os.write(2, f"tessera-run: {name}: {os.strerror(number)}{_hint(name, number)}\n".encode())
    return NOT_FOUND if number == errno.ENOENT else NOT_EXECUTABLE


def _hint(name: str, number: int) -> str:
    if number == errno.EACCES and name.endswith(".py"):
        return f"; to run it: python {name}"
    if number == errno.EACCES:
        return "; is it a program, and may you execute it?"
    if number == errno.ENOENT and os.sep not in name:
        return f"; what is not in PATH needs its path: {f'./{name}' if Path(name).exists() else f'/path/to/{name}'}"
    return ""


def _wait(child: int, watched: frozenset[signal.Signals]) -> int:
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else SIGNAL_BASE - code
        info = signal.sigwaitinfo(watched)
        if info.si_signo != signal.SIGCHLD and info.si_code != SI_KERNEL and not _is_in(child, info.si_pid):
            os.kill(child, info.si_signo)


def _is_in(program: int, process: int) -> bool:
    """Whether it is the program, or a process that it started, in this group: it signals the group (kill 0)."""
    try:
        if os.getpgid(process) != os.getpgrp():
            return False
        while process not in (program, 0):
            process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:  # it has ended
        return False
    return process == program
