"""Kernels with instructions that are cut off, mixed up or made of odd parts, each made from a number alone."""

from __future__ import annotations

import random
import re
from functools import cache
from pathlib import Path

from ptxtools.isa.semantics import ROWS

_CORPUS = Path(__file__).parents[1] / "corpus"
_INSTRUCTION = re.compile(r"^\s*(?:@!?%\w+\s+)?([a-z][\w.:]*)\s+([^;\n]*);", re.MULTILINE)
_COMMA = re.compile(r",(?![^{\[(]*[}\])])")
_HEAD = """.version 8.0
.target sm_90
.address_size 64
.global .align 4 .b32 numbers[4] = {1, 2};
.extern .shared .align 16 .b8 room[];
.func (.param .b32 o) f(.param .b32 i) { .reg .b32 %x; ld.param.u32 %x, [i]; st.param.b32 [o], %x; ret; }
.visible .entry k(.param .u64 p, .param .align 8 .b8 s[24])
{
.reg .pred %p<9>; .reg .b32 %r<99>; .reg .b64 %rd<99>; .reg .f32 %f<9>; .local .b8 own[16];
ld.param.u64 %rd1, [p]; ld.param.u64 %rd2, [s+8]; mov.u32 %r2, %tid.x; mov.u32 %r1, 7;
L:
"""
_ENDS = (
    "add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r1; ret;\n}\n",
    "ret; }",
    "bra L; }",
    "@%p1 bra L; ret; }",
)
_RARE = """wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r1, %r2}, [%rd1], %r3;
wmma.store.d.sync.aligned.row.m16n16k16.f32 [%rd1], {%r1}, %r2;
cp.async.ca.shared.global [%r1], [%rd1], 16, %r2;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], %r2, [%r3];
cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3}], [%r4];
cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%rd1], [%r1], %r2;
cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%rd1, {%r2}], [%r1];
red.global.add.v2.f32 [%rd1], {%f1, %f2};
ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1+16];
discard.global.L2 [%rd1], 128;
call (%r1), f, (%r2);
brx.idx %r1, L;
setp.lt.and.s32 %p1|%p2, %r1, %r2, %p3;
shfl.sync.bfly.b32 %r1|%p1, %r2, 1, 31, -1;
tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [tex, {%f1, %f2}];
ld.param.v2.u32 {%r1, %r2}, [p];
mbarrier.init.shared.b64 [%r1], %r2;
"""
_PARTS = (
    *("", "v4", "global", "shared", "m16n16k16", f"m{'1' * 4400}n1k1", "b0", "u" + "9" * 4400, "b" + "9" * 30, "load"),
    *("store", "tensor", "bulk", "reduce", "f16x2", "pred", "::", "a::b", "²", "5d", "im2col", "wide", "x2"),
)
_OPERANDS = (
    *("", "%r1", "%rd1", "[%rd1]", "[%rd1+%r1]", "[]", "[", "{", "}", "{}", "{%r1}", "[%rd1, {%r1}]", "[{%r1}]", "|"),
    *("%p1", "%p1|%p2", "-1", "0x", "0f", "0f3F800000", "1" * 4500, "0x" + "f" * 5000, "L", "p", "[p]", "[p-1]", "_"),
    *("[p+99999999999999999999]", "%tid.x", "%tid", "!%p1", "(%r1)", "()", "f", "[%rd1+-]", "{_, %r1}", "[%rd1],"),
    *("'", "%r1 %r2", "08", "[numbers]", "numbers+4", "²", "%r²", "[%rd1+²]", "[[%rd1]]", "{{%r1}}", "{" * 3000),
)
_GUARDS = ("", "", "", "@%p1 ", "@!%p2 ", "@! ", "@%r1 ", "@%none ")


@cache
def opcodes() -> list[tuple[str, str]]:
    """Each with its operands."""
    texts = [_RARE, *(file.read_text(errors="replace") for file in sorted(_CORPUS.rglob("*.ptx")))]
    found = {row.key: "%r1, %r2, %r3, %r4" for row in ROWS}
    return sorted((found | dict(pair for text in texts for pair in _INSTRUCTION.findall(text))).items())


def odd_kernel(chance: random.Random) -> str:
    lines = [_odd(*chance.choice(opcodes()), chance) for _ in range(chance.choice((1, 1, 2, 4)))]
    return _HEAD + "\n".join(lines) + "\n" + chance.choice(_ENDS)


def _odd(opcode: str, operands: str, chance: random.Random) -> str:
    parts, given = opcode.split("."), [each.strip() for each in _COMMA.split(operands)]
    for _ in range(chance.choice((0, 1, 1, 1, 2, 3))):
        _change(parts, _PARTS, chance)
    for _ in range(chance.choice((0, 0, 1, 1, 2, 3))):
        _change(given, _OPERANDS, chance)
    return f"{chance.choice(_GUARDS)}{'.'.join(parts)} {', '.join(given)};"


def _change(parts: list[str], others: tuple[str, ...], chance: random.Random) -> None:
    at, kind = chance.randrange(len(parts) + 1), chance.randrange(6)
    if kind == 0:
        del parts[at : at + 1]
    elif kind == 1:
        parts.insert(at, chance.choice(others))
    elif kind == 2:
        parts[at : at + 1] = [chance.choice(others)]
    elif kind == 3:
        del parts[at:]
    elif kind == 4:
        parts += parts[at:]
    else:
        chance.shuffle(parts)
