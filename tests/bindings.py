"""Calls through NVIDIA's Python bindings, as test programs make them."""

from typing import Any


def call(result: tuple[Any, ...]) -> Any:
    """Unpacks (error, value...) of any of the bindings' functions and raises on an error."""
    error, *values = result
    if int(error) != 0:
        raise RuntimeError(str(error))
    return values[0] if len(values) == 1 else values


def store_ptx(kind: str) -> bytes:
    """A module whose kernel `store` writes a 7 of that type to the address that is its parameter."""
    return STORE.replace("KIND", kind).encode()


STORE = """.version 7.0
.target sm_70
.address_size 64
.visible .entry store(.param .u64 to)
{
    .reg .b64 %a<2>;
    .reg .b32 %r<2>;
    ld.param.u64 %a1, [to];
    mov.u32 %r1, 7;
    st.global.KIND [%a1], %r1;
    ret;
}
"""
