"""Templates as flat bytes, the form in which they are kept and evaluated outside of Python.

The layout is declared in interpose/include/tessera/access.h. Only what decides ranges is written: nodes that no access,
condition or loop needs are left out, and the others are numbered anew.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from enum import Enum

from ptxtools.access.bases import Bases
from ptxtools.access.elements import with_elements
from ptxtools.access.template import (
    IN_MEMORY,
    Access,
    AccessKind,
    LoopPlace,
    Node,
    Op,
    PathCondition,
    Slot,
    Template,
    TensorAccess,
    Unknown,
)
from ptxtools.access.values import WINDOW

MAGIC, VERSION = 0x4343415F52535454, 5
OPS = tuple(Op)
KINDS = tuple(AccessKind)
_REGISTERS = ("tid", "ntid", "ctaid", "nctaid")
_SPECIALS = (*(f"{register}.{axis}" for register in _REGISTERS for axis in "xyz"), "laneid", "other")
_COMPARES = ("lt", "le", "gt", "ge", "eq", "ne", "other")
_SIGNED, _LOADED, _UNSIGNED64 = 1, 2, 4
_GENERIC, _LOOKS_BACK = 1, 2
_LOOPS = 64  # bits of a set of loops; the last one stands for all others
_SYMBOL_BASE = 1 << 31
_WORD = 1 << 32

HEADER = struct.Struct("<Q15I4x")
_PARAMETER = struct.Struct("<3I")
_NODE = struct.Struct("<4B5Iq")
_OPERAND = struct.Struct("<I")
_CONTEXT = struct.Struct("<IiII")
_LOOP = struct.Struct("<7I4xQ")
_BLOCK = struct.Struct("<Q")
_ACCESS = struct.Struct("<4Iq2i10IQ")
_TENSOR = struct.Struct("<8I")
_UNKNOWN = struct.Struct("<2I")
_SYMBOL = struct.Struct("<2IQ")
_TEXT = struct.Struct("<B")
SECTIONS = (_PARAMETER, _NODE, _OPERAND, _CONTEXT, _LOOP, _BLOCK, _ACCESS, _TENSOR, _UNKNOWN, _SYMBOL, _TEXT)


class Tier(Enum):
    """Where a template comes from; the value is the one in the header."""

    PTX = 0
    MACHINE_CODE = 1

    @property
    def word(self) -> str:
        """As templates and people say it."""
        return "ptx" if self is Tier.PTX else "machine"


def write(template: Template, tier: Tier = Tier.PTX) -> bytes:
    """The bytes of a template. Errors: ValueError when one of its numbers is larger than they can hold."""
    try:
        return _Writer(with_elements(template)).bytes(tier)
    except struct.error as problem:
        raise ValueError(f"{template.name}: a number is too large: {problem}") from problem


def read(data: bytes) -> Template:
    """The template in some bytes. Errors: ValueError when they are damaged or of another version."""
    return _reader(data).template


def symbols(data: bytes) -> Sequence[str]:
    """Names of the symbols whose addresses an evaluation asks for, in its order. Errors: as read()."""
    return _reader(data).names


def tensors(data: bytes) -> int:
    """How many accesses of a template go through tensor maps."""
    counts = HEADER.unpack_from(data)[5:]
    return int(counts[SECTIONS.index(_TENSOR)])


def tier(data: bytes) -> Tier:
    return Tier(HEADER.unpack_from(data)[3])


def _reader(data: bytes) -> _Reader:
    try:
        return _Reader(data)
    except (IndexError, struct.error, UnicodeDecodeError) as problem:
        raise ValueError(f"damaged template: {problem}") from problem


class _Writer:
    def __init__(self, template: Template) -> None:
        self.template = template
        self.operands: list[int] = []
        self.text = bytearray()
        self.texts: dict[str, int] = {}
        self.all_bases = Bases(template)
        self.numbers = {old: new for new, old in enumerate(sorted(_needed(template)))}
        names = {node.name: None for node in self.kept() if node.op is Op.SYMBOL}
        self.symbols = {name: number for number, name in enumerate(names)}

    def kept(self) -> Iterable[Node]:
        return (self.template.nodes[old] for old in self.numbers)

    def bytes(self, tier: Tier) -> bytes:
        template = self.template
        name = self.word(template.name)
        parameters = [(slot.index, slot.offset, slot.size) for slot in template.slots]
        nodes = [self.node(node) for node in self.kept()]
        conditions = [
            (each.parent, self.reference(each.predicate), each.truth, each.certain) for each in template.conditions
        ]
        loops = [self.loop(place) for place in template.loops]
        blocks = [(_bits(around),) for around in template.block_loops] or [(0,)]
        accesses = [self.access(access) for access in template.accesses]
        unknowns = [(each.line, self.word(each.reason)) for each in template.unknown]
        tensors = [self.tensor(each) for each in template.tensors]
        symbols = [(self.word(each), self.private(each), template.sizes.get(each, 0)) for each in self.symbols]
        operands = [(each,) for each in self.operands]
        lists: list[Sequence[tuple[int, ...]]]
        lists = [parameters, nodes, operands, conditions, loops, blocks, accesses, tensors, unknowns, symbols]
        body = b"".join(
            _padded(b"".join(layout.pack(*entry) for entry in entries))
            for layout, entries in zip(SECTIONS[:-1], lists, strict=True)
        ) + _padded(bytes(self.text))
        counts = [*map(len, lists), len(self.text)]
        size = HEADER.size + len(body)
        return HEADER.pack(MAGIC, VERSION, size, tier.value, name, *counts) + body

    def word(self, text: str) -> int:
        known = self.texts.get(text)
        if known is None:
            known = self.texts[text] = len(self.text)
            self.text += text.encode().replace(b"\0", b"?") + b"\0"
        return known

    def listed(self, numbers: Iterable[int]) -> tuple[int, int]:
        """Count and first of some operands."""
        first = len(self.operands)
        self.operands += numbers
        return len(self.operands) - first, first

    def reference(self, index: int) -> int:
        return index if index < 0 else self.numbers[index]

    def private(self, name: str) -> int:
        return 2 if name == WINDOW else int(name in self.template.private)

    def node(self, node: Node) -> tuple[int, ...]:
        number, flags = _small(node.number), _SIGNED * node.signed
        if node.op is Op.NUMBER and node.number >> 63 > 0:
            flags |= _UNSIGNED64
        if node.op is Op.HAVOC and self.is_loaded(node):
            flags |= _LOADED
        code = 0
        if node.op is Op.SPECIAL:
            code = _SPECIALS.index(node.name if node.name in _SPECIALS else "other")
        elif node.op is Op.COMPARE:
            code = _COMPARES.index(node.name if node.name in _COMPARES else "other")
        count, first = self.listed([self.numbers[arg] for arg in node.args])
        if node.op is Op.PHI:
            self.listed(node.conditions)
        symbol = self.symbols[node.name] if node.op is Op.SYMBOL else 0
        place = (node.block, node.condition)
        return (OPS.index(node.op), node.width, flags, code, count, first, *place, symbol, number)

    def is_loaded(self, node: Node) -> bool:
        alternatives = (alternative for arg in node.args for alternative in self.all_bases.of(arg))
        return any(each.op is Op.LOADED and each.width == 64 for alternative in alternatives for each in alternative)

    def loop(self, place: LoopPlace) -> tuple[int, ...]:
        must = place.must % _WORD, place.again % _WORD
        return (place.condition, *self.listed(place.entries), *self.listed(place.backs), *must, _bits(place.within))

    def access(self, access: Access) -> tuple[int, ...]:
        found, based = self.bases(access)
        references = self.reference(access.pitch), self.reference(access.length)
        return (
            *(KINDS.index(access.kind), self.numbers[access.address], access.size, access.condition),
            *(_small(access.displacement), *references, access.rows, access.line),
            _GENERIC * access.generic | _LOOKS_BACK * access.looks_back,
            *self.listed(found),
            based,
            access.pointers is not None,
            *self.listed(access.pointers or ()),
            access.must % _WORD,
            _bits(self.template.block_loops[access.block]) if access.must >= 0 else 0,
        )

    def tensor(self, tensor: TensorAccess) -> tuple[int, ...]:
        place = (KINDS.index(tensor.kind), tensor.offset % _WORD, tensor.condition, tensor.line)
        return (*place, *self.listed(tensor.parameters), *self.listed(tensor.loads))

    def bases(self, access: Access) -> tuple[list[int], bool]:
        """What the address may begin with; and whether it begins with one of these in any case."""
        found: set[int] = set()
        based = True
        for alternative in self.all_bases.of(access.address):
            symbols = {node.name for node in alternative if node.op is Op.SYMBOL}
            if access.generic and symbols & self.template.private:
                continue
            offsets = {node.number for node in alternative if node.op is Op.PARAMETER and node.width == 64}
            loaded = any(node.op is Op.LOADED and node.width == 64 for node in alternative)
            based &= len(offsets) + len(symbols) == 1 and not loaded and not symbols & self.template.private
            found |= offsets | {self.symbols[name] + _SYMBOL_BASE for name in symbols}
        return sorted(found), based


class _Reader:
    def __init__(self, data: bytes) -> None:
        magic, version, size, _, name, *counts = HEADER.unpack_from(data)
        if magic != MAGIC or version != VERSION or size != len(data):
            raise ValueError("not a template of this version")
        lists: list[list[tuple[int, ...]]] = []
        place = HEADER.size
        for layout, count in zip(SECTIONS[:-1], counts[:-1], strict=True):
            lists.append([layout.unpack_from(data, place + number * layout.size) for number in range(count)])
            place = (place + count * layout.size + 7) & ~7
        parameters, nodes, operands, conditions, loops, blocks, accesses, tensors, unknowns, symbols = lists
        self.text = data[place : place + counts[-1]]
        self.operands = [each for (each,) in operands]
        self.names = [self.word(entry[0]) for entry in symbols]
        self.around = [around for (around,) in blocks]
        self.template = Template(
            self.word(name),
            [Slot(*entry) for entry in parameters],
            [self.node(entry) for entry in nodes],
            [
                PathCondition(parent, predicate, bool(truth), bool(certain))
                for parent, predicate, truth, certain in conditions
            ],
            [self.loop(entry) for entry in loops],
            [_loops(around) for (around,) in blocks],
            [self.access(entry) for entry in accesses],
            [Unknown(line, self.word(reason)) for line, reason in unknowns],
            {name for name, entry in zip(self.names, symbols, strict=True) if entry[1]},
            {name: entry[2] for name, entry in zip(self.names, symbols, strict=True) if entry[2]},
            [self.tensor(entry) for entry in tensors],
        )

    def word(self, offset: int) -> str:
        return self.text[offset : self.text.index(b"\0", offset)].decode()

    def listed(self, count: int, first: int) -> tuple[int, ...]:
        if first + count > len(self.operands):
            raise IndexError("operands")
        return tuple(self.operands[first : first + count])

    def node(self, entry: tuple[int, ...]) -> Node:
        op, width, flags, code, count, first, block, condition, symbol, number = entry
        kind = OPS[op]
        name = ""
        if kind is Op.SPECIAL:
            name = _SPECIALS[code]
        elif kind is Op.COMPARE:
            name = _COMPARES[code]
        elif kind is Op.SYMBOL:
            name = self.names[symbol]
        if flags & _UNSIGNED64:
            number &= (1 << 64) - 1
        joined = self.listed(count, first + count) if kind is Op.PHI else ()
        args = self.listed(count, first)
        return Node(kind, args, width, bool(flags & _SIGNED), number, name, block, condition, joined)

    def loop(self, entry: tuple[int, ...]) -> LoopPlace:
        condition, entries, first_entry, backs, first_back, must, again, within = entry
        edges = self.listed(entries, first_entry), self.listed(backs, first_back)
        return LoopPlace(0, condition, *edges, _loops(within), _context(must), _context(again))

    def access(self, entry: tuple[int, ...]) -> Access:
        kind, address, size, condition, displacement, pitch, length, rows, line, flags, *_ = entry
        tells, count, first, must, loops = entry[-5:]
        block = 0 if _context(must) < 0 else self.around.index(loops)  # one in the same loops
        of = (KINDS[kind], address, displacement, size, condition, line)
        pointers = self.listed(count, first) if tells else None
        generic, back = bool(flags & _GENERIC), bool(flags & _LOOKS_BACK)
        return Access(*of, generic, rows, pitch, length, block, pointers, _context(must), back)

    def tensor(self, entry: tuple[int, ...]) -> TensorAccess:
        kind, offset, condition, line, *lists = entry
        place = IN_MEMORY if offset == IN_MEMORY % _WORD else offset
        return TensorAccess(KINDS[kind], place, condition, line, self.listed(*lists[:2]), self.listed(*lists[2:]))


def _needed(template: Template) -> set[int]:
    """Nodes that accesses, conditions and loops need."""
    roots = [each for access in template.accesses for each in (access.address, access.pitch, access.length)]
    pending = [*roots, *(condition.predicate for condition in template.conditions)]
    found: set[int] = set()
    while pending:
        index = pending.pop()
        if index >= 0 and index not in found:
            found.add(index)
            pending += template.nodes[index].args
    return found


def _bits(loops: Iterable[int]) -> int:
    result = 0
    for number in loops:
        result |= 1 << min(number, _LOOPS - 1)
    return result


def _loops(bits: int) -> frozenset[int]:
    return frozenset(number for number in range(_LOOPS) if bits >> number & 1)


def _context(number: int) -> int:
    return -1 if number == _WORD - 1 else number


def _small(number: int) -> int:
    """The number of 64 bits with a sign that is congruent."""
    number &= (1 << 64) - 1
    return number - (1 << 64) if number >> 63 else number


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)
