"""One set of stand-in libraries for all tests: a process knows a library by its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.libraries.stand_ins import Marks, build


@pytest.fixture(scope="session")
def marks(native_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Marks:
    directory = tmp_path_factory.mktemp("libraries")
    native = native_build / "native"
    build(directory, (native / "include" / "tessera" / "library_calls.h").read_text())
    return Marks(native / "shim" / "libtessera_calls.so", directory)
