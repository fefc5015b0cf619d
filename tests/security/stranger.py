"""Another user of the machine: a process that is root's at first and nobody's for good, and says what it came to."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import pytest

NOBODY = 65534
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user; it is what CI runs as")


class Stranger:
    """Does `act` from construction on, and stays with what it has until the context is left.

    It is forked, not started anew: the interpreter may lie where another user has no business.
    """

    def __init__(self, act: Callable[[], object]) -> None:
        self._said, says = os.pipe()
        stays, self._leave = os.pipe()
        self._process = os.fork()
        if self._process == 0:
            try:
                os.close(self._leave)
                os.chdir("/")
                os.setgroups([])
                os.setresgid(NOBODY, NOBODY, NOBODY)
                os.setresuid(NOBODY, NOBODY, NOBODY)
                os.write(says, json.dumps(act()).encode())
                os.close(says)
                os.read(stays, 1)
            except BaseException as error:
                os.write(says, json.dumps(repr(error)).encode())
            finally:
                os._exit(0)
        os.close(says)
        os.close(stays)

    def says(self) -> Any:
        """What `act` gave; waits for it."""
        with os.fdopen(os.dup(self._said), "rb") as stream:
            return json.loads(stream.read())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._leave)
        os.waitpid(self._process, 0)
        os.close(self._said)


def as_nobody(act: Callable[[], object]) -> Any:
    """What comes of it."""
    with Stranger(act) as stranger:
        return stranger.says()
