"""What is known of a value holds where it was made: on other ways to a phi nothing follows from it."""

from __future__ import annotations

import struct

import pytest

from ptxtools.ranges import Launch, evaluate
from tests.analysis.test_ranges import template

P = 0x7F0000000000
CHOSEN = """
    add.s32 %r24, %r5, 1; setp.eq.s32 %p5, %r5, 4; @!%p5 bra OTHER;
    selp.b32 %r24, %r24, %r5, %p6;
    bra END;
OTHER:
    add.s64 %rd3, %rd2, 8;
END:
"""
MET = """
    add.s32 %r24, %r5, 1; xor.b32 %r24, %r24, 8;
    setp.lt.s32 %p5, %r24, %r5; @!%p5 bra OTHER;
    setp.eq.u32 %p6, %r24, 8; @!%p6 bra KEPT;
    shr.s32 %r24, 1, %r22;
KEPT:
    bra END;
OTHER:
    @%p5 st.global.u8 [%rd2], %r1;
END:
"""


@pytest.mark.parametrize(("code", "first", "last"), [(CHOSEN, 1, 32), (MET, 0, 40)])
def test_bytes_of_threads_that_took_another_way(code: str, first: int, last: int) -> None:
    """Of 32 threads; the value of those that do not take the inner way is not near one that they never made."""
    made = template(code + "cvt.u64.u32 %rd3, %r24; add.s64 %rd3, %rd1, %rd3; st.global.u8 [%rd3], %r1;")
    launch = Launch(struct.pack("<QQII", P, P, 0, 0), (1, 1, 1), (32, 1, 1), lambda _: (P, P + 4096))
    found = evaluate(made, launch).touched
    assert min(each.begin for each in found) - P <= first
    assert max(each.end for each in found) - P > last


def test_a_shift_by_what_only_its_way_keeps_from_being_negative() -> None:
    code = "sub.s32 %r9, %r5, 24; setp.lt.s32 %p1, %r9, 0; @%p1 bra END; shl.b32 %r10, 3, %r9;"
    made = template(code + "cvt.u64.u32 %rd3, %r10; add.s64 %rd3, %rd1, %rd3; st.global.u8 [%rd3], %r1; END:")
    launch = Launch(struct.pack("<QQII", P, P, 0, 0), (1, 1, 1), (32, 1, 1), lambda _: (P, P + 4096))
    (found,) = evaluate(made, launch).touched
    assert (found.begin - P, found.end - P) == (3, (3 << 7) + 1)
