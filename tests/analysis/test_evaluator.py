"""The evaluator against the naive oracle; when it gives something up, the same bytes or more; and what it remembers."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path

import pytest

from ptxtools.access import flat
from ptxtools.access.build import build
from ptxtools.access.template import AccessKind, Op, Template
from ptxtools.ranges import Evaluator, Launch, Range, Result, evaluate
from ptxtools.reader import read
from tests.instruments.naive import TooLongError, is_equal, lacking, touched
from tests.instruments.oracle import inside, spread, union
from tests.instruments.plan import Kernel, kernels
from tests.sample import sampled

ROOT = Path(__file__).parents[2]
TEXTS = [
    *sorted((ROOT / "tests" / "corpus" / "ptx").glob("*.ptx")),
    ROOT / "scripts" / "bench" / "emulator_kernels.ptx",
]
BUFFER = 1 << 28
FULL, INTERVALS, WHOLE, UNKNOWN = range(4)


def buffers(address: int) -> tuple[int, int] | None:
    """Six allocations, far from each other."""
    begin = address & ~(2 * BUFFER - 1)
    return (begin, begin + BUFFER) if address - begin < BUFFER and 0 < begin >> 29 <= 6 else None


def endless(address: int) -> tuple[int, int] | None:
    return buffers(address) and (0, 1 << 63)


def random_launch(kernel: Kernel, chance: random.Random) -> Launch:
    job = json.loads(kernel.job(chance))
    block = bytearray(bytes.fromhex(job["values"]))
    for offset, number in job["pointers"].items():
        address = (number + 1) * 2 * BUFFER + BUFFER // 2 + chance.choice((0, 0, 4, 256))
        block[int(offset) : int(offset) + 8] = struct.pack("<Q", address)
    return Launch(bytes(block), tuple(job["grid"]), tuple(job["block"]), buffers)


@cache
def corpus() -> list[tuple[Kernel, Template]]:
    found = []
    for text in TEXTS:
        module = read(text.read_text())
        found += [(kernel, build(module, module.functions[kernel.name])) for kernel in kernels(text)]
    return found


def campaign(launches: int, seed: int) -> Iterator[tuple[Template, Launch]]:
    chance = random.Random(seed)
    for kernel, template in corpus():
        for _ in range(launches):
            yield template, random_launch(kernel, chance)


def same(one: Result, other: Result) -> bool:
    return set(one.ranges) == set(other.ranges) and bool(one.unknown) == bool(other.unknown)


def covers(larger: Result, smaller: Result) -> bool:
    """Whether all bytes of the smaller one are in the larger one. Both know their allocations."""
    return bool(larger.unknown) or all(
        inside(piece, union(part for each in larger.ranges if each.kind is wanted.kind for part in spread(each)))
        for wanted in smaller.ranges
        for piece in union(spread(wanted))
    )


def small(launch: Launch, chance: random.Random) -> Launch:
    """The launch with few threads."""
    block = chance.choice(((32, 1, 1), (5, 1, 1), (4, 4, 1)))
    return replace(launch, grid=chance.choice(((1, 1, 1), (2, 1, 1), (1, 2, 1))), block=block)


@pytest.mark.parametrize("every", sampled([1, 3], [3]))
def test_every_byte_that_a_thread_touches_is_predicted(every: int) -> None:
    chance, told, complete, too_long, strays = random.Random(2), 0, 0, 0, 0
    for template, launch in islice(campaign(2, 1), None, None, every):
        asked = small(launch, chance)
        try:
            real = touched(template, asked)
        except TooLongError:
            too_long += 1
            continue
        if lacking(evaluate(template, asked), real):  # sizes at random lead out of the allocation
            assert not lacking(evaluate(template, replace(asked, allocation=endless)), real), template.name
            strays += 1
        told += any(real.accesses.values())
        complete += real.complete
    assert told >= 50 // every
    assert complete >= 20 // every
    assert too_long <= 8
    assert strays <= 2


AFFINE = {
    "elements": "mul.wide.s32 %a, %i, 4; add.s64 %a, %p, %a; st.global.u32 [%a], %i;",
    "guarded": "setp.ge.s32 %q, %i, %n; @%q bra E; "
    "mul.wide.s32 %a, %i, 4; add.s64 %a, %p, %a; ld.global.u32 %v, [%a]; E:",
    "rows": "mad.lo.s32 %v, %c, 100, %t; mul.wide.s32 %a, %v, 8; add.s64 %a, %p, %a; st.global.u64 [%a], %p;",
    "transposed": "mad.lo.s32 %v, %t, %n, %c; mul.wide.s32 %a, %v, 2; add.s64 %a, %p, %a; st.global.u16 [%a], %h;",
    "downwards": "sub.s32 %v, 1000, %i; mul.wide.s32 %a, %v, 4; add.s64 %a, %p, %a; ld.global.u32 %v, [%a];",
    "loop": """mov.u32 %v, %i; L: mul.wide.s32 %a, %v, 4; add.s64 %a, %p, %a; st.global.u32 [%a], %v;
        add.s32 %v, %v, 64; setp.lt.s32 %q, %v, 300; @%q bra L;""",
    "columns": "rem.u32 %v, %t, 8; div.u32 %w, %t, 8; mad.lo.s32 %v, %w, 64, %v; cvt.s64.s32 %a, %v; "
    "add.s64 %a, %p, %a; st.global.u8 [%a], %h;",
    "rows with small gaps": "mad.lo.s32 %v, %c, 33, %t; cvt.s64.s32 %a, %v; add.s64 %a, %p, %a; st.global.u8 [%a], %h;",
    "transposed in a loop": """mov.u32 %v, %i; L: div.u32 %w, %v, 4; rem.u32 %d, %v, 4; div.u32 %x, %w, 13;
        rem.u32 %w, %w, 13; mad.lo.s32 %d, %x, 4, %d; mad.lo.s32 %d, %w, 28, %d; cvt.s64.s32 %a, %d;
        add.s64 %a, %p, %a; ld.global.u8 %h, [%a]; add.s32 %v, %v, 64; setp.lt.u32 %q, %v, 364; @%q bra L;""",
    "low bits": "and.b32 %v, %t, 7; shr.u32 %w, %t, 3; mad.lo.s32 %v, %w, 32, %v; mul.wide.u32 %a, %v, 4; "
    "add.s64 %a, %p, %a; st.global.u32 [%a], %v;",
    "never": "setp.gt.s32 %q, %n, 1000000; @!%q bra E; st.global.u32 [%p], %v; E:",
}


@pytest.mark.parametrize("name", AFFINE)
@pytest.mark.parametrize("n", [0, 37, 64])
def test_ranges_of_affine_kernels_are_exact(name: str, n: int) -> None:
    text = f""".version 8.0
.target sm_80
.entry k(.param .u64 pointer, .param .u32 count) {{
    .reg .pred %q; .reg .b16 %h; .reg .b32 %c, %t, %d, %i, %n, %v, %w, %x; .reg .b64 %p, %a;
    ld.param.u64 %p, [pointer]; ld.param.u32 %n, [count];
    mov.u32 %c, %ctaid.x; mov.u32 %d, %ntid.x; mov.u32 %t, %tid.x; mad.lo.s32 %i, %c, %d, %t;
    {AFFINE[name]} ret; }}"""
    module = read(text)
    template = build(module, module.kernels[0])
    launch = Launch(struct.pack("<QI", 2 * BUFFER, n), (2, 1, 1), (32, 1, 1), buffers)
    real = touched(template, launch)
    assert real.complete
    assert any(real.accesses.values()) == (name != "never" and (name, n) != ("guarded", 0))
    assert is_equal(evaluate(template, launch), real)


@pytest.mark.parametrize("steps", [1, 30, 100, 300, 1000])
def test_with_little_time_ranges_are_coarser_and_never_narrower(steps: int) -> None:
    levels = set()
    for template, launch in campaign(1, steps):
        evaluator = Evaluator(template, steps=steps)
        assert covers(evaluator.evaluate(launch), evaluate(template, launch)), template.name
        tables = any(node.op is Op.ELEMENT for node in flat.read(flat.write(template)).nodes)
        assert evaluator.steps <= (20 if tables else 1) * (steps + 200) or evaluator.level == FULL
        levels.add(evaluator.level)
    assert levels != {FULL}


def test_what_is_remembered_is_right() -> None:
    chance = random.Random(3)
    remembered = 0
    for kernel, template in corpus():
        evaluator = Evaluator(template, memo=True)
        launch = random_launch(kernel, chance)
        for _ in range(6):
            moved = Launch(moved_pointers(kernel, launch, chance), launch.grid, launch.block, buffers)
            assert same(evaluator.evaluate(moved), evaluate(template, moved)), kernel.name
            remembered += evaluator.remembered
    assert remembered >= 100


@pytest.mark.full
def test_what_is_remembered_is_what_is_found_anew() -> None:
    """Whatever changes from one launch to the next: addresses, their low bits, null, not allocated, numbers, shapes."""
    chance = random.Random(7)
    remembered = 0
    for kernel, template in corpus():
        evaluator = Evaluator(template, memo=True)
        known = [random_launch(kernel, chance) for _ in range(2)]
        for _ in range(16):
            launch = changed(kernel, chance.choice(known), chance)
            assert same(evaluator.evaluate(launch), evaluate(template, launch)), kernel.name
            remembered += evaluator.remembered
            known = [*known[-4:], launch]
    assert remembered >= 400


def changed(kernel: Kernel, launch: Launch, chance: random.Random) -> Launch:
    """A launch that has much in common with another."""
    block = bytearray(launch.parameters)
    for offset in kernel.pointers:
        way = chance.randrange(8)
        address = chance.randrange(1, 7) * 2 * BUFFER + BUFFER // 2 + chance.choice((0, 0, 0, 4, 8, 256))
        if way < 4:  # else as it was
            block[offset : offset + 8] = struct.pack("<Q", (0, 5 << 40, address, address)[way])
    other = random_launch(kernel, chance)
    if chance.random() < 0.2 and len(block) > 4:
        at = 4 * chance.randrange(len(block) // 4)
        block[at : at + 4] = other.parameters[at : at + 4]
    grid = other.grid if chance.random() < 0.1 else launch.grid
    return Launch(bytes(block), grid, launch.block, buffers)


def moved_pointers(kernel: Kernel, launch: Launch, chance: random.Random) -> bytes:
    """The same parameters with other addresses."""
    block = bytearray(launch.parameters)
    for offset in kernel.pointers:
        address = chance.randrange(1, 7) * 2 * BUFFER + BUFFER // 2 + chance.choice((0, 256, 4096))
        block[offset : offset + 8] = struct.pack("<Q", address)
    return bytes(block)


# The second size and stride are read by launches with two dimensions only.
UP_TO_TWO_DIMENSIONS = """.version 8.0
.target sm_80
.entry k(.param .u64 p, .param .u32 dims, .param .u32 stride, .param .u32 size, .param .u32 more) {
    .reg .pred %p<2>; .reg .b64 %rd<5>; .reg .b32 %r<9>;
    ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [dims]; ld.param.u32 %r2, [stride];
    mov.u32 %r3, %tid.x; mul.lo.u32 %r4, %r3, %r2;
    setp.lt.u32 %p1, %r1, 2; @%p1 bra DONE;
    ld.param.u32 %r5, [size]; rem.u32 %r6, %r3, %r5; ld.param.u32 %r7, [more]; mad.lo.u32 %r4, %r6, %r7, %r4;
DONE:
    mul.wide.u32 %rd2, %r4, 4; add.u64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], 1; ret; }"""


def test_what_a_launch_does_not_look_at_does_not_count() -> None:
    module = read(UP_TO_TWO_DIMENSIONS)
    template = build(module, module.functions["k"])
    evaluator = Evaluator(template, memo=True)
    remembered = []
    jobs = [(dims, 3, size, more) for _ in range(3) for dims in (1, 2) for size, more in ((4, 100), (8, 9))]
    for number, values in enumerate(jobs):
        parameters = struct.pack("<Q4I", (1 + number % 6) * 2 * BUFFER, *values)
        launch = Launch(parameters, (1, 1, 1), (32, 1, 1), buffers)
        assert same(evaluator.evaluate(launch), evaluate(template, launch)), values
        remembered.append(evaluator.remembered)
    assert remembered == [False, True, False, False, *[True] * 8]


# A weight that may be left out, as in PyTorch's layer normalisation.
LEFT_OUT = """.version 8.0
.target sm_80
.entry k(.param .u64 p, .param .u64 weight) {
    .reg .pred %p<2>; .reg .b64 %rd<5>; .reg .b32 %r<9>;
    ld.param.u64 %rd1, [p]; ld.param.u64 %rd2, [weight]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4;
    setp.eq.s64 %p1, %rd2, 0; @%p1 bra DONE;
    add.u64 %rd4, %rd2, %rd3; ld.global.u32 %r2, [%rd4];
DONE:
    add.u64 %rd3, %rd1, %rd3; st.global.u32 [%rd3], %r2; ret; }"""

# The first thread of a group of four by where it begins, as PyTorch's reductions have it.
ALIGNED_FIRST = """.version 8.0
.target sm_80
.entry k(.param .u64 p, .param .u64 q) {
    .reg .b64 %rd<9>; .reg .b32 %r<9>;
    ld.param.u64 %rd1, [p]; ld.param.u64 %rd2, [q]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4;
    add.u64 %rd4, %rd1, %rd3; shr.u64 %rd5, %rd4, 2; and.b64 %rd6, %rd5, 3; shl.b64 %rd7, %rd6, 2;
    add.u64 %rd8, %rd2, %rd7; st.global.u32 [%rd8], 1; ret; }"""

# Of two addresses in a sum, that which points into an allocation is the pointer.
TWO_IN_A_SUM = """.version 8.0
.target sm_80
.entry k(.param .u64 p, .param .u64 q) {
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [p]; ld.param.u64 %rd2, [q]; add.u64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], 1; ret; }"""


def remembering(text: str, launches: list[tuple[int, int]]) -> list[bool]:
    """Which of the launches, with two addresses each, were remembered. All are as they are found anew."""
    module = read(text)
    template = build(module, module.functions["k"])
    evaluator = Evaluator(template, memo=True)
    found = []
    for addresses in launches:
        launch = Launch(struct.pack("<2Q", *addresses), (2, 1, 1), (32, 1, 1), buffers)
        assert same(evaluator.evaluate(launch), evaluate(template, launch)), addresses
        found.append(evaluator.remembered)
    return found


def test_of_a_pointer_that_may_be_left_out_only_that_counts() -> None:
    first, second, third = (number * 2 * BUFFER for number in (1, 2, 3))
    launches = [(first, second), (second, third), (first, 0), (third, 0), (second, first)]
    assert remembering(LEFT_OUT, launches) == [False, True, False, True, True]


def test_of_an_address_that_is_shifted_and_masked_only_these_bits_count() -> None:
    first, second, third = (number * 2 * BUFFER for number in (1, 2, 3))
    launches = [(first, second), (third, first), (third + 4, first), (first + 4, second), (second + 16, third)]
    assert remembering(ALIGNED_FIRST, launches) == [False, True, False, True, True]


def test_which_of_two_addresses_is_a_pointer_is_asked_of_each_launch() -> None:
    first, second = 2 * BUFFER, 4 * BUFFER
    assert remembering(TWO_IN_A_SUM, [(first, 64), (second, 64), (64, first), (64, second)])[1::2] == [True, True]


def test_an_address_that_is_not_allocated_any_more_is_no_pointer_any_more() -> None:
    module = read(TWO_IN_A_SUM)
    template = build(module, module.functions["k"])
    evaluator = Evaluator(template, memo=True)
    parameters = struct.pack("<2Q", 2 * BUFFER, 4 * BUFFER)
    for there in (2, 4):

        def only(address: int, begin: int = there * BUFFER) -> tuple[int, int] | None:
            return (begin, begin + BUFFER) if begin <= address < begin + BUFFER else None

        launch = Launch(parameters, (1, 1, 1), (1, 1, 1), only)
        assert same(evaluator.evaluate(launch), evaluate(template, launch)), there


def test_launches_take_each_others_places_when_there_are_many() -> None:
    module = read(UP_TO_TWO_DIMENSIONS)
    template = build(module, module.functions["k"])
    evaluator = Evaluator(template, memo=True)
    for _ in range(2):
        for stride in range(1, 200):
            launch = Launch(struct.pack("<Q4I", 2 * BUFFER, 1, stride, 0, 0), (1, 1, 1), (32, 1, 1), buffers)
            assert evaluator.evaluate(launch).ranges[0].last == 4 * 31 * stride + 3
        assert evaluator.evaluate(launch) == evaluate(template, launch)
        assert evaluator.remembered


# Like CUTLASS: with mode 1, what is written lies where the table says. The stride is no pointer.
POINTER_BY_MODE = """.version 8.0
.target sm_80
.entry k(.param .u64 p, .param .u64 table, .param .u64 stride, .param .u32 mode) {
    .reg .pred %p<2>; .reg .b64 %rd<9>; .reg .b32 %r<9>;
    ld.param.u64 %rd1, [p]; ld.param.u64 %rd2, [table]; ld.param.u64 %rd3, [stride]; ld.param.u32 %r1, [mode];
    mov.u64 %rd4, %rd1; setp.ne.u32 %p1, %r1, 1; @%p1 bra HERE;
    ld.global.u64 %rd4, [%rd2];
HERE:
    mov.u32 %r2, %tid.x; mul.wide.u32 %rd5, %r2, 4; add.u64 %rd6, %rd4, %rd3; add.u64 %rd7, %rd6, %rd5;
    st.global.u32 [%rd7], 1; ret; }"""


@pytest.mark.parametrize("steps", [1, 10, 20])
def test_with_little_time_it_is_still_known_which_pointer_is_taken(steps: int) -> None:
    module = read(POINTER_BY_MODE)
    evaluator = Evaluator(build(module, module.functions["k"]), steps=steps)
    target, table = 2 * BUFFER, 6 * BUFFER

    def found(mode: int) -> Result:
        return evaluator.evaluate(Launch(struct.pack("<3QI", target, table, 64, mode), (1, 1, 1), (32, 1, 1), buffers))

    known = found(mode=0)
    written = [each for each in known.ranges if each.kind is AccessKind.WRITE]
    assert not known.unknown
    assert [(each.parameter, each.begin, each.end) for each in written] == [(0, target, target + BUFFER)]
    assert found(mode=1).unknown


def test_a_template_that_is_damaged_is_refused() -> None:
    template = next(campaign(1, 1))[0]
    data = flat.write(template)
    assert Evaluator(data).evaluate(next(campaign(1, 1))[1]).ranges
    header = flat.HEADER.unpack_from(data)
    for position in range(6, len(header)):
        damaged = bytearray(data)
        struct.pack_into("<I", damaged, 8 + 4 * (position - 1), 0xFFFFFFFF)
        with pytest.raises(ValueError, match=r"template"):
            Evaluator(bytes(damaged))


def test_the_reason_is_named() -> None:
    text = """.version 8.0
.target sm_80
.entry k(.param .u64 p) {
    .reg .b64 %rd<4>; .reg .b32 %r<2>;
    ld.param.u64 %rd1, [p]; ld.global.u64 %rd2, [%rd1]; st.global.u32 [%rd2], 1; ret; }"""
    module = read(text)
    template = build(module, module.functions["k"])
    launch = Launch(struct.pack("<Q", 1 << 40), (1, 1, 1), (1, 1, 1))
    found = evaluate(template, launch)
    remembering = Evaluator(template, memo=True)
    for number in range(3):
        assert evaluate(corpus()[number][1], launch).unknown != found.unknown
        assert remembering.evaluate(launch).unknown == found.unknown
    assert remembering.remembered
    assert [reason for _, reason in found.unknown] == ["pointer loaded from memory"]
    assert found.ranges == [Range(found.ranges[0].kind, 0, None, 1 << 40, 0, 7)]


def test_bounds_are_what_multiples_can_be() -> None:
    """Element n of block n, of 8 bytes, where thread + 4 n is 4 or more: of 4 threads that is block 1, not 1 / 4."""
    text = """
        .version 8.0
        .target sm_80
        .entry k(.param .u64 p) {
            .reg .pred %p<2>; .reg .b32 %r<5>; .reg .b64 %rd<4>;
            ld.param.u64 %rd1, [p]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mad.lo.s32 %r3, %r1, 4, %r2;
            setp.lt.s32 %p1, %r3, 4; @%p1 bra END;
            mul.wide.u32 %rd2, %r1, 8; add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r1;
        END: ret; }
    """
    module = read(text)
    template = build(module, module.functions["k"])
    launch = Launch(struct.pack("<Q", 2 * BUFFER), (3, 1, 1), (4, 1, 1), buffers)
    assert [(each.first, each.last) for each in evaluate(template, launch).ranges] == [(8, 19)]


def test_predicates_of_predicates_are_looked_at_in_bounded_time() -> None:
    """Each of two depends on both before: 2^60 ways lead to the comparisons."""
    steps = "".join(
        f"and.pred %p{n + 2}, %p{n}, %p{n + 1}; or.pred %p{n + 3}, %p{n}, %p{n + 1};\n" for n in range(0, 120, 2)
    )
    text = f"""
        .version 8.0
        .target sm_80
        .entry k(.param .u64 p) {{
            .reg .pred %p<123>; .reg .f32 %f<3>; .reg .b64 %rd<2>;
            ld.param.u64 %rd1, [p]; ld.global.f32 %f1, [%rd1]; ld.global.f32 %f2, [%rd1+4];
            setp.lt.f32 %p0, %f1, %f2; setp.gt.f32 %p1, %f1, 0f00000000;
            {steps}
            @%p121 st.global.f32 [%rd1+8], %f1;
            ret; }}
    """
    module = read(text)
    template = build(module, module.kernels[0])
    launch = Launch(struct.pack("<Q", 1 << 29), (1, 1, 1), (1, 1, 1), buffers)
    written = [each for each in evaluate(template, launch).ranges if each.kind is AccessKind.WRITE]
    begin = (1 << 29) + 8
    assert inside((begin, begin + 4), union(piece for each in written for piece in spread(each)))


def test_numbers_that_are_too_large_are_unknown() -> None:
    """A quotient of which nothing is known, times the parameter to the power of 20."""
    products = "mul.lo.s64 %rd4, %rd4, %rd2;\n" * 20
    text = f"""
        .version 8.0
        .target sm_80
        .entry k(.param .u64 p, .param .u64 n) {{
            .reg .b64 %rd<7>;
            ld.param.u64 %rd1, [p]; ld.param.u64 %rd2, [n]; ld.global.u64 %rd3, [%rd1];
            div.s64 %rd4, %rd2, %rd3;
            {products}
            add.s64 %rd6, %rd1, %rd4;
            st.global.u64 [%rd6], %rd1;
            ret; }}
    """
    module = read(text)
    template = build(module, module.kernels[0])
    launch = Launch(struct.pack("<QQ", 1 << 29, (1 << 62) + 3), (1, 1, 1), (1, 1, 1), buffers)
    found = evaluate(template, launch)
    assert found.unknown or any(each.whole and each.kind is AccessKind.WRITE for each in found.ranges)
    assert found.ranges


def test_every_line_that_is_unknown_is_told() -> None:
    """Whoever follows pointers in memory must hear of each."""
    lines = "\n".join(f"ld.global.u64 %rd2, [%rd1+{8 * n}]; st.global.u32 [%rd2], 1;" for n in range(40))
    head = ".version 8.0\n.target sm_80\n.entry k(.param .u64 p) {\n.reg .b64 %rd<3>; ld.param.u64 %rd1, [p];"
    text = f"{head}\n{lines}\nret; }}"
    module = read(text)
    launch = Launch(struct.pack("<Q", 2 * BUFFER), (1, 1, 1), (1, 1, 1), buffers)
    found = evaluate(build(module, module.kernels[0]), launch)
    assert found.unknown == [(line, "pointer loaded from memory") for line in range(5, 45)]
    assert [(each.first, each.last) for each in found.ranges] == [(0, 319)]
