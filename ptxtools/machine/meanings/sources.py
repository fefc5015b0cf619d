"""Where values come from: other registers, the launch, constant banks, the stack, other lanes, conversions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxtools.access.template import Node, Op
from ptxtools.access.uniform import is_uniform
from ptxtools.machine.banks import PARAMETERS, SMALL
from ptxtools.machine.elements import element
from ptxtools.machine.instruction import MachineInstruction
from ptxtools.machine.maker import ESTIMATE, FLOAT, RECIPROCAL, WIDE_ESTIMATE
from ptxtools.machine.operand import Operand, Sort, halves

if TYPE_CHECKING:
    from ptxtools.machine.values import Place

_SPECIAL = {
    f"SR_{name}.{axis.upper()}": f"{word}.{axis}"
    for axis in "xyz"
    for name, word in (("TID", "tid"), ("CTAID", "ctaid"))
}
_SPECIAL["SR_LANEID"] = "laneid"
_CONSTANT = {"SR_CgaCtaId"}  # what never changes in a thread, and nothing more is known of
_LANES = 32


def copied(at: Place, code: MachineInstruction) -> int | None:
    if at.is_predicate or not code.sources:
        return None
    source = next((each for each in code.sources if each.sort is not Sort.PREDICATE), None)
    if source is None:
        return None
    if source.sort is Sort.NUMBER:
        return at.make.word(source.number if at.position == 0 else source.number >> 32)
    return at.signed(source, at.word(source, at.position), 32) if not source.sign else None


def special(at: Place, code: MachineInstruction) -> int | None:
    name = code.sources[0].name if code.sources else ""
    if name == "SRZ":
        return at.make.number(0)
    if name == "SR_SWINHI":
        return at.make.high(at.values.banks.window(at.make))
    if at.is_predicate or at.position:
        return None
    if name in _SPECIAL:
        return at.make.graph.add(Node(Op.SPECIAL, name=_SPECIAL[name]))
    return at.values.constant(name) if name in _CONSTANT else None


def constant(at: Place, code: MachineInstruction) -> int | None:
    source = next((each for each in code.sources if each.sort is Sort.CONSTANT), None)
    if at.is_predicate or source is None:
        return None
    small = [part for part in code.parts if part in ("U8", "S8", "U16", "S16")]
    if small and source.bank == PARAMETERS and source.name and at.make.of(at.register(source.name)) is None:
        bits, signed = SMALL[small[0]]
        index, kernel = at.register(source.name), at.values.banks.kernel
        return element(at.make, kernel, source.number, index, bits, code.offset, signed=signed)
    if small:
        return at.values.banks.small(at.make, source, small[0])
    if source.name and at.make.of(at.register(source.name)) is None:
        return _indexed(at, code, source)
    return at.word(source, at.position)


def _indexed(at: Place, code: MachineInstruction, source: Operand) -> int:
    """A word of a bank at a place that a register says."""
    banks, bits = at.values.banks, 64 if len(code.results) > 1 else 32
    key = (at.index, at.position // 2)
    if key not in at.values.loaded:
        index, offset = at.register(source.name), source.number + 8 * (at.position // 2)
        at.values.loaded[key] = (
            element(at.make, banks.kernel, offset, index, bits, code.offset)
            if source.bank == PARAMETERS
            else at.make.loaded(bits, False, code.offset)
        )
    whole = at.values.loaded[key]
    if bits == 32:
        return whole
    return at.make.high(whole) if at.position % 2 else at.make.low(whole)


def stored(at: Place, code: MachineInstruction) -> int | None:
    """A word of the stack that is stored whole."""
    return at.word(code.sources[-1], at.position) if code.slots else None


def loaded(at: Place, code: MachineInstruction) -> int | None:
    if at.is_predicate:
        return None
    if code.slots:
        return at.register(code.slots[at.position])
    for part, (bits, signed) in {"U8": (8, False), "S8": (8, True), "U16": (16, False), "S16": (16, True)}.items():
        if part in code.parts:
            return at.make.loaded(bits, signed, code.offset)
    whole = _loaded_pair(at, len(code.results))
    return at.make.loaded(32, False, code.offset) if whole is None else whole


def _loaded_pair(at: Place, count: int) -> int | None:
    """One of the words of a vector: each two are a value of 64 bits."""
    if count < 2:
        return None
    key = (at.index, at.position // 2)
    known = at.values.loaded.get(key)
    if known is None:
        known = at.values.loaded[key] = at.make.loaded(64, False, at.values.offset(at.index))
    return at.make.high(known) if at.position % 2 else at.make.low(known)


def shuffle(at: Place, code: MachineInstruction) -> int | None:
    """The value of lane 0 of all, when the lanes do not differ in it."""
    if at.is_predicate or code.parts[1:] != ["IDX"] or len(code.sources) != 3:
        return None
    value, lane, limit = (at.word(each) for each in code.sources)
    is_first = at.make.of(lane) == 0 and at.make.of(limit) == _LANES - 1
    return value if is_first and is_uniform(at.make.graph, value) else None


def half_of(at: Place, code: MachineInstruction) -> int | None:
    """How compilers load a number with the multiplier."""
    number = None if at.is_predicate else halves(code.sources)
    return None if number is None else at.make.number(number)


def to_float(at: Place, code: MachineInstruction) -> int | None:
    """Rounded up, as quotients begin; ptxas 11.8 takes the nearest float for words on sm_90 (I2FP)."""
    form, source = code.opcode.removeprefix("U").partition(".")[2], code.sources[0]
    if at.is_predicate or source.sign or form not in ("RP", "U32.RP", "U64.RP", "F32.U32"):
        return None
    words = (at.word(source), at.word(source, 1)) if form == "U64.RP" else (at.word(source),)
    return at.make.scratch(FLOAT, words, int("U32" in form))


def reciprocal(at: Place, code: MachineInstruction) -> int | None:
    if at.is_predicate or code.parts[1:] != ["RCP"] or code.sources[0].sign:
        return None
    value = at.word(code.sources[0])
    node = at.make.graph.nodes[value]
    if node.op is not Op.UNKNOWN or node.name != FLOAT:
        return None
    return at.make.scratch(RECIPROCAL, node.args, node.number)


def from_float(at: Place, code: MachineInstruction) -> int | None:
    """The reciprocal's bits moved, as an integer: just below 2^32 / divisor, or 2^64 / divisor."""
    parts = code.parts[1:]
    moved = {"FTZ U32 TRUNC NTZ": 0xFFFFFFE, "U64 TRUNC": 0x1FFFFFFE}.get(" ".join(parts))
    if at.is_predicate or moved is None or code.sources[0].sign:
        return None
    node = at.make.graph.nodes[at.word(code.sources[0])]
    if node.op is not Op.ADD or at.make.of(node.args[1]) != moved:
        return None
    source = at.make.graph.nodes[node.args[0]]
    if source.op is not Op.UNKNOWN or source.name != RECIPROCAL or len(source.args) != 1 + ("U64" in parts):
        return None
    if "U64" in parts:
        return at.make.scratch(WIDE_ESTIMATE, source.args, at.position)
    return at.make.scratch(ESTIMATE, source.args, source.number)
