"""The tests that stand before one instruction: what it touches, as a call for each row of bytes."""

from __future__ import annotations

from dataclasses import dataclass, field

from ptxtools.access.effects import Effect, effects
from ptxtools.access.template import AccessKind
from ptxtools.clone.check import FUNCTION, KIND_BITS
from ptxtools.clone.places import Places
from ptxtools.reader import Address, Function, Instruction, Number, Register

_KINDS = tuple(AccessKind)
_WIDE, _NARROW = ("b64", "u64", "s64"), ("b32", "u32", "s32")


@dataclass(slots=True)
class _Site:
    """Statements of a scope of its own, in which the instruction's operands mean what they mean outside."""

    function: Function
    instruction: Instruction
    places: Places
    statements: list[str] = field(default_factory=list)
    guards: list[str] = field(default_factory=list)  # predicates that all hold where the instruction touches memory

    def say(self, *statements: str) -> None:
        self.statements += statements

    def wide(self, name: str, number: int) -> str:
        """The 64-bit value of an operand. Errors: ValueError when it is no register or number."""
        operand = self.instruction.operand(number)
        if isinstance(operand, Number) and operand.value is not None:
            self.say(f"mov.u64 {name},{operand.value};")
        elif isinstance(operand, Register):
            self.move(name, operand.name)
        else:
            raise ValueError(f"{self.instruction.opcode}: operand {number + 1} is no number")
        return name

    def move(self, name: str, register: str) -> None:
        """Of a register, or the address of a variable."""
        if load := self.places.load(self.function, name, register):
            self.say(load)
            return
        kind = self.function.body.register_type(register)
        plain = register.partition("#")[0]
        if kind in _WIDE:
            self.say(f"mov.b64 {name},{plain};")
        elif kind in _NARROW:
            self.say(f"cvt.u64.u32 {name},{plain};")
        else:
            raise ValueError(f"{self.instruction.opcode}: {plain} is no register for addresses and sizes")

    def both(self, predicate: str, negated: bool) -> None:
        """One more predicate that holds where the instruction touches memory."""
        own = f"%tsr_g{len(self.guards)}"
        plain = predicate.partition("#")[0]
        self.say(f".reg .pred {own};", f"not.pred {own},{plain};" if negated else f"and.pred {own},{plain},{plain};")
        self.guards.append(own)


def tests(function: Function, instruction: Instruction, windows: list[str], places: Places) -> str:
    """In one line; "" where nothing is to be tested. `windows`: isspacep of memory that is not global, besides shared
    and local memory. `places`: of the module's variables. Errors: ValueError when an operand cannot be read.
    """
    found = effects(instruction.opcode, instruction.operand_count)
    if not isinstance(found, list) or "const" in instruction.parts:
        return ""
    return "".join(_test(_Site(function, instruction, places), effect, windows) for effect in found)


def _test(site: _Site, effect: Effect, windows: list[str]) -> str:
    instruction = site.instruction
    site.say(".reg .b64 %tsr_a,%tsr_n,%tsr_m,%tsr_p;.reg .b32 %tsr_w;.reg .pred %tsr_q;")
    if instruction.guard:
        site.both(instruction.guard, instruction.guard_negated)
    _address(site, effect)
    _size(site, effect)
    if effect.generic:
        _only_global(site, windows)
    line = site.function.line(instruction.offset)
    site.say(f"mov.u32 %tsr_w,{line << KIND_BITS | _KINDS.index(effect.kind)};")
    for other in site.guards[1:]:
        site.say(f"and.pred {site.guards[0]},{site.guards[0]},{other};")
    if effect.rows > 1:
        _pitch(site, effect)
    for row in range(effect.rows):
        if row:
            site.say("add.u64 %tsr_a,%tsr_a,%tsr_p;")
        _call(site, row)
    return "{" + "".join(site.statements) + "}"


def _address(site: _Site, effect: Effect) -> None:
    operand = site.instruction.operand(effect.address)
    if not isinstance(operand, Address) or operand.base is None:
        raise ValueError(f"{site.instruction.opcode}: operand {effect.address + 1} is no address in a register")
    site.move("%tsr_a", operand.base)
    if operand.displacement:
        site.say(f"add.s64 %tsr_a,%tsr_a,{operand.displacement};")


def _size(site: _Site, effect: Effect) -> None:
    """cp.async reads as many bytes as its smaller size says, and none where its predicate says so."""
    if effect.length < 0:
        site.say(f"mov.u64 %tsr_n,{effect.size};")
        return
    site.wide("%tsr_n", effect.length)
    if effect.partial < 0 or site.instruction.operand_count <= effect.partial:
        return
    partial = site.instruction.operand(effect.partial)
    kind = site.function.body.register_type(partial.name) if isinstance(partial, Register) else "number"
    if kind == "pred" and isinstance(partial, Register):
        site.both(partial.name, not partial.negated)
    elif kind != "b64":  # that is a cache policy
        site.wide("%tsr_m", effect.partial)
        site.say("min.u64 %tsr_n,%tsr_n,%tsr_m;")


def _only_global(site: _Site, windows: list[str]) -> None:
    site.say("isspacep.global %tsr_q,%tsr_a;")
    site.both("%tsr_q", negated=False)
    for window in windows:
        site.say(f"{window} %tsr_q,%tsr_a;")
        site.both("%tsr_q", negated=True)


def _pitch(site: _Site, effect: Effect) -> None:
    last = site.instruction.operand_count - 1
    if last < effect.pitch or site.instruction.operand_texts[last][:1] in ("{", "["):
        site.say(f"mov.u64 %tsr_p,{effect.size};")
    else:
        site.wide("%tsr_p", last)
        site.say(f"mul.lo.u64 %tsr_p,%tsr_p,{effect.pitch_bytes};")


def _call(site: _Site, row: int) -> None:
    address, size, what = (f"tsr_{name}{row}" for name in "anw")
    guard = f"@{site.guards[0]} " if site.guards else ""
    site.say(
        f".param .b64 {address};.param .b64 {size};.param .b32 {what};",
        f"st.param.b64 [{address}],%tsr_a;st.param.b64 [{size}],%tsr_n;st.param.b32 [{what}],%tsr_w;",
        f"{guard}call {FUNCTION},({address},{size},{what});",
    )
