"""The numbers of GPUs. Policies, statistics and traces have the machine's: the driver's where nothing is hidden.

A program may see some of the GPUs only, in an order of its own: its environment's CUDA_VISIBLE_DEVICES says which. The
numbers in there are the machine's, too, in the order that CUDA_DEVICE_ORDER asks for. The shim is told which GPU has
which number by PCI addresses, in TESSERA_GPUS.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from controlplane.machine import gpus
from controlplane.machine.emulate import Machine
from controlplane.machine.file import MachineFile, pci_address
from controlplane.machine.visible import HIDES, unhidden
from controlplane.policy.explain import Gpu, Severity, findings
from controlplane.policy.language import Policy
from controlplane.run.launch import Change
from ptxtools.errors import ConfigError


def _list(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


@dataclass(frozen=True, slots=True)
class Present:
    """What there is. gpus: of the machine, by number; error: why that is not known. seen: numbers of those that the
    program is shown at its start, in its order; None: all.
    """

    gpus: tuple[Gpu, ...] = ()
    addresses: tuple[str, ...] = ()
    seen: tuple[int, ...] | None = None
    error: str | None = None

    @property
    def first(self) -> int:
        """The GPU that the program calls 0."""
        return self.seen[0] if self.seen else 0

    def change(self) -> Change:
        """What tells the shim; nothing, if addresses do not tell GPUs apart: then numbers are those it is shown."""
        told = self.addresses if len(set(self.addresses)) == len(self.addresses) else ()
        return Change(variables={"TESSERA_GPUS": ",".join(told)})

    def check_known(self, asked: str = "", file: Path | str | None = None, line: int | None = None) -> None:
        """Raises ConfigError if it is not known what there is. asked: before the text, what needs to know."""
        if self.error is not None:
            text = f"{asked}the machine's GPUs are not known: {self.error}"
            raise ConfigError(text, expected="a driver with GPUs", file=file, line=line)

    def check(self, policy: Policy) -> None:
        """Raises ConfigError if the policy cannot be meant for this machine, or not for what the program sees of it."""
        there = _list(range(len(self.gpus)))
        wrong = next((one for one in findings(policy, self.gpus) if one.severity is Severity.ERROR), None)
        line, text, expected = policy.devices_line, "", ""
        self.check_known(file=policy.file, line=line)
        if wrong is not None:
            line, text = wrong.line, wrong.text
            expected = f"GPUs that exist: {there}" if there else "a machine with GPUs"
        elif self.seen is not None and policy.home not in self.seen:
            text = f"{HIDES}={os.environ.get(HIDES, '')} hides the home GPU {policy.home} from the program"
            shown = _list(self.seen)
            expected = f"as home a GPU that it sees: {shown}" if shown else f"in {HIDES} GPUs that exist: {there}"
        if text:
            raise ConfigError(text, expected=expected, file=policy.file, line=line)


class Question:
    """To the driver of a run, in processes of their own that run beside what else there is to do until answer()."""

    def __init__(self, driver: Path, environment: Mapping[str, str]) -> None:
        asked = [unhidden(environment), *([dict(environment)] if HIDES in environment else [])]
        self._asked = [gpus.Question(driver, one, links=False) for one in asked]
        self._answer: Present | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._asked:
            one.drop()

    def answer(self) -> Present:
        """Waits for it the first time."""
        if self._answer is None:
            self._answer = self._read()
        return self._answer

    def _read(self) -> Present:
        all_of_them, *shown = [one.answer() for one in self._asked]
        addresses = tuple(gpu.pci for gpu in all_of_them.gpus)
        found = tuple(Gpu(gpu.name, gpu.sm_count, gpu.memory_bytes) for gpu in all_of_them.gpus)
        seen = _numbers(addresses, [gpu.pci for gpu in shown[0].gpus]) if shown else None
        return Present(found, addresses, seen, all_of_them.error)


def _numbers(addresses: Sequence[str], shown: Sequence[str]) -> tuple[int, ...]:
    return tuple(addresses.index(address) for address in shown if address in addresses)


def emulated(machine: Machine, driver: Path, environment: Mapping[str, str]) -> Present:
    """Of an emulated machine nothing need be asked, but what CUDA_VISIBLE_DEVICES leaves of it: of a copy, as the
    machine counts the processes that use it.
    """
    found = tuple(Gpu(gpu.name, gpu.fields["sm_count"], gpu.fields["memory_bytes"]) for gpu in machine.devices)
    addresses = tuple(map(pci_address, range(len(found))))
    if HIDES not in environment:
        return Present(found, addresses)
    copy = MachineFile(machine)
    with ExitStack() as stack:
        stack.callback(os.close, copy.descriptor)
        answer = gpus.ask(driver, {**environment, "TESSERA_MACHINE": copy.path}, links=False)
    return Present(found, addresses, _numbers(addresses, [gpu.pci for gpu in answer.gpus]))
