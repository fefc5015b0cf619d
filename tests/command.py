"""Tessera's commands, as tests start them: those of the environment that the tests run in."""

import os
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TESSERA = Path(sysconfig.get_path("scripts")) / "tessera"
TESSERA_RUN = TESSERA.with_name("tessera-run")
RUN = (sys.executable, "-m", "controlplane.commands.run")  # the same of this tree; nothing need be installed


def with_native(native: Path) -> dict[str, str]:
    """This process' environment, in which the commands take the native parts from that directory."""
    return {**os.environ, "TESSERA_NATIVE": str(native)}


def with_project(**variables: str) -> dict[str, str]:
    """This process' environment and the variables; Python finds the project's packages without an installation."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, **variables}
