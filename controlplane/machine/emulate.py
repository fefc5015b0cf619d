"""What `--emulate` asks for: a number of GPUs, catalogue names or a YAML file, as a description of one machine."""

from __future__ import annotations

from pathlib import Path

from controlplane.machine import SPEC, catalogue
from controlplane.machine.emulated import DEFAULT_GPU, MAX_DEVICES, Machine, machine_of
from ptxtools.errors import ConfigError


def parse(spec: str) -> Machine:
    """The machine that an `--emulate` argument describes. Raises ConfigError."""
    if spec.isascii() and spec.removeprefix("-").isdigit():
        if not 1 <= int(spec) <= MAX_DEVICES:
            raise ConfigError(f"--emulate {spec}: not a usable number of GPUs", expected=f"1 to {MAX_DEVICES}")
        return machine_of([catalogue.catalogue().gpus[DEFAULT_GPU]] * int(spec))
    if spec.endswith((".yaml", ".yml")) or "/" in spec:
        from controlplane.base.yamlfile import read_whole
        from controlplane.machine.emulate_file import parse_file

        return read_whole(Path(spec), parse_file)
    gpus = catalogue.catalogue().gpus
    names = [name.strip().lower() for name in spec.split(",")]
    for name in names:
        if name not in gpus:
            import difflib

            nearest = difflib.get_close_matches(name, gpus, 1)
            hint = f", did you mean {nearest[0]}?" if nearest else f" ({', '.join(gpus)})"
            raise ConfigError(f"--emulate {spec}: no GPU {name!r} in the catalogue{hint}", expected=SPEC)
    if len(names) > MAX_DEVICES:
        raise ConfigError(f"--emulate {spec}: {len(names)} GPUs", expected=f"at most {MAX_DEVICES}")
    return machine_of(gpus[name] for name in names)
