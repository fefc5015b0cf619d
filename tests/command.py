"""Tessera's commands, as tests start them: those of the environment that the tests run in."""

import os
import sysconfig
from pathlib import Path

TESSERA = Path(sysconfig.get_path("scripts")) / "tessera"
TESSERA_RUN = TESSERA.with_name("tessera-run")


def with_native(native: Path) -> dict[str, str]:
    """This process' environment, in which the commands take the native parts from that directory."""
    return {**os.environ, "TESSERA_NATIVE": str(native)}
