"""From an image of code to what one of its functions reads and writes. Pure: no files, no processes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from controlplane.analysis.describe import REFUSED, describe, unknown_description
from controlplane.analysis.result import Analysis
from ptxtools.access import flat
from ptxtools.access.build import build
from ptxtools.access.summary import summarise
from ptxtools.access.template import Template
from ptxtools.clone import Clone, rewrite
from ptxtools.errors import PtxError
from ptxtools.image import running
from ptxtools.machine.build import build as build_machine
from ptxtools.machine.cubin import Cubin
from ptxtools.machine.cubin import read as read_cubin
from ptxtools.machine.disassembler import DisassemblyError
from ptxtools.machine.listing import Listing, want_together
from ptxtools.reader import Module, read

NO_CODE = "the image has no code of it for this architecture"
MOVED = "parameters of such an alignment lie elsewhere on this architecture than PTX says"
_BLOCK_ALIGNMENTS = {9: 16, 8: 32, 7: 32}  # of where a GPU of this major version has the parameter block


@dataclass
class Image:
    """An image as it was given to the driver, for one architecture.

    `sources`: PTX texts that the driver has linked into the image: with them, machine code is as good as PTX.
    `disassemble`: whether machine code may be disassembled. `clones`: analyses come with clones, and PTX goes before
    machine code, as clones are made of it.
    """

    data: bytes
    architecture: int
    ptx_only: bool = False
    sources: Sequence[bytes] = ()
    disassemble: bool = True
    clones: bool = False
    _texts: list[str] = field(default_factory=list)
    _modules: list[Module] = field(default_factory=list)  # of the texts
    _machine: list[_MachineCode] = field(default_factory=list)
    _problem: str = ""
    _is_read: bool = False

    def listings(self, names: Collection[str]) -> Iterator[tuple[Listing, Collection[str]]]:
        """Where the machine code of these functions is disassembled, as far as it is needed."""
        self._read_once()
        without_ptx = [name for name in names if not any(_defines(module, name) for module in self._modules)]
        for code in self._machine if self.disassemble else []:
            yield code.listing, without_ptx

    def analyse(self, name: str) -> Analysis:
        """Never fails: what is not understood is unknown, with the reason."""
        self._read_once()
        if self._problem:
            return _unknown(name, self._problem, is_lasting=False)
        modules = [module for module in self._modules if _defines(module, name)]
        machine = [] if modules else [code for code in self._machine if name in code.cubin.kernels]
        if len(modules) + len(machine) > 1:
            return _unknown(name, f"there are {len(modules) + len(machine)} codes of it for one architecture")
        if modules:
            if not self.ptx_only and _moves_parameters(modules[0], name, self.architecture):
                return _unknown(name, MOVED)
            found = _from_ptx(modules[0], name)
            return self._with_clone(found, modules[0], name) if self.clones and found.is_known else found
        return machine[0].analyse(name, self.disassemble) if machine else _unknown(name, NO_CODE)

    def _with_clone(self, analysis: Analysis, module: Module, name: str) -> Analysis:
        try:
            clone = rewrite(self._texts[self._modules.index(module)], module, name)
        except ValueError as problem:
            clone = Clone("", str(problem))
        except PtxError as problem:
            clone = Clone("", problem.message)
        return replace(analysis, clone=clone.to_bytes())

    def _read_once(self) -> None:
        if not self._is_read:
            self._is_read = True
            self._read()

    def _read(self) -> None:
        try:
            codes = running(self.data, self.architecture, ptx_only=self.ptx_only or self.clones)
            texts = [code.text for code in codes if code.text is not None]
            cubins = [code.cubin for code in codes if code.text is None and code.cubin is not None]
            self._machine = [_MachineCode(cubin, read_cubin(cubin)) for cubin in cubins]
            if self._machine:
                texts += [source.rstrip(b"\0").decode(errors="replace") for source in self.sources]
            self._texts, self._modules = texts, [read(text) for text in texts]
        except PtxError as problem:
            self._problem = str(problem)
        except ValueError as problem:
            self._problem = f"the image cannot be read: {problem}"


def expect(wanted: Iterable[tuple[Image, Collection[str]]]) -> None:
    """These functions will be asked for: what machine code they need is disassembled together."""
    want_together(each for image, names in wanted for each in image.listings(names))


class _MachineCode:
    """A cubin without PTX."""

    def __init__(self, data: bytes, cubin: Cubin) -> None:
        self.cubin = cubin
        self.listing = Listing(data, cubin)

    def analyse(self, name: str, disassemble: bool) -> Analysis:
        if not disassemble:
            return _unknown(name, REFUSED)
        try:
            lines = self.listing.lines(name)
        except DisassemblyError as problem:
            return _unknown(name, str(problem), is_lasting=False)
        if lines is None:
            return _unknown(name, "the disassembler left it out")
        return _analysed(build_machine(self.cubin, self.cubin.kernels[name], lines), flat.Tier.MACHINE_CODE)


def _defines(module: Module, name: str) -> bool:
    function = module.functions.get(name)
    return function is not None and function.is_kernel and function.has_body


def _moves_parameters(module: Module, name: str, architecture: int) -> bool:
    """Whether a parameter is aligned further than the block: it is the address, not the offset in it, that counts."""
    known = _BLOCK_ALIGNMENTS.get(architecture // 10)
    return known is not None and any(each.align > known for each in module.functions[name].parameters)


def _from_ptx(module: Module, name: str) -> Analysis:
    try:
        return _analysed(build(module, module.functions[name]), flat.Tier.PTX)
    except PtxError as problem:
        return _unknown(name, problem.message, problem.line)


def _analysed(template: Template, tier: flat.Tier) -> Analysis:
    try:
        data = b"" if template.unknown else flat.write(template, tier)
    except ValueError as problem:
        return _unknown(template.name, str(problem))
    return Analysis(describe(summarise(template)), data)


def _unknown(name: str, reason: str, line: int = 0, *, is_lasting: bool = True) -> Analysis:
    return Analysis(unknown_description(name, reason, line), is_lasting=is_lasting)
