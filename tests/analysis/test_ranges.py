"""Ranges of small kernels whose accesses are known by heart."""

from __future__ import annotations

import struct

import pytest

from ptxtools.access.build import build
from ptxtools.access.summary import summarise
from ptxtools.access.template import AccessKind, Op, Template
from ptxtools.ranges import Launch, Result, evaluate
from ptxtools.reader import read

P, Q = 0x7F0000000000, 0x7F1000000000
PARAMETERS = ".param .u64 p, .param .u64 q, .param .u32 n, .param .u32 m"
INDEX = """
    ld.param.u64 %rd1, [p]; ld.param.u64 %rd2, [q]; ld.param.u32 %r1, [n]; ld.param.u32 %r2, [m];
    mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x; mad.lo.s32 %r6, %r3, %r4, %r5;
"""


def template(code: str, before: str = "") -> Template:
    declared = ".reg .pred %p<20>; .reg .b16 %rs<20>; .reg .b32 %r<60>; .reg .b64 %rd<60>; .reg .f32 %f<9>;"
    text = f".version 8.0\n.target sm_80\n{before}\n.entry k({PARAMETERS}) {{ {declared} {INDEX} {code} ret; }}"
    module = read(text)
    return build(module, module.functions["k"])


def result(code: str, n: int = 0, m: int = 0, grid: int = 4, block: int = 64, before: str = "") -> Result:
    sizes = {P: (P - 4096, P + 65536), Q: (Q, Q + 1024)}
    launch = Launch(
        struct.pack("<QQII", P, Q, n & 0xFFFFFFFF, m & 0xFFFFFFFF),
        (grid, 1, 1),
        (block, 1, 1),
        lambda address: sizes.get(address),
    )
    return evaluate(template(code, before), launch)


def one(code: str, n: int = 0, m: int = 0, grid: int = 4, block: int = 64) -> tuple[int, int, int, int]:
    """First, last, stride and width of the only range."""
    found = result(code, n, m, grid, block)
    assert not found.unknown
    (each,) = found.touched
    return each.first, each.last, each.stride, each.width


STORE = "mul.wide.s32 %rd3, %r6, 4; add.s64 %rd4, %rd1, %rd3; st.global.u32 [%rd4], %r1;"


def test_all_threads() -> None:
    assert one(STORE) == (0, 1023, 0, 0)


@pytest.mark.parametrize("order", ["%r7, %r9", "%r9, %r7"])
def test_warps_that_take_turns_in_the_order_of_a_sum(order: str) -> None:
    """Of 3 warps, each with 32 elements of 16 bytes in its own 2048 bytes."""
    code = f"""
        and.b32 %r7, %r5, 31; shl.b32 %r8, %r5, 2; and.b32 %r9, %r8, 3968; add.s32 %r10, {order};
        shl.b32 %r11, %r3, 10; add.s32 %r12, %r10, %r11; mul.wide.u32 %rd3, %r12, 16; add.s64 %rd4, %rd1, %rd3;
        st.global.v4.u32 [%rd4], {{%r1, %r1, %r1, %r1}};
    """
    assert one(code, grid=3, block=96) == (0, 2 * 16384 + 2 * 2048 + 511, 2048, 512)


@pytest.mark.parametrize(("depth", "first", "last"), [(100, 0, 127), (1000, -4096, 65535)])
def test_values_that_depend_on_each_other_deeply(depth: int, first: int, last: int) -> None:
    """Unrolled code: a minimum that is found step by step; beyond a depth that stacks have room for, the allocation."""
    steps = "".join(f"ld.global.u32 %r8, [%rd2+{4 * n}]; min.u32 %r6, %r6, %r8;" for n in range(depth))
    found = result(f"{steps} {STORE}", block=32, grid=1)
    assert not found.unknown
    assert [(each.first, each.last) for each in found.ranges if each.kind is AccessKind.WRITE] == [(first, last)]


def test_a_guard_in_a_branch_clips() -> None:
    assert one(f"setp.ge.s32 %p1, %r6, %r1; @%p1 bra END; {STORE} END:", n=100) == (0, 399, 0, 0)


def test_a_guard_of_an_instruction_clips() -> None:
    code = STORE.replace("st.", "setp.lt.u32 %p1, %r6, %r1; @%p1 st.")
    assert one(code, n=100) == (0, 399, 0, 0)


@pytest.mark.parametrize(
    ("choice", "test", "last"),
    [
        ("1, 0", "ne.b32 %p2, %r7, 0", 399),
        ("0, 1", "eq.b32 %p2, %r7, 0", 399),
        ("-1, 1", "lt.s32 %p2, %r7, 0", 399),
        ("-1, 1", "gt.u32 %p2, %r7, 0x7fffffff", 399),
        ("1, %r2", "ne.b32 %p2, %r7, 0", 1023),
        ("2, 1", "ne.b32 %p2, %r7, 0", 1023),
    ],
)
def test_a_guard_that_was_a_number_in_between_clips(choice: str, test: str, last: int) -> None:
    code = STORE.replace("st.", f"setp.lt.u32 %p1, %r6, %r1; selp.b32 %r7, {choice}, %p1; setp.{test}; @%p2 st.")
    assert one(code, n=100, m=5) == (0, last, 0, 0)


def test_the_opposite_of_a_guard_that_was_a_number_in_between() -> None:
    code = "setp.lt.u32 %p1, %r6, %r1; selp.b32 %r7, 0, 1, %p1; setp.ne.b32 %p2, %r7, 0; @%p2 st."
    assert one(STORE.replace("st.", code), n=100) == (400, 1023, 0, 0)


def test_a_guard_clips_addresses_made_before_it() -> None:
    code = """
        mul.wide.s32 %rd3, %r6, 4; add.s64 %rd4, %rd1, %rd3;
        setp.gt.s32 %p1, %r1, %r6; @!%p1 exit; st.global.u32 [%rd4], %r1;
    """
    assert one(code, n=100) == (0, 399, 0, 0)


@pytest.mark.parametrize(("shuffled", "last"), [("%r1", 399), ("%r6", 1023)])
def test_what_lane_0_hands_to_the_others(shuffled: str, last: int) -> None:
    """A parameter is the same in all lanes, as ptxas knows, too; an index is not."""
    code = f"shfl.sync.idx.b32 %r7|%p2, {shuffled}, 0, 31, -1; setp.ge.s32 %p1, %r6, %r7; @%p1 bra END; {STORE} END:"
    assert one(code, n=100) == (0, last, 0, 0)


def test_a_launch_that_never_gets_there_touches_nothing() -> None:
    found = result(f"setp.eq.s32 %p1, %r1, 0; @%p1 bra END; {STORE} END:", n=0)
    assert (found.ranges, found.unknown) == ([], [])


def test_a_guarded_load_in_a_loop_is_one_value() -> None:
    """What a guarded load leaves as it was comes round the loop: from the load itself."""
    code = """
        mov.u32 %r7, 0; mov.u32 %r8, 0;
        LOOP: setp.lt.u32 %p1, %r7, %r2; @%p1 ld.global.u32 %r8, [%rd2];
        mul.wide.u32 %rd3, %r8, 4; add.s64 %rd4, %rd1, %rd3; st.global.u32 [%rd4], %r1;
        add.u32 %r7, %r7, 1; setp.lt.u32 %p2, %r7, %r1; @%p2 bra LOOP;
    """
    made = template(code)
    seen, pending = set[int](), [access.address for access in made.accesses]
    while pending:
        at = pending.pop()
        if at not in seen:
            seen.add(at)
            pending += made.nodes[at].args
    assert [made.nodes[at].op for at in seen].count(Op.LOADED) == 1


def test_an_index_from_memory_may_be_negative() -> None:
    code = "ld.global.u64 %rd3, [%rd2]; shl.b64 %rd5, %rd3, 3; add.s64 %rd4, %rd1, %rd5; st.global.u32 [%rd4], %r1;"
    (written,) = (each for each in result(code).touched if each.kind is AccessKind.WRITE)
    assert (written.first, written.last, written.stride, written.whole) == (-4096, 65535, 0, True)


def test_rows_with_a_pitch_keep_their_stride() -> None:
    """Thread t of block b writes element t of row b; rows are n bytes apart."""
    code = """
        mul.lo.s32 %r7, %r3, %r1; mad.lo.s32 %r8, %r5, 4, %r7;
        cvt.s64.s32 %rd3, %r8; add.s64 %rd4, %rd1, %rd3; st.global.u32 [%rd4], %r1;
    """
    assert one(code, n=1000) == (0, 3255, 1000, 256)


@pytest.mark.parametrize(("times", "found"), [(1, (0, 3255, 1000, 256)), (2, (0, 4279, 0, 0))])
def test_rows_keep_their_stride_in_a_loop_that_runs_once(times: int, found: tuple[int, int, int, int]) -> None:
    code = """
        mul.lo.s32 %r7, %r3, %r1; mad.lo.s32 %r8, %r5, 4, %r7; cvt.s64.s32 %rd3, %r8; add.s64 %rd4, %rd1, %rd3;
        mov.u32 %r7, 0;
    AGAIN: st.global.u32 [%rd4], %r1; add.s64 %rd4, %rd4, 1024;
        add.s32 %r7, %r7, 1; setp.ne.s32 %p1, %r7, %r2; @%p1 bra AGAIN;
    """
    assert one(code, n=1000, m=times) == found


@pytest.mark.parametrize(
    ("distance", "pitch", "found"),
    [
        (4096, 128, (0, 16159, 256, 32)),
        (4096 + 64, 128, (0, 16351, 64, 32)),
        (4096 + 8, 128, (0, 16183, 4104, 3872)),
        (4096, 16, (0, 12799, 4096, 512)),
        (2048, 128, (0, 10015, 256, 32)),
        (2048 + 8, 128, (0, 10039, 0, 0)),
        (16, 128, (0, 3919, 256, 80)),
        (512, 0, (0, 1567, 512, 32)),
        (0, 0, (0, 31, 0, 0)),
    ],
)
def test_rows_of_several_matrices(distance: int, pitch: int, found: tuple[int, int, int, int]) -> None:
    """Block b loads 16 rows of 16 halves, n elements apart, from b times a distance on."""
    code = f"""
        mul.wide.u32 %rd3, %r3, {distance}; add.s64 %rd4, %rd1, %rd3;
        wmma.load.a.sync.aligned.row.m16n16k16.global.f16
            {{%r10, %r11, %r12, %r13, %r14, %r15, %r16, %r17}}, [%rd4], %r1;
    """
    assert one(code, n=pitch) == found


def test_every_second_element() -> None:
    code = "mul.wide.s32 %rd3, %r6, 8; add.s64 %rd4, %rd1, %rd3; st.global.u32 [%rd4+4], %r1;"
    assert one(code) == (4, 2047 - 0, 8, 4)


GRID_STRIDE = """
    mov.u32 %r10, %nctaid.x; mul.lo.s32 %r11, %r10, %r4;
    setp.ge.s32 %p1, %r6, %r1; @%p1 bra END;
AGAIN:
    mul.wide.s32 %rd3, %r6, 4; add.s64 %rd4, %rd1, %rd3; st.global.u32 [%rd4], %r1;
    add.s32 %r6, %r6, %r11; setp.lt.s32 %p2, %r6, %r1; @%p2 bra AGAIN;
END:
"""


@pytest.mark.parametrize("n", [1, 255, 256, 257, 1000, 5001])
def test_a_grid_stride_loop_ends_exactly(n: int) -> None:
    assert one(GRID_STRIDE, n=n)[:2] == (0, 4 * n - 1)


def test_a_pointer_that_moves() -> None:
    code = """
        mul.wide.u32 %rd3, %r6, 4; add.s64 %rd4, %rd1, %rd3; mov.u32 %r7, 0;
    AGAIN: st.global.u32 [%rd4], %r1; add.s64 %rd4, %rd4, 1024;
    add.s32 %r7, %r7, 1; setp.ne.s32 %p1, %r7, %r1; @%p1 bra AGAIN;
    """
    assert one(code, n=5) == (0, 5119, 0, 0)


def test_a_loop_downwards() -> None:
    code = """
        mov.u32 %r7, %r1;
    AGAIN: add.s32 %r7, %r7, -1; mul.wide.s32 %rd3, %r7, 4; add.s64 %rd4, %rd1, %rd3; st.global.u32 [%rd4], %r1;
        setp.gt.s32 %p1, %r7, 0; @%p1 bra AGAIN;
    """
    assert one(code, n=10) == (0, 39, 0, 0)


def test_a_triangle() -> None:
    """for (j = 0; j <= i; j++) p[i * m + j] = ..: row i ends at its diagonal."""
    code = """
        mul.lo.s32 %r8, %r5, %r2; mov.u32 %r7, 0;
    AGAIN: add.s32 %r9, %r8, %r7; mul.wide.s32 %rd3, %r9, 4; add.s64 %rd4, %rd1, %rd3; st.global.u32 [%rd4], %r1;
        add.s32 %r7, %r7, 1; setp.le.s32 %p1, %r7, %r5; @%p1 bra AGAIN;
    """
    assert one(code, m=64, grid=1, block=32)[:2] == (0, 4 * (31 * 64 + 31) + 3)


def test_division_by_multiplication() -> None:
    """i / 10 and i % 10 as compilers write them, put together again with another pitch."""
    code = """
        mul.hi.u32 %r7, %r6, -858993459; shr.u32 %r8, %r7, 3; mul.lo.s32 %r9, %r8, 10; sub.s32 %r10, %r6, %r9;
        shl.b32 %r11, %r8, 6; add.s32 %r12, %r11, %r10;
        mul.wide.u32 %rd3, %r12, 4; add.s64 %rd4, %rd1, %rd3; st.global.u32 [%rd4], %r1;
    """
    first, last, stride, width = one(code, grid=1, block=100)
    assert (first, stride, width) == (0, 256, 40)
    assert last == 9 * 256 + 39


def test_addresses_made_of_bits() -> None:
    code = """
        and.b32 %r7, %r5, 31; shl.b32 %r8, %r7, 2; shr.u32 %r9, %r5, 5; shl.b32 %r10, %r9, 9; or.b32 %r11, %r10, %r8;
        cvt.u64.u32 %rd3, %r11; or.b64 %rd5, %rd3, 4096; add.s64 %rd4, %rd1, %rd5; st.global.u32 [%rd4], %r1;
    """
    assert one(code, grid=1) == (4096, 4096 + 512 + 127, 512, 128)


def test_bits_that_only_facts_keep_apart() -> None:
    """The thread's warp, times 32, is written as a difference: that it is small follows from what a remainder is."""
    code = "and.b32 %r7, %r5, 96; or.b32 %r8, %r7, 896; add.s32 %r9, %r8, -896;" + STORE.replace("%r6", "%r9")
    assert one(code, block=128) == (0, 387, 128, 4)


def test_a_field_inserted_into_bits() -> None:
    """Row r1 of 16: (r6 << 4) + (r5 & 15), as compilers write indices of tiles."""
    assert one("bfi.b32 %r7, %r3, %r5, 4, 28;" + STORE.replace("%r6", "%r7"), block=16) == (0, 255, 0, 0)
    assert one("bfi.b32 %r7, %r3, %r5, 8, 2;" + STORE.replace("%r6", "%r7"), block=16) == (0, 3135, 1024, 64)


def test_what_wraps_is_not_trusted() -> None:
    """i * 2^30 wraps for i >= 4: the machine's values are four, the address stays inside of what 32 bits can say."""
    code = """
        shl.b32 %r7, %r6, 30; shr.u32 %r8, %r7, 28;
        mul.wide.u32 %rd3, %r8, 4; add.s64 %rd4, %rd1, %rd3; st.global.u32 [%rd4], %r1;
    """
    first, last, _, _ = one(code)
    assert first <= 0
    assert last >= 51


def test_a_counter_that_wraps_gives_no_bound() -> None:
    """for (u8-like i = 0; i != 300; i = (i + 1) & 255) never ends; nothing may be concluded from its test."""
    code = """
        mov.u32 %r7, 0;
    AGAIN: cvt.u64.u32 %rd3, %r7; add.s64 %rd4, %rd1, %rd3; st.global.u8 [%rd4], %r1;
        add.s32 %r7, %r7, 1; and.b32 %r7, %r7, 255; setp.ne.s32 %p1, %r7, 300; @%p1 bra AGAIN;
    """
    first, last, _, _ = one(code)
    assert first <= 0
    assert last >= 255


def test_an_index_from_memory_stays_in_the_allocation() -> None:
    code = "ld.global.u32 %r7, [%rd2]; mul.wide.s32 %rd3, %r7, 4; add.s64 %rd4, %rd1, %rd3; st.global.u32 [%rd4], %r1;"
    read_range, write = result(code).ranges
    assert (read_range.first, read_range.last, read_range.parameter) == (0, 3, 1)
    assert (write.first, write.last, write.parameter) == (-4096, 65535, 0)


def test_what_is_left_for_a_block_may_be_negative_before_it_is_cut_to_32_bits() -> None:
    code = f"""
        cvt.s64.s32 %rd5, %r1; mul.wide.u32 %rd6, %r3, 64; sub.s64 %rd7, %rd5, %rd6; min.s64 %rd8, %rd7, 64;
        cvt.u32.u64 %r7, %rd8; setp.lt.s32 %p1, %r5, %r7; @%p1 bra INSIDE; ret; INSIDE: {STORE}
    """
    assert one(code, n=40) == (0, 159, 0, 0)


def test_what_is_cut_to_32_bits_in_a_register_of_64_has_zeros_above() -> None:
    code = """
        cvt.s64.s32 %rd5, %r1; cvt.u32.u64 %rd6, %rd5; shr.u64 %rd7, %rd6, 24; add.s64 %rd4, %rd1, %rd7;
        st.global.u8 [%rd4], %r2;
    """
    assert one(code, n=-1) == (255, 255, 0, 0)


def test_a_small_index_from_memory() -> None:
    code = """
        ld.global.u8 %rs1, [%rd2]; mul.wide.u16 %r7, %rs1, 4;
        cvt.u64.u32 %rd3, %r7; add.s64 %rd4, %rd1, %rd3; red.global.add.u32 [%rd4], 1;
    """
    atomic = next(each for each in result(code).touched if each.kind is AccessKind.ATOMIC)
    assert (atomic.first, atomic.last) == (0, 1023)


def test_pointers_from_memory_are_unknown() -> None:
    code = "ld.global.u64 %rd3, [%rd2]; st.global.u32 [%rd3+8], %r1;"
    assert [reason for _, reason in result(code).unknown] == ["pointer loaded from memory"]
    summary = summarise(template(code))
    assert summary.tier == "unknown"
    assert summary.parameters[1].indirect


def test_one_of_two_pointers() -> None:
    code = "setp.eq.s32 %p1, %r5, 0; selp.b64 %rd3, %rd1, %rd2, %p1; st.global.u32 [%rd3+8], %r1;"
    found = {(each.parameter, each.first, each.last) for each in result(code).ranges}
    assert found == {(0, 8, 11), (1, 8, 11)}


def test_private_memory_is_nobodys() -> None:
    code = """
        .local .align 8 .b8 stack[16]; .shared .align 8 .b8 tile[16];
        mov.u64 %rd3, stack; cvta.local.u64 %rd4, %rd3; st.u32 [%rd4+4], %r1; st.shared.u32 [tile+4], %r1;
    """
    found = result(code)
    assert (found.ranges, found.unknown) == ([], [])


def test_variables_of_the_module() -> None:
    code = "mov.u64 %rd3, table; mul.wide.u32 %rd4, %r5, 4; add.s64 %rd5, %rd3, %rd4; ld.global.u32 %r7, [%rd5];"
    (each,) = result(code, before=".global .align 4 .b8 table[1024];").touched
    assert (each.variable, each.parameter, each.first, each.last) == ("table", None, 0, 255)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("tex.1d.v4.f32.s32 {%f1,%f2,%f3,%f4}, [%rd1, {%r1}];", "texture or surface"),
        ("cp.async.bulk.tensor.1d.shared::cluster.global.tile [%r1], [%rd1, {%r2}], [%r3];", "tensor map in memory"),
        ("call.uni other;", "call of other, which is defined elsewhere"),
        ("call.uni again;", "again calls itself"),
        ("call.uni (%r1), %rd3, (%r2), proto;", "call through a pointer"),
        ("frobnicate.b32 %r1, %r2;", "frobnicate.b32 is not analysed"),
    ],
)
def test_what_is_not_understood_is_unknown(code: str, reason: str) -> None:
    found = result(code, before=".extern .func other; .func again() { call.uni again; ret; }")
    assert [why for _, why in found.unknown] == [reason]


def test_asynchronous_copies_read() -> None:
    code = "mul.wide.u32 %rd3, %r5, 16; add.s64 %rd4, %rd1, %rd3; cp.async.cg.shared.global [%r9], [%rd4], 16, %r2;"
    assert one(code, m=8) == (0, 1015, 16, 8)
    assert one(code, m=16) == one(code, m=64) == (0, 1023, 0, 0)


def test_copies_of_nothing_read_nothing() -> None:
    """A source size that is 0 for threads beyond the ends, as Triton masks its loads."""
    code = """
        mul.wide.u32 %rd3, %r6, 16; add.s64 %rd4, %rd1, %rd3; setp.lt.s32 %p1, %r6, %r1; selp.b32 %r7, 16, 0, %p1;
        setp.lt.s32 %p2, %r6, 4; selp.b32 %r8, 0, %r7, %p2; cp.async.cg.shared.global [%r9], [%rd4], 16, %r8;
    """
    assert one(code, n=100) == (64, 1599, 0, 0)


CALLED = """
.func store(.param .b64 to, .param .b32 at, .param .b32 what) {
    .reg .b64 %rd<9>; .reg .b32 %r<9>;
    ld.param.u64 %rd1, [to]; ld.param.u32 %r1, [at]; ld.param.u32 %r2, [what];
    mul.wide.s32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r2; ret;
}
"""


def test_a_function_that_is_called_counts_as_part_of_the_kernel() -> None:
    code = """
        setp.ge.s32 %p1, %r6, %r1; @%p1 bra END;
        { .param .b64 a; .param .b32 b; .param .b32 c;
          st.param.b64 [a], %rd1; st.param.b32 [b+0], %r6; st.param.b32 [c], %r1;
          call.uni store, (a, b, c); }
    END:
    """
    (each,) = result(code, n=100, before=CALLED).touched
    assert (each.kind, each.parameter, each.first, each.last) == (AccessKind.WRITE, 0, 0, 399)


def test_a_counter_that_a_predicate_moves() -> None:
    """The step is 1 whenever the loop goes on, and the index is what the counter was before."""
    code = """
        mov.u32 %r7, 1; mov.u32 %r8, 0;
    AGAIN: mul.wide.s32 %rd3, %r8, 4; add.s64 %rd4, %rd1, %rd3; st.global.u32 [%rd4], %r1;
        setp.lt.s32 %p1, %r7, %r1; selp.b32 %r9, 1, 0, %p1; mov.u32 %r8, %r7; add.s32 %r7, %r7, %r9; @%p1 bra AGAIN;
    """
    assert one(code, n=10) == (0, 39, 0, 0)


def test_a_negative_distance_of_64_bits() -> None:
    """q holds -8 as an unsigned number."""
    block = struct.pack("<QQII", P, (1 << 64) - 8, 0, 0)
    code = "add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r1;"
    (each,) = evaluate(
        template(code), Launch(block, (1, 1, 1), (1, 1, 1), lambda at: (P - 64, P + 64) if at == P else None)
    ).ranges
    assert (each.parameter, each.first, each.last) == (0, -8, -5)


def test_clocks_differ() -> None:
    code = """
        mov.u32 %r7, %clock; mov.u32 %r8, %clock; sub.s32 %r9, %r8, %r7;
        mul.wide.u32 %rd3, %r9, 4; add.s64 %rd4, %rd1, %rd3; st.global.u32 [%rd4], %r1;
    """
    assert one(code) == (0, 65535, 0, 0)


def test_division_by_zero_gives_anything() -> None:
    code = "div.u32 %r7, %r6, %r2; mul.wide.u32 %rd3, %r7, 4; add.s64 %rd4, %rd1, %rd3; st.global.u32 [%rd4], %r1;"
    assert one(code, m=0) == (0, 65535, 0, 0)


def test_a_loop_in_a_loop_whose_end_wraps() -> None:
    """for (u32 i = 0; i <= 0xFFFFFFFF; i += 2) for (j = 0; j < i; j++) ..: neither test says anything."""
    code = """
        mov.u32 %r7, 0;
    OUTER: mov.u32 %r8, 0;
    INNER: mul.wide.u32 %rd3, %r8, 4; add.s64 %rd4, %rd1, %rd3; st.global.u32 [%rd4], %r1;
        add.s32 %r8, %r8, 1; setp.lt.u32 %p1, %r8, %r7; @%p1 bra INNER;
        add.s32 %r7, %r7, 2; setp.le.u32 %p2, %r7, 4294967295; @%p2 bra OUTER;
    """
    assert one(code) == (0, 65535, 0, 0)


def test_a_list_is_followed_through_pointers_from_memory() -> None:
    code = "AGAIN: st.global.u32 [%rd1], %r1; ld.global.u64 %rd1, [%rd1+8]; setp.ne.s64 %p1, %rd1, 0; @%p1 bra AGAIN;"
    assert summarise(template(code)).tier == "unknown"
    assert {reason for _, reason in result(code).unknown} == {"pointer loaded from memory"}


@pytest.mark.parametrize("n", [4, 5, 61, 64])
def test_a_loop_that_was_unrolled(n: int) -> None:
    """Four elements a turn until i + 1 - (i + 1) % 4 of them are done; thread i then does the rest."""
    code = """
        setp.ge.s32 %p1, %r6, %r1; @%p1 bra END; setp.lt.u32 %p2, %r6, 3; @%p2 bra END;
        add.s32 %r7, %r6, 1; and.b32 %r8, %r7, 3; sub.s32 %r9, %r7, %r8; mov.u32 %r10, 0;
    AGAIN: mul.wide.s32 %rd3, %r10, 4; add.s64 %rd4, %rd1, %rd3; st.global.v4.u32 [%rd4], {%r1, %r1, %r1, %r1};
        add.s32 %r10, %r10, 4; add.s32 %r9, %r9, -4; setp.ne.s32 %p3, %r9, 0; @%p3 bra AGAIN;
    END:
    """
    assert one(code, n=n)[:2] == (0, 4 * (n - n % 4) - 1)


def test_loops_nested_beyond_reason_are_unknown() -> None:
    begins = "".join(f"A{number}: add.s32 %r7, %r7, 1;" for number in range(600))
    ends = "".join(f"setp.lt.s32 %p1, %r7, %r1; @%p1 bra A{number};" for number in reversed(range(600)))
    found = template(begins + STORE + ends)
    assert not found.accesses
    assert [each.reason for each in found.unknown] == ["loops are nested too deeply"]
