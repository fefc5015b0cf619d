"""What a clone's module has besides the program's code: a variable (tessera/clones.h), and the function that tests."""

from __future__ import annotations

from functools import cache

from ptxtools.native import records

HEADER = "clones.h"
VARIABLE, FUNCTION = "tessera_clone", "tessera_clone_check"
KIND_BITS = 2

_CODE = """
.visible .global .align 16 .b8 {variable}[{size}];
.func {function}(.param .b64 tessera_address, .param .b64 tessera_bytes, .param .b32 tessera_what)
{{
.reg .pred %p, %q;
.reg .b32 %what, %count, %i, %mask, %lower, %threads, %taken;
.reg .b64 %address, %bytes, %at, %end, %block, %n, %kind, %of, %range, %low, %high, %stride, %width, %offset;
ld.param.u64 %address, [tessera_address];
ld.param.u64 %bytes, [tessera_bytes];
ld.param.u32 %what, [tessera_what];
mov.u64 %block, {variable};
activemask.b32 %mask;
mov.u32 %lower, %lanemask_lt;
and.b32 %lower, %lower, %mask;
setp.eq.u32 %p, %lower, 0;
popc.b32 %threads, %mask;
cvt.u64.u32 %n, %threads;
@%p red.global.add.u64 [%block+{tested}], %n;
ld.global.u32 %count, [%block+{count}];
cvt.u64.u32 %kind, %what;
and.b64 %kind, %kind, 3;
mov.u64 %at, %address;
add.u64 %end, %address, %bytes;
next:
setp.ge.u64 %p, %at, %end;
@%p bra done;
mov.u32 %i, 0;
add.u64 %range, %block, {ranges};
search:
setp.ge.u32 %p, %i, %count;
@%p bra outside;
add.u32 %i, %i, 1;
ld.global.u64 %low, [%range+{low}];
ld.global.u64 %high, [%range+{high}];
ld.global.u64 %stride, [%range+{stride}];
ld.global.u64 %width, [%range+{width}];
ld.global.u64 %of, [%range+{kind}];
add.u64 %range, %range, {range};
setp.ne.u64 %p, %of, %kind;
setp.lt.or.u64 %p, %at, %low, %p;
setp.ge.or.u64 %p, %at, %high, %p;
@%p bra search;
setp.eq.u64 %q, %stride, 0;
@%q bra found;
sub.u64 %offset, %at, %low;
rem.u64 %offset, %offset, %stride;
setp.ge.u64 %p, %offset, %width;
@%p bra search;
sub.u64 %offset, %width, %offset;
add.u64 %offset, %at, %offset;
min.u64 %high, %high, %offset;
found:
mov.u64 %at, %high;
bra next;
outside:
red.global.add.u64 [%block+{outside}], 1;
atom.global.cas.b32 %taken, [%block+{taken}], 0, 1;
setp.ne.u32 %p, %taken, 0;
@%p bra done;
st.global.u64 [%block+{address}], %at;
st.global.u64 [%block+{bytes}], %bytes;
st.global.u32 [%block+{what}], %what;
done:
ret;
}}
"""


@cache
def declarations() -> str:
    """In one line, so that the program's own lines keep their numbers."""
    ffi, _ = records.header(HEADER)
    block, each = "struct tsr_clone_block", "struct tsr_clone_range"
    places = {name: ffi.offsetof(block, name) for name in ("count", "taken", "tested", "outside")}
    told = {name: ffi.offsetof(block, name) for name in ("address", "bytes", "what")}
    fields = {name: ffi.offsetof(each, name) for name in ("low", "high", "stride", "width", "kind")}
    begin, step = ffi.sizeof(block), ffi.sizeof(each)
    size = place_offset(most_places())
    names = {"variable": VARIABLE, "function": FUNCTION, "size": size, "ranges": begin, "range": step}
    return _CODE.format(**names, **places, **told, **fields).replace("\n", " ")


@cache
def most_places() -> int:
    return records.constant(records.header(HEADER)[1], "TSR_CLONE_PLACES", HEADER)


@cache
def place_offset(number: int) -> int:
    """Of a place in the clone's variable, after the ranges."""
    ffi, text = records.header(HEADER)
    ranges = records.constant(text, "TSR_CLONE_RANGES", HEADER)
    return ffi.sizeof("struct tsr_clone_block") + ranges * ffi.sizeof("struct tsr_clone_range") + 8 * number


def load_place(register: str, number: int) -> str:
    """The statement that loads the address that is in a place."""
    return f"ld.global.b64 {register},[{VARIABLE}+{place_offset(number)}];"
