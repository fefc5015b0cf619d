"""What the generated wrapper of a driver function has to do besides forwarding, by class and signature.

Joining: whatever an application enqueues at home, or waits for, must come after the launches of the same stream that
run elsewhere. So each function with a stream joins that stream first, and each copy or memset without one joins them
all; afterwards the error of an executor that failed meanwhile is the answer.
"""

import re

from interpose.api.header import Prototype
from interpose.api.table import Row

STREAM = re.compile(r"\bCUstream (\w+)$")
NO_JOIN = re.compile(
    r"cuStreamGet|cuStreamIsCapturing|cuStreamSetAttribute|cuStreamCopyAttributes|cuStreamUpdateCapture|cuMemPool|cuStreamAttachMem"
)
JOIN_ALL = {"cuCtxSynchronize", "cuCtxSynchronize_v2", "cuCtxDestroy_v2", "cuCtxRecordEvent", "cuCtxWaitEvent"}
JOIN_ALL |= {"cuDevicePrimaryCtxReset_v2", "cuDevicePrimaryCtxRelease_v2"}
JOIN_ALL |= {"cuMemFreeHost", "cuMemHostUnregister", "cuMemUnmap", "cuMemRelease"}


def stream_of(prototype: Prototype) -> str | None:
    """Name of the first parameter that is a stream, if there is one."""
    for parameter in prototype.parameters.split(","):
        match = STREAM.search(parameter.strip())
        if match:
            return match[1]
    return None


def join_of(row: Row, prototype: Prototype) -> str | None:
    """The expression that joins, or None when the function needs none."""
    if NO_JOIN.match(row.symbol):
        return None
    stream = stream_of(prototype)
    if stream:
        per_thread = "true" if row.base else "false"
        return f"tsr_order_join({stream}, {per_thread})"
    if row.group in ("copy", "memset") or row.symbol in JOIN_ALL or (row.base or "") in JOIN_ALL:
        return "tsr_order_join_all()"
    return None
