"""A driver in front of a driver, whose n-th call fails, or whose calls take longer.

It is a libcuda.so.1 that forwards every function with a known prototype to the driver in TESSERA_FAULT_DRIVER, also
those that cuGetProcAddress finds.

TESSERA_FAULT=`name:n`: in processes of that name the n-th call of a function that may fail answers OUT_OF_MEMORY, once,
and leaves the function's name in the file TESSERA_FAULT_MARK. `name:n:function`: the n-th call of that one.

TESSERA_DELAY_SEED=n, not 0: threads pause before and after calls, as random numbers from the seed, the thread's place
among those of its process and the number of its call say: mostly not at all, sometimes they yield, one time of 16 they
sleep up to TESSERA_DELAY_US (300). TESSERA_DELAY_CALLS=`a,b`: only calls of these functions, and these each time, for
TESSERA_DELAY_US after the call.

TESSERA_STAGED_US=n: copies from the host that come back leave their bytes in its own memory, whence they get to
the GPU in stream order, n microseconds later.

TESSERA_SPOIL=`name:n`: in processes of that name the n-th cuMemcpyAsync leaves a wrong byte in the middle of its
target.

    python tests/fault/fault_driver.py DIRECTORY

makes DIRECTORY/native and prints the variables with which tessera-run --emulate uses it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT))

from interpose.api.header import Prototype, read_prototypes  # noqa: E402
from interpose.api.table import read_rows  # noqa: E402

DRIVER, ALLOC = "libcuda.so.1", "fault_alloc.so"
HEAD = r"""
#include <cuda.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static long wanted, calls;
static const char *only;

static long spoiled, copied;
static uint64_t staged_ns;
static uint64_t delay_seed, longest_ns, threads;
static const char *delayed;
static __thread uint64_t turn; /* 0: of a thread that has not called yet */

__attribute__((constructor)) static void begin(void)
{
    const char *fault = getenv("TESSERA_FAULT"), *colon = fault ? strchr(fault, ':') : NULL;
    size_t bytes = colon ? (size_t)(colon - fault) : 0;
    const char *self = program_invocation_short_name;
    const char *spoil = getenv("TESSERA_SPOIL"), *number = spoil ? strchr(spoil, ':') : NULL;
    if (number && strlen(self) == (size_t)(number - spoil) && memcmp(self, spoil, strlen(self)) == 0)
        spoiled = atol(number + 1);
    if (bytes && strlen(self) == bytes && memcmp(self, fault, bytes) == 0)
        wanted = atol(colon + 1);
    only = wanted ? strchr(colon + 1, ':') : NULL;
    const char *seed = getenv("TESSERA_DELAY_SEED"), *us = getenv("TESSERA_DELAY_US");
    delay_seed = seed ? strtoull(seed, NULL, 10) : 0;
    longest_ns = us ? strtoull(us, NULL, 10) * 1000 : 300000;
    delayed = getenv("TESSERA_DELAY_CALLS");
    const char *staged = getenv("TESSERA_STAGED_US");
    staged_ns = staged ? strtoull(staged, NULL, 10) * 1000 : 0;
}

static uint64_t mixed(uint64_t value)
{
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
    value = (value ^ value >> 27) * 0x94d049bb133111ebu;
    return value ^ value >> 31;
}

static void pause_for(uint64_t ns)
{
    int saved_errno = errno;
    struct timespec time = {ns / 1000000000, ns % 1000000000};
    nanosleep(&time, NULL);
    errno = saved_errno;
}

static int is_delayed(const char *name)
{
    size_t bytes = strlen(name);
    for (const char *at = delayed; at && *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == bytes && memcmp(at, name, bytes) == 0)
            return 1;
    return 0;
}

static void delay(const char *name, int after)
{
    if (delayed && *delayed) {
        if (after && is_delayed(name))
            pause_for(longest_ns);
        return;
    }
    if (!turn)
        turn = (__atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED) << 40) + 1;
    uint64_t drawn = mixed(delay_seed * 0x9e3779b97f4a7c15u + turn++);
    if (drawn % 16 == 0)
        pause_for((drawn >> 8) % longest_ns);
    else if (drawn % 16 < 5)
        sched_yield();
}

static int is_the_one(const char *name)
{
    int counts = wanted && (!only || strcmp(only + 1, name) == 0);
    int is = counts && __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) == wanted;
    const char *path = is ? getenv("TESSERA_FAULT_MARK") : NULL;
    int mark = path ? open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600) : -1;
    if (mark >= 0) {
        write(mark, name, strlen(name));
        close(mark);
    }
    return is;
}

static int is_spoiled(void)
{
    return spoiled && __atomic_add_fetch(&copied, 1, __ATOMIC_RELAXED) == spoiled;
}

/* The C library's own dlsym: that of a shim in front would answer with the shim's functions. */
static void *real(const char *name)
{
    static void *driver, *(*look_up)(void *, const char *);
    if (!look_up)
        look_up = (void *(*)(void *, const char *))dlvsym(dlopen("libc.so.6", RTLD_NOW), "dlsym", "GLIBC_2.2.5");
    if (!driver)
        driver = dlopen(getenv("TESSERA_FAULT_DRIVER"), RTLD_NOW | RTLD_LOCAL);
    return driver && look_up ? look_up(driver, name) : NULL;
}

static void *open_later(void *gate)
{
    pause_for(staged_ns);
    __atomic_store_n((uint32_t *)gate, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

/* The source is the host's; what is copied stays allocated. */
static CUresult stage(CUdeviceptr to, const void *from, size_t bytes)
{
    CUresult (*allocate)(void **, size_t, unsigned), (*wait)(CUstream, CUdeviceptr, cuuint32_t, unsigned);
    CUresult (*copy)(CUdeviceptr, const void *, size_t, CUstream);
    *(void **)&allocate = real("cuMemHostAlloc");
    *(void **)&wait = real("cuStreamWaitValue32_v2");
    *(void **)&copy = real("cuMemcpyHtoDAsync_v2");
    pthread_t thread;
    void *gate, *own = malloc(bytes);
    memcpy(own, from, bytes);
    CUresult result = allocate(&gate, 4, CU_MEMHOSTALLOC_PORTABLE);
    if (result == CUDA_SUCCESS) {
        memset(gate, 0, 4);
        pthread_create(&thread, NULL, open_later, gate);
        pthread_detach(thread);
        result = wait(CU_STREAM_LEGACY, (CUdeviceptr)(uintptr_t)gate, 1, CU_STREAM_WAIT_VALUE_GEQ);
    }
    return result == CUDA_SUCCESS ? copy(to, own, bytes, CU_STREAM_LEGACY) : result;
}

static void to_ours(void **found);
"""
TAIL = r"""
/* What a look-up has found, as this driver's function. */
static void to_ours(void **found)
{
    for (unsigned i = 0; found && *found && i < sizeof rows / sizeof rows[0]; i++)
        if (real(rows[i].name) == *found) {
            *found = rows[i].ours;
            return;
        }
}
"""
SPOIL = """    if (tsr_result == CUDA_SUCCESS && is_spoiled()) {
        CUresult (*tsr_set)(CUdeviceptr, unsigned char, size_t, CUstream);
        *(void **)&tsr_set = real("cuMemsetD8Async");
        tsr_set(dst + ByteCount / 2, 0xa5, 1, hStream);
    }
"""
STAGED = {
    "cuMemcpyHtoD_v2": "    if (staged_ns)\n        return stage(dstDevice, srcHost, ByteCount);\n",
    "cuMemcpy": "    if (staged_ns)\n        return stage(dst, (const void *)src, ByteCount);\n",
    "cuMemcpy2D_v2": "    if (staged_ns && pCopy->srcMemoryType == CU_MEMORYTYPE_HOST && pCopy->Height == 1)\n"
    "        return stage(pCopy->dstDevice, pCopy->srcHost, pCopy->WidthInBytes);\n",
}
NEVER_FAILS = re.compile(r"cuGetError|cuDriverGetVersion|cuGetProcAddress|cuGetExportTable")


def source(cuda_header: Path) -> str:
    """The C text of the driver."""
    prototypes, parts, symbols = read_prototypes(cuda_header), [HEAD], []
    for row in read_rows(ROOT / "interpose" / "api" / "driver.def"):
        prototype = prototypes.get(row.symbol) or prototypes.get(row.base or "")
        if prototype is not None:
            parts.append(_function(row.symbol, prototype))
            symbols.append(row.symbol)
    rows = "".join(f'    {{"{symbol}", {symbol}}},\n' for symbol in symbols)
    parts.append(f"static const struct {{ const char *name; void *ours; }} rows[] = {{\n{rows}}};\n{TAIL}")
    return "\n".join(parts)


def _function(symbol: str, prototype: Prototype) -> str:
    condition = f'    if (is_the_one("{symbol}"))\n'
    fails = "" if NEVER_FAILS.match(symbol) else f"{condition}        return CUDA_ERROR_OUT_OF_MEMORY;\n"
    finds = "    to_ours(pfn);\n" if symbol.startswith("cuGetProcAddress") else ""
    staged = STAGED.get(symbol, "")
    spoils = SPOIL if symbol == "cuMemcpyAsync" else ""
    return (
        f"#undef {symbol}\nEXPORT CUresult {symbol}({prototype.parameters});\n"
        f"EXPORT CUresult {symbol}({prototype.parameters})\n{{\n"
        f"    static CUresult (*tsr_real)({prototype.parameters});\n"
        f'    if (!tsr_real)\n        *(void **)&tsr_real = real("{symbol}");\n{fails}{staged}'
        f"    if (!tsr_real)\n        return CUDA_ERROR_NOT_FOUND;\n"
        f'    if (delay_seed)\n        delay("{symbol}", 0);\n'
        f"    CUresult tsr_result = tsr_real({', '.join(prototype.arguments)});\n"
        f'    if (delay_seed)\n        delay("{symbol}", 1);\n{finds}{spoils}'
        "    return tsr_result;\n}\n"
    )


@cache
def _compiled(include: Path) -> tempfile.TemporaryDirectory[str]:
    """libcuda.so.1 and fault_alloc.so, made once by a process."""
    made = tempfile.TemporaryDirectory()
    place = Path(made.name)
    (place / "fault_driver.c").write_text(source(include / "cuda.h"))
    command = ["cc", "-shared", "-fPIC", "-D_GNU_SOURCE", "-o"]
    driver: list[str | Path] = [
        place / DRIVER,
        place / "fault_driver.c",
        f"-I{include}",
        "-D__CUDA_API_VERSION_INTERNAL",
        "-w",
    ]
    subprocess.run([*command, *driver, f"-Wl,-soname,{DRIVER}", "-ldl", "-pthread"], check=True)
    alloc: list[str | Path] = [
        place / ALLOC,
        Path(__file__).with_name("fault_alloc.c"),
        "-O1",
        "-std=gnu11",
        "-fvisibility=hidden",
    ]
    subprocess.run([*command, *alloc, "-Wall", "-Werror", "-ldl", "-pthread"], check=True)
    return made


def build(native: Path, include: Path, directory: Path) -> Path:
    """A native directory like `native` with the failing driver in place of the emulated one; beside it fault_alloc.so.

    Returns it.
    """
    tree = directory / "native"
    tree.mkdir()
    for entry in native.iterdir():
        if entry.name != "emulator":
            (tree / entry.name).symlink_to(entry)
    (tree / "emulator").mkdir()
    made = Path(_compiled(include).name)
    shutil.copy(made / DRIVER, tree / "emulator")
    shutil.copy(made / ALLOC, directory)
    return tree


def delays(native: Path, tree: Path, seed: int, calls: str = "", microseconds: int = 300) -> dict[str, str]:
    """Variables of a run whose driver calls are delayed; `tree` is what `build` made of `native`."""
    return {
        "TESSERA_NATIVE": str(tree),
        "TESSERA_FAULT_DRIVER": str(native / "emulator" / "libcuda.so.1"),
        "TESSERA_DELAY_SEED": str(seed),
        "TESSERA_DELAY_CALLS": calls,
        "TESSERA_DELAY_US": str(microseconds),
    }


if __name__ == "__main__":
    made_of = Path(os.environ.get("TESSERA_NATIVE", ROOT / "build" / "native" / "native"))
    into = Path(sys.argv[1]).absolute()
    into.mkdir(parents=True, exist_ok=True)
    for name, value in delays(made_of, build(made_of, made_of.parent / "cuda-headers", into), 1).items():
        sys.stdout.write(f"{name}={value}\n")
