"""Tessera from Python: traces, profiles, graphs and plans as objects, and `%load_ext tessera` for notebooks.

    import tessera
    trace = tessera.read_trace("run.trace")
    tessera.study(trace).gain

docs/python.md has all functions. Programs need none of this to run under Tessera: `tessera run -- program`.
"""

from __future__ import annotations

from controlplane import __version__
from controlplane.api.files import (
    Page,
    Picture,
    dependencies,
    launches,
    make_plan,
    on_devices,
    picture,
    read_plan,
    read_profile,
    read_trace,
    report,
    simulate,
    statistics,
    study,
)
from ptxtools.errors import ConfigError

__all__ = [
    "ConfigError",
    "Page",
    "Picture",
    "__version__",
    "dependencies",
    "launches",
    "load_ipython_extension",
    "make_plan",
    "on_devices",
    "picture",
    "read_plan",
    "read_profile",
    "read_trace",
    "report",
    "simulate",
    "statistics",
    "study",
]


def load_ipython_extension(shell: object) -> None:
    """What `%load_ext tessera` calls."""
    from controlplane.api.magic import Shell, register

    assert isinstance(shell, Shell)
    register(shell)
