"""A driver in front of a driver, whose n-th call fails.

It is a libcuda.so.1 that forwards every function with a known prototype to the driver in TESSERA_FAULT_DRIVER. In the
processes named in TESSERA_FAULT as `name:n` the n-th call of a function that may fail answers OUT_OF_MEMORY, once, and
leaves the function's name in the file TESSERA_FAULT_MARK. `name:n:function`: the n-th call of that one.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from interpose.api.header import read_prototypes
from interpose.api.table import read_rows

ROOT = Path(__file__).parents[2]
HEAD = r"""
#include <cuda.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static long wanted, calls;
static const char *only;

__attribute__((constructor)) static void begin(void)
{
    const char *fault = getenv("TESSERA_FAULT"), *colon = fault ? strchr(fault, ':') : NULL;
    size_t bytes = colon ? (size_t)(colon - fault) : 0;
    const char *self = program_invocation_short_name;
    if (bytes && strlen(self) == bytes && memcmp(self, fault, bytes) == 0)
        wanted = atol(colon + 1);
    only = wanted ? strchr(colon + 1, ':') : NULL;
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
"""
NEVER_FAILS = re.compile(r"cuGetError|cuDriverGetVersion|cuGetProcAddress|cuGetExportTable")


def source(cuda_header: Path) -> str:
    """The C text of the driver."""
    prototypes, parts = read_prototypes(cuda_header), [HEAD]
    for row in read_rows(ROOT / "interpose" / "api" / "driver.def"):
        prototype = prototypes.get(row.symbol) or prototypes.get(row.base or "")
        if prototype is None:
            continue
        condition = f'    if (is_the_one("{row.symbol}"))\n'
        fails = "" if NEVER_FAILS.match(row.symbol) else f"{condition}        return CUDA_ERROR_OUT_OF_MEMORY;\n"
        parts.append(
            f"#undef {row.symbol}\nEXPORT CUresult {row.symbol}({prototype.parameters});\n"
            f"EXPORT CUresult {row.symbol}({prototype.parameters})\n{{\n"
            f"    static CUresult (*tsr_real)({prototype.parameters});\n"
            f'    if (!tsr_real)\n        *(void **)&tsr_real = real("{row.symbol}");\n{fails}'
            f"    return tsr_real ? tsr_real({', '.join(prototype.arguments)}) : CUDA_ERROR_NOT_FOUND;\n}}\n"
        )
    return "\n".join(parts)


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
    code = directory / "fault_driver.c"
    code.write_text(source(include / "cuda.h"))
    command = ["cc", "-shared", "-fPIC", "-O1", "-w", "-D_GNU_SOURCE", "-D__CUDA_API_VERSION_INTERNAL", f"-I{include}"]
    command += ["-Wl,-soname,libcuda.so.1", "-o", str(tree / "emulator" / "libcuda.so.1"), str(code), "-ldl"]
    subprocess.run(command, check=True)
    command = [
        "cc",
        "-shared",
        "-fPIC",
        "-O1",
        "-std=gnu11",
        "-D_GNU_SOURCE",
        "-fvisibility=hidden",
        "-Wall",
        "-Werror",
    ]
    command += ["-o", str(directory / "fault_alloc.so"), str(Path(__file__).with_name("fault_alloc.c")), "-ldl"]
    subprocess.run([*command, "-pthread"], check=True)
    return tree
