"""Integer arithmetic: add to dp4a."""

from __future__ import annotations

from ptxtools.isa.row import Kind, OpClass, Part, Row, Rows, Transfer, dotted
from ptxtools.isa.types import INTEGERS_16_64, Type, unsigned, wider

GROUP = "integer"
_SIGN = {"+": Kind.ADD, "-": Kind.SUB}


def _row(
    key: str,
    dst: Type,
    sources: tuple[Type, ...],
    value: str,
    transfer: Transfer | Kind = Kind.OPAQUE,
    cls: OpClass = OpClass.INT,
    raw: bool = False,
) -> Row:
    if isinstance(transfer, Kind):
        transfer = Transfer(transfer, sources[0].bits, sources[0].signed)
    return Row(key, dst, sources, value, cls, GROUP, transfer, raw=raw)


def _sums() -> Rows:
    for name, sign in (("add", "+"), ("sub", "-")):
        for kind in INTEGERS_16_64:
            yield _row(dotted(name, kind.value), kind, (kind, kind), f"A {sign} B", _SIGN[sign], raw=True)
        exact = f"(int64_t)A {sign} B"
        yield _row(
            f"{name}.sat.s32",
            Type.S32,
            (Type.S32, Type.S32),
            f"s32_clamp({exact})",
            Transfer(_SIGN[sign], 32, True, saturate=True),
        )
    for packed in ("u16x2", "s16x2"):
        yield _row(
            f"add.{packed}",
            Type.B32,
            (Type.B32, Type.B32),
            "((A + (B & 0xffff0000u)) & 0xffff0000u) | ((A + B) & 0xffffu)",
        )
    for name, less in (("min", "<"), ("max", ">")):
        for packed, half in (("u16x2", "uint16_t"), ("s16x2", "int16_t")):
            low, high = (f"(({half})(A{s}) {less} ({half})(B{s}) ? A{s} : B{s})" for s in ("", " >> 16"))
            value = f"(({low}) & 0xffffu) | (({high}) << 16)"
            yield _row(f"{name}.{packed}", Type.B32, (Type.B32, Type.B32), value)
            if packed == "s16x2":
                yield _row(f"{name}.relu.{packed}", Type.B32, (Type.B32, Type.B32), f"s16x2_relu({value})")


def _products() -> Rows:
    three = {"mul": "", "mad": " + C"}
    for name, addend in three.items():
        kind_of = Kind.MUL if name == "mul" else Kind.MAD
        for kind in INTEGERS_16_64:
            sources = (kind, kind) + ((kind,) if addend else ())
            transfer = Transfer(kind_of, kind.bits, kind.signed)
            unsigned_a = "(uint32_t)A" if kind.bits == 16 else "A"
            yield _row(
                f"{name}.lo.{kind.value}",
                kind,
                sources,
                f"{unsigned_a} * B{addend}",
                transfer,
                OpClass.INT_MUL,
                raw=True,
            )
            high = Transfer(kind_of, kind.bits, kind.signed, Part.HIGH)
            product = f"{kind.value}_mul_hi(A, B)"
            value = (
                f"({kind.carrier})(({unsigned(kind).carrier}){product} + ({unsigned(kind).carrier})C)"
                if addend
                else product
            )
            yield _row(f"{name}.hi.{kind.value}", kind, sources, value, high, OpClass.INT_MUL)
            if kind.bits == 64:
                continue
            wide = wider(kind)
            sources = (kind, kind) + ((wide,) if addend else ())
            product = (
                f"({wide.carrier})A * ({wide.carrier})B"
                if kind.bits == 32
                else (f"({wide.carrier})((uint32_t)A * (uint32_t)B)")
            )
            whole = f"({unsigned(wide).carrier})({product})"
            value = f"({wide.carrier})({whole} + ({unsigned(wide).carrier})C)" if addend else product
            yield _row(
                f"{name}.wide.{kind.value}",
                wide,
                sources,
                value,
                Transfer(kind_of, kind.bits, kind.signed, Part.WIDE),
                OpClass.INT_MUL,
            )
    yield _row(
        "mad.hi.sat.s32",
        Type.S32,
        (Type.S32,) * 3,
        "s32_clamp((int64_t)s32_mul_hi(A, B) + C)",
        Transfer(Kind.MAD, 32, True, Part.HIGH, True),
        OpClass.INT_MUL,
    )
    yield from _products_24()


def _products_24() -> Rows:
    for kind in (Type.U32, Type.S32):
        signed = kind.signed
        product = "(s24(A) * s24(B))" if signed else "(u24(A) * u24(B))"
        low, high = f"(uint32_t){product}", f"(uint32_t)({product} >> 16)"
        for part, value in (("lo", low), ("hi", high)):
            yield _row(
                f"mul24.{part}.{kind.value}", kind, (kind, kind), f"({kind.carrier}){value}", cls=OpClass.INT_MUL
            )
            yield _row(
                f"mad24.{part}.{kind.value}",
                kind,
                (kind,) * 3,
                f"({kind.carrier})({value} + (uint32_t)C)",
                cls=OpClass.INT_MUL,
            )
    yield _row(
        "mad24.hi.sat.s32",
        Type.S32,
        (Type.S32,) * 3,
        "s32_clamp((int64_t)(int32_t)((s24(A) * s24(B)) >> 16) + C)",
        cls=OpClass.INT_MUL,
    )


def _divisions() -> Rows:
    for name, kind_of in (("div", Kind.DIV), ("rem", Kind.REM)):
        for kind in INTEGERS_16_64:
            yield _row(
                f"{name}.{kind.value}", kind, (kind, kind), f"{kind.value}_{name}(A, B)", kind_of, OpClass.INT_MUL
            )


def _single() -> Rows:
    for kind in (Type.S16, Type.S32, Type.S64):
        word = unsigned(kind).carrier
        yield _row(f"neg.{kind.value}", kind, (kind,), "0 - A", Kind.NEG, raw=True)
        yield _row(f"abs.{kind.value}", kind, (kind,), f"A < 0 ? ({word})0 - ({word})A : ({word})A", Kind.ABS)
    for kind in INTEGERS_16_64:
        pair = (kind, kind)
        yield _row(f"min.{kind.value}", kind, pair, "A < B ? A : B", Kind.MIN)
        yield _row(f"max.{kind.value}", kind, pair, "A > B ? A : B", Kind.MAX)
        whole = unsigned(kind).carrier
        distance = f"A < B ? ({whole})B - ({whole})A : ({whole})A - ({whole})B"
        yield _row(f"sad.{kind.value}", kind, (kind, kind, kind), f"({kind.carrier})(({whole})C + ({distance}))")
    for name, less in (("min", "<"), ("max", ">")):
        yield _row(f"{name}.relu.s32", Type.S32, (Type.S32, Type.S32), f"s32_relu(A {less} B ? A : B)")


def _bits() -> Rows:
    for kind in (Type.B32, Type.B64):
        bits = kind.value
        yield _row(f"popc.{bits}", Type.U32, (kind,), f"{bits}_popc(A)", cls=OpClass.SPECIAL)
        yield _row(f"clz.{bits}", Type.U32, (kind,), f"{bits}_clz(A)", cls=OpClass.SPECIAL)
        yield _row(f"brev.{bits}", kind, (kind,), f"{bits}_brev(A)", cls=OpClass.SPECIAL)
        yield _row(f"bfi.{bits}", kind, (kind, kind, Type.U32, Type.U32), f"{bits}_bfi(A, B, C, D)", Kind.INSERT)
    for kind in (Type.U32, Type.U64, Type.S32, Type.S64):
        bits = f"b{kind.bits}"
        positive = f"({unsigned(kind).carrier})(A < 0 ? ~A : A)" if kind.signed else "A"
        for shift in ("", "shiftamt"):
            suffix = "_shift" if shift else ""
            yield _row(
                dotted("bfind", shift, kind.value),
                Type.U32,
                (kind,),
                f"{bits}_bfind{suffix}({positive})",
                cls=OpClass.SPECIAL,
            )
        yield _row(f"bfe.{kind.value}", kind, (kind, Type.U32, Type.U32), f"{kind.value}_bfe(A, B, C)", Kind.EXTRACT)
    for mode in ("clamp", "wrap"):
        yield _row(f"bmsk.{mode}.b32", Type.B32, (Type.B32, Type.B32), f"b32_bmsk_{mode}(A, B)")
        for kind in (Type.U32, Type.S32):
            yield _row(f"szext.{mode}.{kind.value}", kind, (kind, Type.U32), f"{kind.value}_szext_{mode}(A, B)")
    yield _row("fns.b32", Type.B32, (Type.B32, Type.B32, Type.S32), "b32_fns(A, B, C)")


def _dot_products() -> Rows:
    for left in (Type.U32, Type.S32):
        for right in (Type.U32, Type.S32):
            result = Type.S32 if left.signed or right.signed else Type.U32
            signs = f"{left.value}.{right.value}"
            helper = f"{left.value[0]}{right.value[0]}"
            sources = (left, right, result)
            yield _row(
                f"dp4a.{signs}",
                result,
                sources,
                f"({result.carrier})dp4a_{helper}(A, B, (uint32_t)C)",
                cls=OpClass.INT_MUL,
            )
            for half in ("lo", "hi"):
                selected = "B >> 16" if half == "hi" else "B"
                yield _row(
                    f"dp2a.{half}.{signs}",
                    result,
                    sources,
                    f"({result.carrier})dp2a_{helper}(A, (uint32_t)({selected}), (uint32_t)C)",
                    cls=OpClass.INT_MUL,
                )


def _packed_distances() -> Rows:
    """Distances of bytes and halves, the video instructions that compilers still emit.

    The third operand is an addend; without one it fills the lanes that are not selected, and here all are.
    """
    for lanes in (2, 4):
        bits = 32 // lanes
        pairs = [
            (f"(A >> {n} & {(1 << bits) - 1:#x}u)", f"(B >> {n} & {(1 << bits) - 1:#x}u)") for n in range(0, 32, bits)
        ]
        distances = [f"({x} > {y} ? {x} - {y} : {y} - {x})" for x, y in pairs]
        key = f"vabsdiff{lanes}.u32.u32.u32"
        sources = (Type.U32, Type.U32, Type.U32)
        packed = " | ".join(f"{distance} << {n * bits}" for n, distance in enumerate(distances))
        yield _row(key, Type.U32, sources, f"(C & 0u) | {packed}")
        yield _row(f"{key}.add", Type.U32, sources, " + ".join(["C", *distances]))


def _shifted_sums() -> Rows:
    """A video instruction that CUB writes: a shifted value and an addend."""
    yield _row("vshr.u32.u32.u32.clamp.add", Type.U32, (Type.U32, Type.U32, Type.U32), "(B > 31u ? 0u : A >> B) + C")


def _carries() -> Rows:
    """Extended precision: the condition code is an ordinary predicate register (exec/op_keys_lane.md)."""
    for kind in (Type.U32, Type.S32, Type.U64, Type.S64):
        whole = unsigned(kind)
        for name in ("add", "sub"):
            for carry_in in (False, True):
                for carry_out in (False, True):
                    if not carry_in and not carry_out:
                        continue
                    key = dotted(name + ("c" if carry_in else ""), "cc" if carry_out else "", kind.value)
                    yield _carry_row(key, name, kind, whole, carry_in, carry_out)
        for part in ("lo", "hi"):
            for carry_in, name in ((False, "mad"), (True, "madc")):
                for carry_out in (True, False):
                    if not carry_in and not carry_out:
                        continue
                    key = dotted(name, part, "cc" if carry_out else "", kind.value)
                    product = (
                        f"(({whole.carrier})A * ({whole.carrier})B)"
                        if part == "lo"
                        else (f"({whole.carrier}){kind.value}_mul_hi(A, B)")
                    )
                    sources = (kind, kind, kind) + ((Type.PRED,) if carry_in else ())
                    first = f"{whole.carrier} p = {product}, s = p + ({whole.carrier})C"
                    then = f", x = s + ({whole.carrier})D;" if carry_in else ", x = s;"
                    carry = "(s < p) | (x < s)" if carry_in else "s < p"
                    yield Row(
                        key,
                        kind,
                        sources,
                        f"({kind.carrier})x",
                        OpClass.INT_MUL,
                        "carry",
                        temporaries=(first + then,),
                        second=carry if carry_out else "",
                    )


def _carry_row(key: str, name: str, kind: Type, whole: Type, carry_in: bool, carry_out: bool) -> Row:
    """Subtraction's condition code is a borrow: 1 when the result wrapped."""
    word = whole.carrier
    sources = (kind, kind) + ((Type.PRED,) if carry_in else ())
    added = f" {'+' if name == 'add' else '-'} ({word})C" if carry_in else ""
    if name == "add":
        first = f"{word} s = ({word})A + ({word})B, x = s{added};"
        carry = "(s < " + f"({word})A) | (x < s)"
    else:
        first = f"{word} s = ({word})A - ({word})B, x = s{added};"
        carry = f"(({word})A < ({word})B) | (s < x)"
    return Row(
        key,
        kind,
        sources,
        f"({kind.carrier})x",
        OpClass.INT,
        "carry",
        temporaries=(first,),
        second=carry if carry_out else "",
    )


def rows() -> Rows:
    for family in (
        _sums,
        _products,
        _divisions,
        _single,
        _bits,
        _dot_products,
        _packed_distances,
        _shifted_sums,
        _carries,
    ):
        yield from family()
