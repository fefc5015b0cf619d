"""The probes, compiled once."""

from pathlib import Path

import pytest

from tests.loader.probes import Probes, build


@pytest.fixture(scope="session")
def probes(tmp_path_factory: pytest.TempPathFactory, native_build: Path) -> Probes:
    shim, driver = native_build / "native" / "shim" / "libcuda.so.1", native_build / "null_driver" / "libcuda.so.1"
    return build(tmp_path_factory.mktemp("probes"), shim, driver)
