"""The end-to-end programs, built once for all tests that run them."""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2]))  # at the end, so that an installed package is not shadowed

from tests.e2e.build import Builder, BuildError, find_toolkit, programs


@pytest.fixture(scope="session")
def executables(request: pytest.FixtureRequest) -> dict[str, Path | BuildError]:
    """All programs, built once per content; the lock lets parallel test workers share the work."""
    directory = Path(request.config.cache.mkdir("e2e-programs"))
    with (directory / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return Builder(find_toolkit(), directory).build_all(programs(), os.cpu_count() or 1)
