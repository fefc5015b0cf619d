"""What a launch is said to overwrite it writes in any case, by PTX and by machine code; the rest is not told."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from ptxtools.access.build import build
from ptxtools.access.template import AccessKind
from ptxtools.reader import read
from tests.instruments.against import Code, assemble
from tests.instruments.campaign import judged
from tests.instruments.oracle import Oracle, Verdict

GRID, BLOCK = (3, 2, 1), (32, 2, 1)
STORE = "st.global.u32 [%a3], %r3;"
PLACE = "mul.wide.u32 %a4, %r3, 4; add.u64 %a3, %a1, %a4;"
LIMIT = "mov.u32 %r5, 300;"
GO_ON = "add.u32 %r3, %r3, %r6; setp.lt.u32 %p4, %r3, %r5; @%p4 bra LOOP;"
LOAD = "cvt.u64.u32 %a4, %r3; add.u64 %a5, %a2, %a4; ld.global.u8 %r7, [%a5]; setp.gt.u32 %p3, %r7, 9;"
COUNT = "mov.u32 %r7, 0; LOOP:"
AGAIN = "add.u32 %r7, %r7, 1; setp.lt.u32 %p4, %r7, 3; @%p4 bra LOOP;"
NOT_FIRST = "setp.ne.u32 %p2, %r4, 0; mov.u32 %r7, %tid.x; setp.ne.u32 %p3, %r7, 0; and.pred %p4, %p2, %p3;"
THIRD = "setp.ge.u32 %p2, %r3, %r5;"
SPARSE = "shl.b32 %r7, %r3, 3; cvt.u64.u32 %a4, %r7; add.u64 %a3, %a1, %a4;"
PAST_SOME = f"""mov.u32 %r5, 288; {THIRD} @%p2 bra M; {STORE} add.u32 %r3, %r3, 96; {PLACE}
    {THIRD} @%p2 bra END; {STORE} add.u32 %r3, %r3, 96; M: {PLACE} {THIRD} @%p2 bra END; {STORE} END:"""
# r3 is the thread's number in the x-dimension of the grid, a3 its place, p1 says whether that is below n = 90 of 96.
# By name: what runs, and how many bytes are overwritten; those are all that is written.
TOLD = {
    "all": (STORE, 384),
    "guarded": (f"@%p1 {STORE}", 360),
    "branch": (f"@!%p1 bra END; {STORE} END:", 360),
    "exit": (f"@!%p1 exit; {STORE}", 360),
    "both_arms": (f"{LOAD} @%p3 bra ONE; mov.u32 %r7, 1; bra BOTH; ONE: mov.u32 %r7, 2; BOTH: {STORE}", 384),
    "assertion": (f"{LOAD} @!%p3 bra FINE; @%p1 bra FINE; trap; FINE: {STORE}", 384),
    "twice": (f"{STORE} {LOAD} @!%p3 bra END; {STORE} END:", 384),
    "vector": ("and.b32 %r7, %r3, 1; setp.eq.u32 %p2, %r7, 0; @%p2 st.global.v2.u32 [%a3], {%r3, %r3};", 384),
    "grid_stride": (f"{LIMIT} @!%p1 bra END; LOOP: {PLACE} {STORE} {GO_ON} END:", 1128),
    "while": (
        f"{LIMIT} LOOP: setp.ge.u32 %p4, %r3, %r5; @%p4 bra END; {PLACE} {STORE} add.u32 %r3, %r3, %r6; bra LOOP; END:",
        1200,
    ),
    "sparse": (f"{SPARSE} {STORE}", 384),
    "after_a_loop": (f"{COUNT} {AGAIN} {STORE}", 384),
    "loop_first_time": (f"{COUNT} {STORE} ld.global.u32 %r7, [%a2]; setp.lt.u32 %p4, %r7, 0; @%p4 bra LOOP;", 384),
    "rows": (f"mov.u32 %r7, %tid.y; mad.lo.u32 %r3, %r7, 100, %r3; {PLACE} @%p1 {STORE}", 720),
    "divided": (
        f"div.u32 %r7, %r3, 12; rem.u32 %r8, %r3, 12; mad.lo.u32 %r3, %r8, 8, %r7; {PLACE} {STORE}",
        384,
    ),
    "first_of_row": (f"{NOT_FIRST} @%p4 bra END; {STORE} END:", 12),
    "past_some": (PAST_SOME, 1152),
    "smaller": (f"min.u32 %r7, %r4, 70; setp.lt.u32 %p2, %r3, %r7; @%p2 {STORE}", 280),
}
BY_RECIPROCAL = {"divided"}  # as ptxas divides, which machine code's analysis takes for any value
# These write something, and it is not known what.
NOT_TOLD = {
    "exit_on_memory": f"{LOAD} @%p3 exit; {STORE}",
    "memory": f"{LOAD} @%p3 bra END; {STORE} END:",
    "exit_from_a_loop": f"{COUNT} ld.global.u32 %r8, [%a2]; setp.eq.u32 %p4, %r7, %r8; @%p4 exit; {AGAIN} {STORE}",
    "memory_on_one_way": f"setp.ge.u32 %p2, %r3, 900; @%p2 bra M; {LOAD} @%p3 bra END; M: {STORE} END:",
    "place_from_memory": f"{LOAD} mul.wide.u32 %a4, %r7, 4; add.u64 %a3, %a1, %a4; {STORE}",
    "atomic": "red.global.add.u32 [%a3], 1;",
    "compare_and_swap": "atom.global.cas.b32 %r7, [%a3], 0, 1;",
    "chosen_by_memory": f"{LOAD} selp.b64 %a3, %a1, %a2, %p3; {STORE}",
    "discarded": "and.b64 %a4, %a3, -128; discard.global.L2 [%a4], 128;",
}


def text(name: str, code: str) -> str:
    return f"""
    .visible .entry {name}(.param .u64 p, .param .u64 q, .param .u32 n) {{
        .reg .pred %p<5>; .reg .b32 %r<9>; .reg .b64 %a<6>;
        ld.param.u64 %a1, [p]; ld.param.u64 %a2, [q]; ld.param.u32 %r4, [n];
        mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r3, %r1, %r2, %r3;
        mov.u32 %r6, %nctaid.x; mul.lo.u32 %r6, %r6, %r2;
        mul.wide.u32 %a4, %r3, 4; add.u64 %a3, %a1, %a4; setp.lt.u32 %p1, %r3, %r4;
        {code} ret; }}"""


@pytest.fixture(scope="module", params=["ptx", "machine"])
def verdicts(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, native_build: Path
) -> dict[str, Verdict]:
    place = tmp_path_factory.mktemp("overwritten")
    source, oracle = place / "cases.ptx", Oracle()
    codes = {**{name: code for name, (code, _) in TOLD.items()}, **NOT_TOLD}
    code = "".join(text(name, code) for name, code in codes.items())
    source.write_text(f".version 7.4\n.target sm_80\n.address_size 64\n{code}")
    values = struct.pack("<QQI", 0, 0, 90).hex()
    job = {
        "text": str(source),
        "grid": GRID,
        "block": BLOCK,
        "shared": 0,
        "pointers": {"0": 0, "8": 1},
        "values": values,
    }
    jobs = [json.dumps({**job, "function": name}) for name in codes]
    if request.param == "machine":
        made = Code(assemble(source, 90, place))
        for name in codes:
            template = made.template(name)
            assert template is not None
            oracle.keep(source.read_text(), name, template)
    environment = {"TESSERA_NATIVE": str(native_build / "native")}
    return {each.function: each for each in judged(jobs, place, environment, oracle)}


@pytest.mark.parametrize("name", TOLD)
def test_what_is_written_in_any_case_is_told(name: str, verdicts: dict[str, Verdict]) -> None:
    verdict = verdicts[name]
    assert verdict.complete
    assert not [each for kind, each in verdict.missed if kind is AccessKind.WRITE]
    assert not verdict.kept
    assert verdict.written_bytes == TOLD[name][1]
    if not (verdict.clamped and name in BY_RECIPROCAL):
        assert verdict.overwritten_bytes == verdict.written_bytes


@pytest.mark.parametrize("name", NOT_TOLD)
def test_what_hangs_on_memory_is_not_told(name: str, verdicts: dict[str, Verdict]) -> None:
    verdict = verdicts[name]
    assert verdict.complete
    assert not [each for kind, each in verdict.missed if kind is AccessKind.WRITE]
    assert verdict.overwritten_bytes == 0


def test_unknown_calls_promise_nothing() -> None:
    module = read(
        ".version 7.4\n.target sm_80\n.address_size 64\n.extern .func somewhere();\n"
        + text("calls", f"call somewhere; {STORE}")
    )
    template = build(module, module.functions["calls"])
    assert all(access.must < 0 for access in template.accesses)
