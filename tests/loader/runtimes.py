"""The CUDA runtimes whose look-ups must all come through the shim, and where they are after scripts/lab runtimes."""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLACE = ROOT / "build" / "runtimes"


@dataclass(frozen=True, slots=True)
class Runtime:
    """A runtime in a wheel. `version` is the newest CUDA version that it asks for."""

    name: str
    package: str
    file: str  # in the wheel: a shared library, or an archive to link
    version: int
    start: str = "cudaFree"  # a function that starts it

    @property
    def is_archive(self) -> bool:
        return self.file.endswith(".a")


SHARED12, SHARED13 = "nvidia/cuda_runtime/lib/libcudart.so.12", "nvidia/cu13/lib/libcudart.so.13"
STATIC13, WITH_STATIC12 = "nvidia/cu13/lib/libcudart_static.a", "nvidia/nvjpeg/lib/libnvjpeg.so.12"

# PyPI has no wheel with the static runtime 12 by itself; nvJPEG's library of each release has it linked in.
RUNTIMES = (
    Runtime("shared 12.4", "nvidia-cuda-runtime-cu12==12.4.*", SHARED12, 12040),
    Runtime("shared 12.8", "nvidia-cuda-runtime-cu12==12.8.*", SHARED12, 12080),
    Runtime("shared 13.0", "nvidia-cuda-runtime==13.0.*", SHARED13, 13000),
    Runtime("shared newest", "nvidia-cuda-runtime", SHARED13, 13000),
    Runtime("static 12.4", "nvidia-nvjpeg-cu12==12.3.1.117", WITH_STATIC12, 12040, "nvjpegCreateSimple"),
    Runtime("static 12.8", "nvidia-nvjpeg-cu12==12.3.5.92", WITH_STATIC12, 12080, "nvjpegCreateSimple"),
    Runtime("static 13.0", "nvidia-cuda-runtime==13.0.*", STATIC13, 13000),
    Runtime("static newest", "nvidia-cuda-runtime", STATIC13, 13000),
)
# What the extra `test` installs.
INSTALLED = ("shared 12.8", "shared 13.0", "static 13.0")


def directory(runtime: Runtime) -> Path:
    """Where its wheel is unpacked."""
    return PLACE / runtime.package.replace("==", "-").rstrip(".*")
