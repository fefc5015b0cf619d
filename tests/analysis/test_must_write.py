"""What a launch must write is written: pointers in memory are known because of that."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ptxtools.access.template import Template
from ptxtools.ranges import Launch
from ptxtools.ranges.threads import written
from tests.instruments.campaign import launched
from tests.instruments.oracle import inside, launches
from tests.instruments.plan import kernels

LAUNCHES = 6
STORE = "st.global.u64 [%a3], %a2;"
ODD = "and.b32 %r5, %r3, 1; setp.ne.u32 %p2, %r5, 0;"
LOAD = "cvt.u64.u32 %a4, %r3; add.u64 %a5, %a2, %a4; ld.global.u8 %r6, [%a5]; setp.gt.u32 %p3, %r6, 9;"
AGAIN = "mov.u32 %r7, 0; AGAIN: add.u32 %r7, %r7, 1;"
FEWER = "setp.lt.u32 %p4, %r7, %r4; @%p4 bra AGAIN;"
# By name, what runs; p1 says whether the thread is one of the first n.
TOLD = {
    "all": STORE,
    "guarded": f"@%p1 {STORE}",
    "branch": f"@!%p1 bra END; {STORE} END:",
    "exit": f"@!%p1 exit; {STORE}",
    "both_arms": f"{LOAD} @%p3 bra ONE; mov.u32 %r7, 1; bra BOTH; ONE: mov.u32 %r7, 2; BOTH: {STORE}",
    "assertion": f"{LOAD} @!%p3 bra FINE; @%p1 bra FINE; trap; FINE: {STORE}",
    "loop": f"{AGAIN} {STORE} {FEWER}",
    "chosen": f"{ODD} selp.b64 %a3, %a3, %a1, %p2; {STORE}",
}
NOT_TOLD = {
    "either": f"{ODD} @%p1 bra IN; @!%p2 bra END; IN: {STORE} END:",
    "exit_on_memory": f"{LOAD} @%p3 exit; {STORE}",
    "exit_in_one_arm": f"{ODD} @%p2 bra ODD; bra BOTH; ODD: @%p1 exit; BOTH: {STORE}",
    "memory": f"{LOAD} @%p3 bra END; {STORE} END:",
    "behind_a_loop": f"{AGAIN} {FEWER} {STORE}",
    "exit_from_a_loop": f"{AGAIN} setp.eq.u32 %p4, %r7, %r3; @%p4 exit; {FEWER} {STORE}",
    "place_from_memory": f"{LOAD} mul.wide.u32 %a4, %r6, 8; add.u64 %a3, %a1, %a4; {STORE}",
}


def text(name: str, code: str) -> str:
    return f"""
    .visible .entry {name}(.param .u64 p, .param .u64 q, .param .u32 n, .param .u32 m) {{
        .reg .pred %p<5>; .reg .b32 %r<8>; .reg .b64 %a<6>;
        ld.param.u64 %a1, [p]; ld.param.u64 %a2, [q]; ld.param.u32 %r4, [n];
        mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r3, %r1, %r2, %r3;
        mul.wide.u32 %a4, %r3, 8; add.u64 %a3, %a1, %a4; setp.lt.u32 %p1, %r3, %r4;
        {code} ret; }}"""


def must(template: Template, launch: Launch) -> set[int]:
    return {address for access in template.accesses for address in written(template, access, launch)}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, native_build: Path) -> Path:
    """The directory of the trace of random launches of all cases."""
    place = tmp_path_factory.mktemp("must")
    source = place / "cases.ptx"
    code = "".join(text(name, code) for name, code in {**TOLD, **NOT_TOLD}.items())
    source.write_text(f".version 7.0\n.target sm_70\n.address_size 64\n{code}")
    chance = random.Random(3)
    jobs = [kernel.job(chance) for kernel in kernels(source) for _ in range(LAUNCHES)]
    assert "right" in launched(jobs, place, {"TESSERA_NATIVE": str(native_build / "native")}, stall_s=10)
    return place


def test_what_must_be_written_is_written(ran: Path) -> None:
    templates = {kernel.name: kernel.template for kernel in kernels(ran / "cases.ptx")}
    told, ended = set[str](), set[str]()
    for traced in launches(ran / "trace"):
        if traced.fault is None:
            found = must(templates[traced.function], traced.launch)
            (writes,) = (each for kind, each in traced.accesses.items() if kind.value == "write")
            assert all(inside((address, address + 8), writes) for address in found), traced.function
            ended.add(traced.function)
            told |= {traced.function} if found else set()
    assert ended == {*TOLD, *NOT_TOLD}
    assert told == set(TOLD)
