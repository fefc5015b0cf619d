"""The table of templates that the control plane publishes to the program, as test programs look at it."""

import mmap
import os
import struct
import time

PUBLISHED_OFFSET = 16  # in struct tsr_templates
WAIT_S = 60.0


def wait_for(count: int) -> None:
    """Until so many templates are published. Errors: TimeoutError."""
    with open(os.environ["TESSERA_TEMPLATES"], "rb") as file:  # noqa: PTH123
        table = mmap.mmap(file.fileno(), mmap.PAGESIZE, prot=mmap.PROT_READ)
    end = time.monotonic() + WAIT_S
    while struct.unpack_from("<I", table, PUBLISHED_OFFSET)[0] < count:
        if time.monotonic() > end:
            raise TimeoutError("no templates")
        time.sleep(0.01)
