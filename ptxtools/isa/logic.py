"""Bitwise logic, shifts, byte permutes, moves, selects, packing: instructions that do not look at numbers."""

from __future__ import annotations

from ptxtools.isa.row import Form, Kind, OpClass, Row, Rows, Transfer, dotted
from ptxtools.isa.types import Type

GROUP = "logic"
_BITWISE = {"and": ("A & B", Kind.AND), "or": ("A | B", Kind.OR), "xor": ("A ^ B", Kind.XOR)}
_PERMUTE_MODES = ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")
_WORDS = (Type.B16, Type.B32, Type.B64)
_MOVABLE = (
    Type.B16,
    Type.U16,
    Type.S16,
    Type.B32,
    Type.U32,
    Type.S32,
    Type.B64,
    Type.U64,
    Type.S64,
    Type.F32,
    Type.F64,
)


def _row(key: str, dst: Type, sources: tuple[Type, ...], value: str, kind: Kind, cls: OpClass = OpClass.INT) -> Row:
    return Row(key, dst, sources, value, cls, GROUP, Transfer(kind, sources[0].bits, sources[0].signed), raw=True)


def _predicates() -> Rows:
    def row(key: str, count: int, value: str, kind: Kind) -> Row:
        return Row(key, Type.PRED, (Type.PRED,) * count, value, OpClass.INT, GROUP, Transfer(kind, 1), form=Form.MASKS)

    for name, (value, kind) in _BITWISE.items():
        yield row(f"{name}.pred", 2, value, kind)
    yield row("not.pred", 1, "~A", Kind.NOT)
    yield row("mov.pred", 1, "A", Kind.COPY)


def _bitwise() -> Rows:
    for word in _WORDS:
        for name, (value, kind) in _BITWISE.items():
            yield _row(f"{name}.{word.value}", word, (word, word), f"({word.carrier})({value})", kind)
        yield _row(f"not.{word.value}", word, (word,), f"({word.carrier})~A", Kind.NOT)
        yield _row(f"cnot.{word.value}", word, (word,), "A == 0", Kind.OPAQUE)
    b32 = Type.B32
    yield _row("lop3.b32", b32, (b32,) * 4, "b32_lop3(A, B, C, &table)", Kind.LOP3)
    for combine, sign in (("or", "|"), ("and", "&")):
        yield Row(
            f"lop3.{combine}.b32",
            b32,
            (b32, b32, b32, Type.PRED),
            "x",
            OpClass.INT,
            GROUP,
            raw=True,
            temporaries=("uint32_t x = b32_lop3(A, B, C, &table);",),
            second=f"(x != 0) {sign} D",
        )


def _shifts() -> Rows:
    for word in _WORDS:
        bits = word.bits
        yield _row(
            f"shl.{word.value}",
            word,
            (word, Type.U32),
            f"B > {bits - 1} ? 0 : ({word.carrier})(A << (B & {bits - 1}))",
            Kind.SHL,
        )
        for kind in (word, Type(f"u{bits}"), Type(f"s{bits}")):
            value = (
                f"A >> (B > {bits - 1} ? {bits - 1} : B)"
                if kind.signed
                else (f"B > {bits - 1} ? 0 : ({kind.carrier})(A >> (B & {bits - 1}))")
            )
            yield Row(
                f"shr.{kind.value}",
                kind,
                (kind, Type.U32),
                f"({kind.carrier})({value})",
                OpClass.INT,
                GROUP,
                Transfer(Kind.SHR, bits, kind.signed),
                raw=not kind.signed,
            )
    for mode, amount in (("clamp", "(C > 32 ? 32 : C)"), ("wrap", "(C & 31)")):
        sources = (Type.B32, Type.B32, Type.U32)
        yield _row(
            f"shf.l.{mode}.b32",
            Type.B32,
            sources,
            f"(uint32_t)(((uint64_t)B << 32 | A) << {amount} >> 32)",
            Kind.FUNNEL_LEFT,
        )
        yield _row(
            f"shf.r.{mode}.b32",
            Type.B32,
            sources,
            f"(uint32_t)(((uint64_t)B << 32 | A) >> {amount})",
            Kind.FUNNEL_RIGHT,
        )
    yield _row("prmt.b32", Type.B32, (Type.B32, Type.B32, Type.B32), "b32_prmt(A, B, C)", Kind.PERMUTE)
    for mode in _PERMUTE_MODES:
        yield _row(
            f"prmt.b32.{mode}",
            Type.B32,
            (Type.B32, Type.B32, Type.B32),
            f"b32_prmt(A, B, b32_prmt_{mode}(C))",
            Kind.OPAQUE,
        )


def _moves() -> Rows:
    for kind in _MOVABLE:
        yield _row(f"mov.{kind.value}", kind, (kind,), "A", Kind.COPY, OpClass.MOVE)
        yield _row(f"selp.{kind.value}", kind, (kind, kind, Type.PRED), "C ? A : B", Kind.SELECT, OpClass.INT)
        yield Row(
            f"slct.{kind.value}.s32",
            kind,
            (kind, kind, Type.S32),
            "(int32_t)C >= 0 ? A : B",
            OpClass.INT,
            GROUP,
            raw=True,
        )
        for ftz in ("", "ftz"):
            number = "f32_flush(f32_from(C))" if ftz else "f32_from(C)"
            yield Row(
                dotted("slct", ftz, kind.value, "f32"),
                kind,
                (kind, kind, Type.F32),
                f"{number} >= 0 ? A : B",
                OpClass.INT,
                GROUP,
                raw=True,
            )


def _packing() -> Rows:
    """Vector operands of mov, and what changes a value's register width."""
    for whole, part in (
        (Type.B64, Type.B32),
        (Type.B64, Type.B16),
        (Type.B32, Type.B16),
        (Type.B32, Type.B8),
        (Type.B16, Type.B8),
    ):
        count = whole.bits // part.bits
        shape = f"{whole.value}.{part.value}"
        pieces = " | ".join(
            f"({whole.carrier})(({whole.carrier})({part.carrier}){name} << {n * part.bits})"
            for n, name in zip(range(count), "ABCD", strict=False)
        )
        yield Row(
            f"tsr.pack.{shape}x{count}",
            whole,
            (part,) * count,
            f"({whole.carrier})({pieces})",
            OpClass.MOVE,
            GROUP,
            Transfer(Kind.PACK, part.bits),
        )
        for n in range(count):
            yield Row(
                f"tsr.unpack.{shape}.{n}",
                part,
                (whole,),
                f"({part.carrier})(A >> {n * part.bits})",
                OpClass.MOVE,
                GROUP,
                Transfer(Kind.UNPACK, whole.bits, detail=str(n)),
            )
    for narrow in (Type.B8, Type.B16, Type.B32):
        for wide in _WORDS:
            if wide.bits <= narrow.bits:
                continue
            n, m = narrow.value, wide.value
            yield Row(
                f"tsr.low.{n}.{m}",
                narrow,
                (wide,),
                f"({narrow.carrier})A",
                OpClass.MOVE,
                GROUP,
                Transfer(Kind.CONVERT, narrow.bits),
            )
            yield Row(
                f"tsr.zext.{m}.{n}", wide, (narrow,), "A", OpClass.MOVE, GROUP, Transfer(Kind.CONVERT, narrow.bits)
            )
            signed = f"int{narrow.bits}_t"
            yield Row(
                f"tsr.sext.{m}.{n}",
                wide,
                (narrow,),
                f"({wide.carrier})({signed})A",
                OpClass.MOVE,
                GROUP,
                Transfer(Kind.CONVERT, narrow.bits, True),
            )


def rows() -> Rows:
    for family in (_predicates, _bitwise, _shifts, _moves, _packing):
        yield from family()
