"""What a template says without a launch: whether memory is read, written or changed atomically through a parameter."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ptxtools.access.bases import Bases
from ptxtools.access.template import BEYOND, IN_MEMORY, Access, AccessKind, Node, Op, Template


@dataclass(slots=True)
class Use:
    """How a kernel parameter is used. `indirect`: accesses through pointers that were loaded through it."""

    index: int
    offset: int
    size: int
    reads: bool = False
    writes: bool = False
    atomics: bool = False
    indirect: bool = False


@dataclass(slots=True)
class Summary:
    """`tier`: "ptx" or "machine", or "unknown" when some access may be anywhere.

    `variables`: used ones of the module, by kind.

    `pointers`: offsets in the parameter block of what addresses begin with.
    """

    name: str
    tier: str
    parameters: list[Use]
    variables: dict[str, set[AccessKind]] = field(default_factory=dict)
    unknown: list[tuple[int, str]] = field(default_factory=list)
    pointers: set[int] = field(default_factory=set)


def summarise(template: Template) -> Summary:
    """The summary of a kernel."""
    uses = [Use(slot.index, slot.offset, slot.size) for slot in template.slots]
    summary = Summary(template.name, template.tier, uses)
    summary.unknown = [(each.line, each.reason) for each in template.unknown]
    found = Bases(template)
    for access in template.accesses:
        _note(template, found, summary, access)
    for tensor in template.tensors:
        if tensor.offset == IN_MEMORY:
            summary.unknown.append((tensor.line, "tensor map in memory"))
        else:
            _mark(summary, tensor.offset, tensor.kind)
    summary.unknown = sorted(set(summary.unknown))
    if summary.unknown:
        summary.tier = "unknown"
    return summary


def _note(template: Template, found: Bases, summary: Summary, access: Access) -> None:
    for alternative in found.of(access.address):
        if any(node.op is Op.SYMBOL and node.name in template.private for node in alternative):
            continue
        if _note_bases(summary, alternative, access.kind) or any(node.name == BEYOND for node in alternative):
            continue
        loaded = {node.number for node in alternative if node.op is Op.LOADED and node.width == 64}
        reason = "pointer loaded from memory" if loaded else "address without a known base"
        summary.unknown.append((access.line, reason))
        for source in _sources(template, found, loaded):
            _mark(summary, source, None)


def _note_bases(summary: Summary, alternative: Iterable[Node], kind: AccessKind) -> bool:
    """Whether there is one among the nodes that are added up."""
    known = False
    for node in alternative:
        if node.op is Op.SYMBOL:
            summary.variables.setdefault(node.name, set()).add(kind)
            known = True
        elif node.op is Op.PARAMETER and node.width == 64:
            summary.pointers.add(node.number)
            known |= _mark(summary, node.number, kind)
    return known


def _mark(summary: Summary, offset: int, kind: AccessKind | None) -> bool:
    for use in summary.parameters:
        if use.offset <= offset < use.offset + use.size:
            use.reads |= kind is AccessKind.READ
            use.writes |= kind is AccessKind.WRITE
            use.atomics |= kind is AccessKind.ATOMIC
            use.indirect |= kind is None
            return True
    return False


def _sources(template: Template, bases: Bases, lines: set[int]) -> set[int]:
    """Offsets of the parameters through which these lines load."""
    found = set()
    for access in template.accesses:
        if access.line in lines:
            alternatives = bases.of(access.address)
            found |= {node.number for alternative in alternatives for node in alternative if node.op is Op.PARAMETER}
    return found
