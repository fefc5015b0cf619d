"""The emulated machine as a layer of a run: its file, the program's environment, what to say afterwards."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from controlplane.machine.emulated import HostTime
from controlplane.machine.file import MachineFile
from controlplane.machine.visible import HIDES
from controlplane.run.launch import Change, find_program
from ptxtools import native

if TYPE_CHECKING:
    from controlplane.run.summary import Summary

RUNTIMES = (13, 12)  # loaded before the program: it may name NVIDIA's by a path of its own (RPATH), as PyTorch does
PROOF_MIB = "8"  # so many that the rate is a real link's, too


class Emulation:
    """A machine of emulated GPUs, alive from construction on."""

    def __init__(self, spec: str, host_time: str | None = None) -> None:
        from controlplane.machine import emulate  # only here: most runs are on real GPUs

        self.machine = emulate.parse(spec)
        if host_time is not None:
            self.machine = replace(self.machine, host_time=HostTime[host_time.upper()])
        self.file = MachineFile(self.machine)
        self._beside = MachineFile(self.machine)

    def change(self) -> Change:
        driver = native.file("emulator/libcuda.so.1")
        runtimes = tuple(native.file(f"cudart/libcudart.so.{major}") for major in RUNTIMES)
        return Change(driver, (runtimes[0].parent, driver.parent), {"TESSERA_MACHINE": self.file.path}, runtimes)

    def beside(self) -> Change:
        """The same machine once more: what runs there takes no time on this one, and is not counted.

        An emulated link that errs does so with every copy, so little is enough to prove pairs of GPUs.
        """
        return Change(variables={"TESSERA_MACHINE": self._beside.path, "TESSERA_PROOF": PROOF_MIB})

    def summary(self) -> Summary:
        from controlplane.run import summary

        return summary.collect(self.machine, self.file)

    def explanation(self, command: str) -> str | None:
        """Why nothing may have run on the emulated GPUs; None when something did."""
        from controlplane.base.elf import has_static_runtime

        launches = sum(device.launches for device in self.file.devices())
        program = find_program(command, os.environ.get("PATH", os.defpath))
        if not launches and program is not None and has_static_runtime(Path(program)):
            return (
                f"{command} has the CUDA runtime inside itself (nvcc's default), which refuses every driver but "
                "NVIDIA's; link it with -cudart shared to run it on emulated GPUs"
            )
        if not self.file.processes and os.environ.get(HIDES) is not None:
            there = ", ".join(map(str, range(len(self.machine.devices))))
            return (
                f"no process initialised the driver: {HIDES}={os.environ[HIDES]} is set, and the emulated GPUs are "
                f"{there}; or the program used no GPU"
            )
        if not self.file.processes:
            return "no process initialised the driver: the program used no GPU, or reached another driver than ours"
        return None
