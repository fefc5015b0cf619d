"""Calls through NVIDIA's Python bindings, as test programs make them, and the kernels that these are about."""

import re
from collections.abc import Sequence
from typing import Any

from cuda.bindings import driver

PROGRAMMATIC = "PROGRAMMATIC_STREAM_SERIALIZATION"  # it may begin as soon as the launch before it allows it
HEAD = ".version 7.0\n.target sm_70\n.address_size 64\n"


def call(result: tuple[Any, ...]) -> Any:
    """Unpacks (error, value...) of any of the bindings' functions and raises on an error."""
    error, *values = result
    if int(error) != 0:
        raise RuntimeError(str(error))
    return values[0] if len(values) == 1 else values


def use_gpu() -> Any:
    """The thread uses the first GPU that the program sees. Its primary context."""
    call(driver.cuInit(0))
    context = call(driver.cuDevicePrimaryCtxRetain(call(driver.cuDeviceGet(0))))
    call(driver.cuCtxSetCurrent(context))
    return context


def functions(*kernels: str) -> dict[str, Any]:
    """By name, those of a module of these kernels."""
    code = HEAD + "".join(kernels)
    module = call(driver.cuModuleLoadData(code.encode()))
    names = re.findall(r"\.entry (\w+)", code)
    return {name: call(driver.cuModuleGetFunction(module, name.encode())) for name in names}


def attribute(name: str) -> Any:
    """Of a launch: COOPERATIVE, CLUSTER_DIMENSION (of two blocks), or PROGRAMMATIC_STREAM_SERIALIZATION."""
    made = driver.CUlaunchAttribute()
    made.id, value = getattr(driver.CUlaunchAttributeID, f"CU_LAUNCH_ATTRIBUTE_{name}"), driver.CUlaunchAttributeValue()
    if name == "CLUSTER_DIMENSION":
        value.clusterDim.x, value.clusterDim.y, value.clusterDim.z = 2, 1, 1
    elif name == "COOPERATIVE":
        value.cooperative = 1
    else:
        value.programmaticStreamSerializationAllowed = 1
    made.value = value
    return made


def launch(function: Any, blocks: int, threads: int, stream: Any, parameters: Any, *attributes: str) -> None:
    """attributes: their names."""
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = blocks, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = threads, 1, 1
    config.hStream, config.attrs, config.numAttrs = stream, [attribute(name) for name in attributes], len(attributes)
    call(driver.cuLaunchKernelEx(config, function, parameters, 0))


def elementwise(name: str, pointers: Sequence[str], numbers: Sequence[str], body: str) -> str:
    """A kernel each thread of which has an element of 32 bits; with a number `count`, so many have one.

    In its body %NAME is the parameter of that name, of a pointer the address of the thread's element; %i is the
    thread's number, %at the bytes before its element; %r1 to %r8, %a1 to %a3 and %p1 to %p3 are free.
    """
    parameters = [f".param .u64 {each}" for each in pointers] + [f".param .u32 {each}" for each in numbers]
    lines = [
        *(f".reg .b64 %{each}; ld.param.u64 %{each}, [{each}];" for each in pointers),
        *(f".reg .b32 %{each}; ld.param.u32 %{each}, [{each}];" for each in numbers),
        ".reg .b32 %i, %block, %threads, %r<9>; .reg .b64 %at, %a<4>; .reg .pred %beyond, %p<4>;",
        "mov.u32 %block, %ctaid.x; mov.u32 %threads, %ntid.x; mov.u32 %i, %tid.x;",
        "mad.lo.u32 %i, %block, %threads, %i;",
        *("setp.ge.u32 %beyond, %i, %count; @%beyond bra done;" for each in numbers if each == "count"),
        "mul.wide.u32 %at, %i, 4;",
        *(f"add.u64 %{each}, %{each}, %at;" for each in pointers),
        body,
    ]
    return f".visible .entry {name}({', '.join(parameters)})\n{{\n" + "\n".join(lines) + "\ndone:\n    ret;\n}\n"


def arithmetic(rounds: str) -> str:
    """The body of a kernel with the pointers out, in and weights: so many rounds, a number or a parameter's name."""
    return f"""
    ld.global.u32 %r1, [%in];
    ld.global.u32 %r2, [%weights];
    mov.u32 %r3, 0;
again:
    mad.lo.u32 %r1, %r1, 1664525, %r2;
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p1, %r3, {rounds};
    @%p1 bra again;
    st.global.u32 [%out], %r1;
"""


def store_ptx(kind: str) -> bytes:
    """A module whose kernel `store` writes a 7 of that type to the address that is its parameter."""
    return (HEAD + STORE.replace("KIND", kind)).encode()


STORE = """
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
