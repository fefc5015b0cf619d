"""The least CUDA program, over ctypes: squares() launches one kernel on a GPU of this process and reads the answer."""

import ctypes
import threading

PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry squares(.param .u64 out)
{
    .reg .b32 %r<3>;
    .reg .b64 %a<3>;
    ld.param.u64 %a1, [out];
    mov.u32 %r1, %tid.x;
    mul.lo.u32 %r2, %r1, %r1;
    mul.wide.u32 %a2, %r1, 4;
    add.u64 %a1, %a1, %a2;
    st.global.u32 [%a1], %r2;
    ret;
}
"""
THREADS = 32
_lock = threading.Lock()
_made: dict[int, tuple[ctypes.CDLL, ctypes.c_void_p]] = {}


def check(result: int) -> None:
    if result:
        raise RuntimeError(f"CUDA error {result}")


def driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def start(device: int = 0) -> tuple[ctypes.CDLL, ctypes.c_void_p]:
    """The driver, initialised, with a context current, and the kernel."""
    cuda = driver()
    check(cuda.cuInit(0))
    context, module, function = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    check(cuda.cuCtxSetCurrent(context))
    with _lock:
        if device not in _made:
            check(cuda.cuModuleLoadData(ctypes.byref(module), PTX))
            check(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"squares"))
            _made[device] = (cuda, function)
    return _made[device]


def squares(device: int = 0) -> int:
    """Sum of the squares of 0..31, computed on the GPU."""
    cuda, function = start(device)
    memory = ctypes.c_uint64()
    check(cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(4 * THREADS)))
    parameters = (ctypes.c_void_p * 1)(ctypes.cast(ctypes.byref(memory), ctypes.c_void_p))
    check(cuda.cuLaunchKernel(function, 1, 1, 1, THREADS, 1, 1, 0, None, parameters, None))
    host = (ctypes.c_uint32 * THREADS)()
    check(cuda.cuMemcpyDtoH_v2(host, memory, ctypes.c_size_t(4 * THREADS)))
    check(cuda.cuMemFree_v2(memory))
    return sum(host)
