"""Loads whose values nobody uses, and texts of one kernel that are whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ptxtools.access.template import AccessKind
from tests.instruments.against import Code, assemble, verdicts
from tests.instruments.campaign import launched
from tests.instruments.live import live
from tests.instruments.oracle import launches
from tests.instruments.pieces import pieces

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
LOADS = (
    HEAD
    + """.visible .entry loads(.param .u64 in, .param .u64 out, .param .u32 count) {
    .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<3>;
    ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; ld.param.u32 %r1, [count];
    setp.gt.u32 %p1, %r1, 3;
    ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd1+16];
    @%p1 ld.global.nc.u64 %rd3, [%rd1+64];
    ld.volatile.global.u32 %r6, [%rd1+128];
    ld.global.v2.u64 {%rd6, %rd4}, [%rd1+256];
    shr.u64 %rd5, %rd6, 48;
    cvt.u32.u64 %r7, %rd3;
    add.u32 %r8, %r2, %r4;
    st.global.v4.u32 [%rd2], {%r8, %r5, %r7, %r5};
    st.global.u64 [%rd2+16], %rd5;
    ret;
}
"""
)


def traced(text: str, directory: Path, native: Path) -> dict[AccessKind, list[tuple[int, int]]]:
    """What a launch touches, in bytes from its buffer's address."""
    file = directory / "loads.ptx"
    file.write_text(text)
    job = {"text": str(file), "function": "loads", "grid": [1, 1, 1], "block": [1, 1, 1], "shared": 0}
    job |= {"pointers": {"0": 0, "8": 1}, "values": (bytes(16) + (9).to_bytes(4, "little")).hex()}
    assert launched([json.dumps(job)], directory, {"TESSERA_NATIVE": str(native / "native")}, 10.0) == ["right"]
    (found,) = launches(directory / "trace")
    bases = [int.from_bytes(found.launch.parameters[at : at + 8], "little") for at in (0, 8)]
    base = {AccessKind.READ: bases[0], AccessKind.WRITE: bases[1], AccessKind.ATOMIC: 0}
    return {kind: [(b - base[kind], e - base[kind]) for b, e in each] for kind, each in found.accesses.items()}


def test_loads_that_nobody_uses(tmp_path: Path, native_build: Path) -> None:
    whole, needed = (traced(text, tmp_path, native_build) for text in (LOADS, live(LOADS)))
    assert whole[AccessKind.READ] == [(16, 32), (64, 72), (128, 132), (256, 272)]
    assert needed[AccessKind.READ] == [(16, 20), (24, 32), (64, 68), (128, 132), (262, 264)]
    assert needed[AccessKind.WRITE] == whole[AccessKind.WRITE] == [(0, 24)]
    assert live(live(LOADS)) == live(LOADS)


@pytest.mark.full
@pytest.mark.usefixtures("native")
def test_machine_code_without_dead_loads_is_equal(tmp_path: Path) -> None:
    source = LOADS.replace("8.0", "8.7").replace("sm_80", "sm_120")  # newer than the emulated GPU
    text = tmp_path / "loads.ptx"
    text.write_text(source)
    code = Code(assemble(text, 120, tmp_path))
    (right,) = verdicts(source, text, code, 2, trials=3)
    assert right.is_equal
    assert right.dead
    assert right.ended == 3
    (wrong,) = verdicts(source.replace("[%rd2+16]", "[%rd2+24]"), text, code, 1, trials=3)
    assert wrong.missing == 4
    assert wrong.ended == wrong.undecided == 0
    assert wrong.example.startswith("traced write")


def test_a_kernel_is_cut_out_with_what_it_needs() -> None:
    text = (
        HEAD
        + """
.func one;
.func two;
.extern .func three;
.global .u64 table[1] = {one};
.global .u64 first = generic(table);
.global .u64 others[1] = {two};
.func one { ret; }
.func two { call three; ret; }
.visible .entry a() { .reg .b64 %rd<2>; mov.u64 %rd1, first; ret; }
.visible .entry b() { call two; ret; }
"""
    )
    (_, a), (_, b) = pieces(text)
    assert all(each in a for each in (".func one;", ".func one {", " table[1] ", " first "))
    assert not any(each in a for each in ("two", "three", "others", " b("))
    assert all(each in b for each in (".func two;", ".func two {", ".extern .func three;"))
    assert not any(each in b for each in ("one", "table", "others", " a("))


@pytest.mark.parametrize(
    ("used", "loaded"),
    [
        ("and.b64 %rd2, %rd1, 0xff00;", "ld.global.b8 %rd1, [%rd3+9]; shl.b64 %rd1, %rd1, 8;"),
        ("add.u64 %rd2, %rd1, 1;", "ld.global.u64 %rd1, [%rd3+8];"),
        ("cvt.s64.s8 %rd2, %rd1;", "ld.global.b8 %rd1, [%rd3+8];"),
        ("mov.b64 {%r1, %r2}, %rd1; cvt.u64.u32 %rd2, %r2;", "ld.global.b32 %rd1, [%rd3+12]; shl.b64 %rd1, %rd1, 32;"),
        ("mov.u64 %rd2, %rd3;", ""),
    ],
)
def test_the_part_of_a_load_that_is_used(used: str, loaded: str) -> None:
    check(f"{used}\nst.global.u64 [%rd3], %rd2;", loaded)


@pytest.mark.parametrize(
    ("store", "loaded"),
    [
        ("st.global.u32 [%rd3], %rd1;", "ld.global.b32 %rd1, [%rd3+8];"),
        ("st.global.f32 [%rd3], %rd1;", "ld.global.b32 %rd1, [%rd3+8];"),
        ("st.volatile.global.b8 [%rd3], %rd1;", "ld.global.b8 %rd1, [%rd3+8];"),
        ("st.global.v2.b16 [%rd3], {%rd3, %rd1};", "ld.global.b16 %rd1, [%rd3+8];"),
        ("st.global.L2::cache_hint.b32 [%rd3], %rd2, %rd1;", "ld.global.u64 %rd1, [%rd3+8];"),
        ("@%p1 st.global.b16 [%rd1], %rd1;", "ld.global.u64 %rd1, [%rd3+8];"),
        ("atom.global.add.u64 %rd2, [%rd3], %rd1;", "ld.global.u64 %rd1, [%rd3+8];"),
        ("st.global.b16 [%rd3], %rd1; red.global.add.u64 [%rd3], %rd1;", "ld.global.u64 %rd1, [%rd3+8];"),
    ],
)
def test_the_part_of_a_load_that_is_stored(store: str, loaded: str) -> None:
    check(store, loaded)


def check(used: str, loaded: str) -> None:
    text = HEAD + (
        ".visible .entry k(.param .u64 p) {\n.reg .b32 %r<3>; .reg .b64 %rd<4>; .reg .pred %p<2>;\n"
        f"ld.param.u64 %rd3, [p];\nld.global.u64 %rd1, [%rd3+8];\n{used}\nret;\n}}\n"
    )
    assert live(text).splitlines()[6] == loaded
