"""From an image of code to what one of its functions reads and writes. Pure: no files, no processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from controlplane.analysis.describe import Description, describe, unknown_description
from controlplane.errors import PtxError
from ptxtools.access import flat
from ptxtools.access.build import build
from ptxtools.access.summary import summarise
from ptxtools.image import Code, running
from ptxtools.reader import Function, Module, read


@dataclass(frozen=True, slots=True)
class Analysis:
    """What is known of a function. `template`: flat bytes (tessera/access.h), empty when there is none."""

    description: Description
    template: bytes = b""

    @property
    def is_known(self) -> bool:
        return bool(self.template) and not self.description["unknown"]


@dataclass
class Image:
    """An image as it was given to the driver, for one architecture.

    `sources`: PTX texts that the driver has linked into the image: with them, machine code is as good as PTX.
    """

    data: bytes
    architecture: int
    ptx_only: bool = False
    sources: Sequence[bytes] = ()
    _modules: list[Module] = field(default_factory=list)
    _machine: list[Code] = field(default_factory=list)
    _problem: str = ""
    _is_read: bool = False

    def analyse(self, name: str) -> Analysis:
        """Never fails: what is not understood is unknown, with the reason."""
        if not self._is_read:
            self._is_read = True
            self._read()
        found = [(module, module.functions[name]) for module in self._modules if _defines(module, name)]
        if len(found) > 1:
            return _unknown(name, f"there are {len(found)} codes of it for one architecture")
        if not found:
            return _unknown(name, self._reason())
        try:
            return _analysed(*found[0])
        except PtxError as problem:
            return _unknown(name, problem.message, problem.line)

    def _read(self) -> None:
        try:
            codes = running(self.data, self.architecture, ptx_only=self.ptx_only)
            texts = [code.text for code in codes if code.text is not None]
            self._machine = [code for code in codes if code.text is None]
            if self._machine:
                texts += [source.rstrip(b"\0").decode(errors="replace") for source in self.sources]
            self._modules = [read(text) for text in texts]
        except PtxError as problem:
            self._problem = str(problem)
        except ValueError as problem:
            self._problem = f"the image cannot be read: {problem}"

    def _reason(self) -> str:
        if self._problem:
            return self._problem
        return "machine code without PTX" if self._machine else "the image has no code of it for this architecture"


def _defines(module: Module, name: str) -> bool:
    function = module.functions.get(name)
    return function is not None and function.is_kernel and function.has_body


def _analysed(module: Module, function: Function) -> Analysis:
    template = build(module, function)
    return Analysis(describe(summarise(template)), flat.write(template))


def _unknown(name: str, reason: str, line: int = 0) -> Analysis:
    return Analysis(unknown_description(name, reason, line))
