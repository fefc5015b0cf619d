"""OR-tools, with which plans are made. It comes with the extra `plan`: with what it needs, it takes as long to install
as all the rest, and only planning uses it.
"""

from __future__ import annotations

from importlib.util import find_spec

from ptxtools.errors import ConfigError

REQUIREMENT = "ortools>=9.15,<9.16"


def require() -> None:
    """Raises ConfigError if it is not there."""
    if find_spec("ortools") is None:
        raise ConfigError(
            "plans are made with OR-tools, which is not installed", expected=f"pip install '{REQUIREMENT}'"
        )
