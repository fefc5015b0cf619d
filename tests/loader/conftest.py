"""The probes, compiled once."""

from pathlib import Path

import pytest

from tests.loader.probes import Probes, build


@pytest.fixture(scope="session")
def probes(tmp_path_factory: pytest.TempPathFactory, native_build: Path) -> Probes:
    return build(tmp_path_factory.mktemp("probes"), native_build)
