"""The ways to the driver: those that lead to the shim, and those that pass it."""

from tests.loader.probes import Probes

FUNCTIONS = {"cuInit", "cuDriverGetVersion", "cuGetProcAddress_v2", "cuLaunchKernel", "cuGetProcAddress"}
PAST = "past Tessera, which saw nothing of its use"

# program, way, what is opened, plug-in; {} is the directory of the probes.
CAUGHT = [
    ("linked", "linked"),
    ("linked_rpath", "linked"),
    ("linked", "default"),
    ("linked", "next"),
    ("linked", "program"),
    ("opened", "dlopen", "libcuda.so.1"),
    ("opened", "dlopen", "libcuda.so"),
    ("opened", "dlopen", "{}/libcuda.so.1"),
    ("opened", "dlopen", "{}/libcuda.so"),
    ("opened", "dlopen", "{}/libcuda.so.580.1"),
    ("opened", "global", "libcuda.so.1"),
    ("opened", "global", "{}/libcuda.so.1"),
    ("opened", "deepbind", "libcuda.so.1"),
    ("opened", "deepbind", "libcuda.so"),
    ("opened", "deepbind", "{}/libcuda.so.1"),
    ("opened", "dlvsym", "libcuda.so.1"),
    ("opened", "dlmopen", "{}/libcuda.so.1"),
    ("opened", "inside", "libcuda.so.1", "{}/plugin.so"),
    ("opened", "inside", "{}/libcuda.so.1", "{}/plugin.so"),
    ("opened", "inside_linked", "-", "{}/plugin_linked.so"),
    ("opened", "inside_linked", "-", "{}/plugin_rpath.so"),
    ("opened", "inside_deepbind", "libcuda.so.1", "{}/plugin.so"),
]
# A dlsym that is not ours, together with a handle that our SONAME did not answer for.
PASSED = [
    ("opened", "dlvsym", "{}/libcuda.so.1"),
    ("opened", "inside_deepbind", "{}/libcuda.so.1", "{}/plugin.so"),
    ("opened", "inside_dlmopen", "{}/libcuda.so.1", "{}/plugin.so"),
]


def arguments(probes: Probes, way: tuple[str, ...]) -> list[str]:
    return [part.format(probes.directory) for part in way]
