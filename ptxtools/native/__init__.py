"""Where the native parts are: in the installed package, or in a build tree named by TESSERA_NATIVE."""

import os
from pathlib import Path

from ptxtools.errors import ConfigError, InternalError


def directory() -> Path:
    """The directory that holds emulator/, cudart/, shim/, executor/, include/ and layouts/."""
    override = os.environ.get("TESSERA_NATIVE")
    if override is None:
        return Path(__file__).parent
    if not Path(override, "include", "tessera").is_dir():
        raise ConfigError(f"TESSERA_NATIVE={override} is not usable", expected="the directory native/ of a build tree")
    return Path(override).absolute()


def file(place: str) -> Path:
    """An existing native file by its place below directory(), for example "emulator/libcuda.so.1"."""
    path = directory() / place
    if not path.exists():
        raise InternalError(f"{path} is missing: the installation is incomplete")
    return path
