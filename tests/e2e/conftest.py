"""The end-to-end programs, each built when a test first asks for it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2]))  # at the end, so that an installed package is not shadowed

from tests.e2e.build import Builder, Executables, find_toolkit


@pytest.fixture(scope="session")
def executables(request: pytest.FixtureRequest) -> Executables:
    """All programs, built once per content."""
    return Executables(Builder(find_toolkit(), Path(request.config.cache.mkdir("e2e-programs"))))
