"""The shim as a layer of a run: in the driver's place, with the driver behind it."""

import os
from pathlib import Path

from controlplane.machine import driver
from controlplane.run.launch import Change
from ptxtools import native
from ptxtools.errors import ConfigError, WireError

MARKS = "shim/libtessera_calls.so"  # of calls into NVIDIA's libraries, preloaded beside the shim


def system_driver() -> Path:
    """The real driver's path. Raises ConfigError if TESSERA_DRIVER is wrong, WireError if there is none."""
    override = os.environ.get("TESSERA_DRIVER")
    if override:
        if not Path(override).is_file():
            raise ConfigError(f"TESSERA_DRIVER={override} is not there", expected="the path of a libcuda.so.1")
        return Path(override).absolute()
    found = driver.find(os.environ)
    if found is not None:
        return found
    raise WireError("no CUDA driver found: install one, name it in TESSERA_DRIVER, or use --emulate")


def change(behind: Path) -> Change:
    """What the application needs for the shim to stand in front of the driver `behind`, real or emulated."""
    return Change(native.file("shim/libcuda.so.1"), (), {"TESSERA_DRIVER": str(behind)})
