"""Which GPUs a process is shown: its environment says."""

from collections.abc import Mapping

HIDES = "CUDA_VISIBLE_DEVICES"
SHOWN = "TESSERA_SHOWN"  # to the driver, in the program's process (interpose/driver/shown.h)


def unhidden(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process that sees all GPUs, whose numbers are the machine's."""
    return {name: value for name, value in environment.items() if name not in (HIDES, SHOWN)}
