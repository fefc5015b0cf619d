"""The numbers of GPUs. Policies, statistics and traces have the machine's: the driver's where nothing is hidden.

A program may see some of the GPUs only, in an order of its own: its environment's CUDA_VISIBLE_DEVICES says which. The
numbers in there are the machine's, too, in the order that CUDA_DEVICE_ORDER asks for. The shim is told which GPU has
which number by PCI addresses, in TESSERA_GPUS. Of the GPUs that are one card (parts.py) the program is shown the first.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from controlplane.machine import gpus
from controlplane.machine.emulated import Machine
from controlplane.machine.file import MachineFile, pci_address
from controlplane.machine.parts import SPLIT, parts_of, repeated
from controlplane.machine.visible import HIDES, SHOWN, unhidden
from controlplane.policy.explain import Gpu, Severity, findings
from controlplane.policy.language import Policy
from controlplane.run.launch import Change
from ptxtools.errors import ConfigError


def _list(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


@dataclass(frozen=True, slots=True)
class Present:
    """What there is. gpus: of the machine, by number; error: why that is not known. seen: numbers of those that the
    program is shown at its start, in its order; None: all. parts: of each card.
    """

    gpus: tuple[Gpu, ...] = ()
    addresses: tuple[str, ...] = ()
    seen: tuple[int, ...] | None = None
    error: str | None = None
    parts: int = 1

    @property
    def first(self) -> int:
        """The GPU that the program calls 0."""
        return self.seen[0] if self.seen else 0

    def change(self, shown: int | None = None) -> Change:
        """What tells the shim; no addresses, if they do not tell GPUs apart: then numbers are those it is shown.

        shown: the one GPU of those that it is shown otherwise that the program is to see; None: all.
        """
        told = self.addresses if len(set(self.addresses)) * self.parts == len(self.addresses) else ()
        variables = {"TESSERA_GPUS": ",".join(told)}
        if shown is not None and self.parts == 1:
            others = (gpu for gpu in self.seen or range(len(self.gpus)) if gpu != shown)
            variables |= {HIDES: str(shown), SHOWN: ",".join(map(str, (shown, *others)))}
        return Change(variables=variables)

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
            hides = HIDES if HIDES in os.environ else SPLIT
            text = f"{hides}={os.environ.get(hides, '')} hides the home GPU {policy.home} from the program"
            shown = _list(self.seen)
            expected = f"as home a GPU that it sees: {shown}" if shown else f"in {HIDES} GPUs that exist: {there}"
        if text:
            raise ConfigError(text, expected=expected, file=policy.file, line=line)


class Question:
    """To the driver of a run, in processes of their own that run beside what else there is to do until answer()."""

    def __init__(self, driver: Path, environment: Mapping[str, str]) -> None:
        asked = [unhidden(environment), *([dict(environment)] if HIDES in environment else [])]
        self._asked = [gpus.Question(driver, one, links=False) for one in asked]
        self._parts = parts_of(environment)
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
        answers = [one.answer() for one in self._asked]
        addresses = tuple(gpu.pci for gpu in answers[0].gpus)
        found = tuple(Gpu(gpu.name, gpu.sm_count, gpu.memory_bytes) for gpu in answers[0].gpus)
        hidden = len(answers) > 1 or self._parts > 1
        seen = _numbers(addresses, [gpu.pci for gpu in answers[-1].gpus]) if hidden else None
        return Present(found, addresses, seen, answers[0].error, self._parts)


def _numbers(addresses: Sequence[str], shown: Sequence[str]) -> tuple[int, ...]:
    """Of several GPUs at one address, that of the first."""
    return tuple(addresses.index(address) for address in dict.fromkeys(shown) if address in addresses)


def emulated(machine: Machine, driver: Path, environment: Mapping[str, str]) -> Present:
    """Of an emulated machine nothing need be asked, but what CUDA_VISIBLE_DEVICES leaves of it: of a copy, as the
    machine counts the processes that use it.
    """
    parts = parts_of(environment)
    cards = [Gpu(gpu.name, gpu.fields["sm_count"], gpu.fields["memory_bytes"] // parts) for gpu in machine.devices]
    found = tuple(repeated(cards, parts))
    addresses = tuple(repeated(map(pci_address, range(len(cards))), parts))
    if HIDES not in environment:
        return Present(found, addresses, None if parts == 1 else _numbers(addresses, addresses), parts=parts)
    copy = MachineFile(machine)
    with ExitStack() as stack:
        stack.callback(os.close, copy.descriptor)
        answer = gpus.ask(driver, {**environment, "TESSERA_MACHINE": copy.path}, links=False)
    return Present(found, addresses, _numbers(addresses, [gpu.pci for gpu in answer.gpus]), parts=parts)
