"""Operand types of PTX, and how the emulator keeps one lane's value of each."""

from __future__ import annotations

from enum import Enum


class Type(Enum):
    """A PTX operand type. Names and order are those of `enum tsr_type` (isa/op.h)."""

    NONE = ""
    PRED = "pred"
    B8 = "b8"
    U8 = "u8"
    S8 = "s8"
    B16 = "b16"
    U16 = "u16"
    S16 = "s16"
    F16 = "f16"
    BF16 = "bf16"
    B32 = "b32"
    U32 = "u32"
    S32 = "s32"
    F32 = "f32"
    F16X2 = "f16x2"
    BF16X2 = "bf16x2"
    B64 = "b64"
    U64 = "u64"
    S64 = "s64"
    F64 = "f64"
    B128 = "b128"

    @property
    def bits(self) -> int:
        """Width of one lane's value; a predicate has one bit."""
        return _BITS[self]

    @property
    def signed(self) -> bool:
        return self.value.startswith("s")

    @property
    def floating(self) -> bool:
        return self.value.startswith(("f", "bf"))

    @property
    def integer(self) -> bool:
        """Signed, unsigned or untyped bits."""
        return self.value[:1] in "bus" and not self.floating and self not in (Type.NONE, Type.B128)

    @property
    def half(self) -> bool:
        """One 16-bit floating-point number."""
        return self in (Type.F16, Type.BF16)

    @property
    def packed(self) -> bool:
        """Two 16-bit floating-point numbers."""
        return self in (Type.F16X2, Type.BF16X2)

    @property
    def element(self) -> Type:
        """The type of one number in a packed type; the type itself otherwise."""
        return {Type.F16X2: Type.F16, Type.BF16X2: Type.BF16}.get(self, self)

    @property
    def storage(self) -> str:
        """C type of one lane in the frame. 8-bit values lie in 16-bit registers."""
        if self is Type.F32:
            return "float"
        if self is Type.F64:
            return "double"
        return f"{'int' if self.signed else 'uint'}{max(self.bits, 16)}_t"

    @property
    def carrier(self) -> str:
        """C type of the value itself."""
        return self.storage if self.bits != 8 else ("int8_t" if self.signed else "uint8_t")

    @property
    def raw(self) -> Type:
        """The untyped type of the same width."""
        return self if self in (Type.NONE, Type.PRED) else Type(f"b{self.bits}")


_WIDE = {"pred": 1, "f16x2": 32, "bf16x2": 32, "": 0}
_BITS = {t: _WIDE[t.value] if t.value in _WIDE else int(t.value.lstrip("bufs")) for t in Type}

INTEGERS_16_64 = (Type.U16, Type.U32, Type.U64, Type.S16, Type.S32, Type.S64)


def unsigned(kind: Type) -> Type:
    return Type(f"u{kind.bits}")


def wider(kind: Type) -> Type:
    """The integer type of the same sign and twice the width."""
    return Type(f"{kind.value[0]}{kind.bits * 2}")
