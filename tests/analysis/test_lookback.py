"""Loads of the states of the tiles before a block's own, in loops that only memory ends."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from ptxtools.access.template import AccessKind, Template
from ptxtools.ranges import Launch, evaluate
from tests.instruments.both import made

P, SIZE, GRID = 1 << 32, 1 << 20, 3
PADDING = 32 * 8
CUB = "_ZN3cub16DeviceScanKernelINS0_13ScanTileStateIlLb1EEEEEvT_"


def source(name: str, loads: str) -> str:
    """Block x writes descriptor x; its threads look at those before it, 32 at a time."""
    return f"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry {name}(.param .u64 state)
{{
    .reg .b64 %a<6>; .reg .b32 %r<6>; .reg .pred %p;
    ld.param.u64 %a1, [state]; cvta.to.global.u64 %a1, %a1; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x;
    mul.wide.u32 %a2, %r1, 8; add.u64 %a2, %a1, %a2; mov.u64 %a3, 1;
    st.relaxed.gpu.global.u64 [%a2+{PADDING}], %a3;
    not.b32 %r3, %r2; add.s32 %r3, %r3, %r1;
again:
    mul.wide.s32 %a4, %r3, 8; add.s64 %a4, %a1, %a4;
    {loads} %a5, [%a4+{PADDING}];
    add.s32 %r3, %r3, -32; setp.ne.u64 %p, %a5, 2; @%p bra again;
    ret;
}}
"""


def looked_at(template: Template) -> list[tuple[int, int]]:
    launch = Launch(struct.pack("<Q", P), (GRID, 1, 1), (32, 1, 1), {P: (P - SIZE, P + SIZE)}.get)
    found = evaluate(template, launch)
    assert not found.unknown
    return [(each.begin, each.end) for each in found.ranges if each.kind is AccessKind.READ]


@pytest.mark.full
@pytest.mark.parametrize("of", ["ptx", "machine code"])
def test_a_tile_looks_back_to_where_the_descriptors_begin(of: str, tmp_path: Path) -> None:
    template = made(source(CUB, "ld.relaxed.gpu.global.u64"), of, tmp_path)
    assert looked_at(template) == [(P, P + PADDING + 8 * GRID)]


@pytest.mark.full
@pytest.mark.parametrize("of", ["ptx", "machine code"])
@pytest.mark.parametrize(
    ("name", "loads"), [("other", "ld.relaxed.gpu.global.u64"), (CUB, "ld.global.u64")], ids=["name", "weak"]
)
def test_other_loads_may_be_anywhere(of: str, name: str, loads: str, tmp_path: Path) -> None:
    assert looked_at(made(source(name, loads), of, tmp_path)) == [(P - SIZE, P + SIZE)]
