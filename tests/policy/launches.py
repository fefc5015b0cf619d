"""Launches as it is told: a JSON list of {function, blocks, threads, stream, attribute, shared_limit} on
standard input.

Streams are numbers from 0, the default one. Each launch adds 1 to an element per block; the sum over all is printed,
which says that none was lost. At an entry with `pause_file` it prints "waiting" and waits until that file exists. The
function `sm_count` is another: it notes the number of SMs of the GPU that it runs on, which is printed as well. An
attribute is one of ATTRIBUTES, that the launch has; the function gets a limit of dynamic shared memory just before.
"""

import ctypes
import json
import sys
import time
from pathlib import Path

from cuda.bindings import driver

sys.path.append(str(Path(__file__).parents[2]))

from tests.bindings import HEAD, call, use_gpu
from tests.bindings import launch as launch_with

KERNEL = """
.visible .entry {name}(.param .u64 sums)
{{
    .reg .b64 %a<3>;
    .reg .b32 %r<3>;
    .reg .pred %p;
    mov.u32 %r1, %tid.x;
    setp.ne.u32 %p, %r1, 0;
    @%p bra done;
    ld.param.u64 %a1, [sums];
    mov.u32 %r2, %ctaid.x;
    mul.wide.u32 %a2, %r2, 4;
    add.u64 %a1, %a1, %a2;
    ld.global.u32 %r1, [%a1];
    add.u32 %r1, %r1, 1;
    st.global.u32 [%a1], %r1;
done:
    ret;
}}
"""
SM_COUNT = """
.visible .entry sm_count(.param .u64 sums)
{
    .reg .b64 %a<2>;
    .reg .b32 %r<2>;
    ld.param.u64 %a1, [sums];
    mov.u32 %r1, %nsmid;
    st.global.u32 [%a1+NOTE], %r1;
    ret;
}
"""
ATTRIBUTES = ("COOPERATIVE", "CLUSTER_DIMENSION", "PROGRAMMATIC_STREAM_SERIALIZATION")
SHARED_LIMIT = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
MANGLED = "_ZN4some5deltaIfLi3EEEvPT_"  # void some::delta<float, 3>(float*)
FUNCTIONS = ("alpha", "beta", "gamma", MANGLED)
BLOCKS = 1024
NOTE = 4 * BLOCKS + 20  # where sm_count writes, behind the sums
PTX = HEAD + "".join(KERNEL.format(name=name) for name in FUNCTIONS) + SM_COUNT.replace("NOTE", str(NOTE))
PAUSE_S = 30


def pause(file: Path) -> None:
    print("waiting", flush=True)
    end = time.monotonic() + PAUSE_S
    while not file.exists():
        if time.monotonic() > end:
            raise TimeoutError(str(file))
        time.sleep(0.01)


def main() -> None:
    launches = json.load(sys.stdin)
    use_gpu()
    module = call(driver.cuModuleLoadData(PTX.encode()))
    functions = {name: call(driver.cuModuleGetFunction(module, name.encode())) for name in (*FUNCTIONS, "sm_count")}
    count = 1 + max((launch.get("stream", 0) for launch in launches), default=0)
    streams = [0, *(call(driver.cuStreamCreate(0)) for _ in range(count - 1))]
    sums = call(driver.cuMemAlloc(NOTE + 4))
    call(driver.cuMemsetD32(sums, 0, NOTE // 4 + 1))
    for launch in launches:
        if "pause_file" in launch:
            pause(Path(launch["pause_file"]))
        shape = (launch.get("blocks", 1), 1, 1, launch.get("threads", 1), 1, 1)
        stream = streams[launch.get("stream", 0)]
        parameters = ((sums,), (None,))
        if "shared_limit" in launch:
            call(driver.cuFuncSetAttribute(functions[launch["function"]], SHARED_LIMIT, launch["shared_limit"]))
        if "attribute" in launch:
            blocks, threads = shape[0], shape[3]
            launch_with(functions[launch["function"]], blocks, threads, stream, parameters, launch["attribute"])
        else:
            call(driver.cuLaunchKernel(functions[launch["function"]], *shape, 0, stream, parameters, 0))
        if launch.get("stream", 0):
            call(driver.cuStreamSynchronize(stream))
    result = (ctypes.c_uint32 * (NOTE // 4 + 1))()
    call(driver.cuMemcpyDtoH(ctypes.addressof(result), sums, NOTE + 4))
    print(sum(result[:BLOCKS]))
    if result[NOTE // 4]:
        print(result[NOTE // 4])


if __name__ == "__main__":
    main()
