"""Whose machine code may be disassembled. NVIDIA's closed libraries come with a licence that may forbid it."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import PurePath

_CLOSED = re.compile(
    r"(?:lib)?(?:cublas|cudnn|cufft|cusparse|cusolver|cutensor|curand|cudss|nccl|nvinfer|nvonnxparser|nvjpeg|nvjitlink|"
    r"nvrtc|nvshmem|npp[a-z]*|cutensornet|custatevec|cudensitymat|nvtiff|nvcomp|nvvm)"
    r"(?:lt|mg|mp|xt|w)?(?:[-_.\d].*)?\Z",
    re.IGNORECASE,
)


class Consent(Enum):
    """OPEN: everything but NVIDIA's closed libraries."""

    OPEN = "open"
    ALL = "all"
    NONE = "none"


def is_closed(source: str) -> bool:
    """Whether a file is one of NVIDIA's closed libraries, by its name."""
    return _CLOSED.match(PurePath(source).name) is not None


def may_disassemble(consent: Consent, source: str) -> bool:
    """Whether machine code that lies in the file `source`, "" when it is not known, may be disassembled."""
    return consent is Consent.ALL or (consent is Consent.OPEN and not is_closed(source))
