"""What a template says without a launch: whether memory is read, written or changed atomically through a parameter."""

from __future__ import annotations

from dataclasses import dataclass, field

from ptxtools.access.template import Access, AccessKind, Node, Op, Template

_THROUGH = {Op.ADD, Op.SUB, Op.SELECT, Op.JOIN, Op.LOOP, Op.AND, Op.OR, Op.MIN, Op.MAX}


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
    """`tier`: "ptx", or "unknown" when some access may be anywhere. `variables`: used ones of the module, by kind.

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
    summary = Summary(template.name, "ptx", uses)
    summary.unknown = [(each.line, each.reason) for each in template.unknown]
    for access in template.accesses:
        _note(template, summary, access)
    summary.unknown = sorted(set(summary.unknown))
    if summary.unknown:
        summary.tier = "unknown"
    return summary


def _note(template: Template, summary: Summary, access: Access) -> None:
    found = bases(template, access.address)
    if any(node.op is Op.SYMBOL and node.name in template.private for node in found):
        return
    known = False
    for node in found:
        if node.op is Op.SYMBOL:
            summary.variables.setdefault(node.name, set()).add(access.kind)
            known = True
        elif node.op is Op.PARAMETER and node.width == 64:
            summary.pointers.add(node.number)
            known |= _mark(summary, node.number, access.kind)
    if any(node.op is Op.LOADED and node.width == 64 for node in found) and not known:
        summary.unknown.append((access.line, "pointer loaded from memory"))
        for source in _sources(template, found):
            _mark(summary, source, None)
    elif not known:
        summary.unknown.append((access.line, "address without a known base"))


def _mark(summary: Summary, offset: int, kind: AccessKind | None) -> bool:
    for use in summary.parameters:
        if use.offset <= offset < use.offset + use.size:
            use.reads |= kind is AccessKind.READ
            use.writes |= kind is AccessKind.WRITE
            use.atomics |= kind is AccessKind.ATOMIC
            use.indirect |= kind is None
            return True
    return False


def _sources(template: Template, loaded: list[Node]) -> set[int]:
    """Offsets of the parameters through which pointers were loaded."""
    places = {node.number for node in loaded if node.op is Op.LOADED}
    found = set()
    for access in template.accesses:
        if access.line in places:
            found |= {node.number for node in bases(template, access.address) if node.op is Op.PARAMETER}
    return found


def bases(template: Template, address: int) -> list[Node]:
    """The nodes that an address may begin with: what is added to it, not what is scaled."""
    found: list[Node] = []
    pending, seen = [address], set()
    while pending:
        index = pending.pop()
        if index in seen:
            continue
        seen.add(index)
        node = template.nodes[index]
        if node.op is Op.SELECT:
            pending += node.args[1:]
        elif node.op in _THROUGH:
            pending += node.args
        elif node.op in (Op.PARAMETER, Op.SYMBOL, Op.LOADED, Op.OPAQUE, Op.SPECIAL):
            found.append(node)
    return found
