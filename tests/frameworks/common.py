"""What the framework programs share: a digest of all results, and CUPTI's count of kernels (--cupti, PyTorch only).

A program prints one line of JSON: `digest`, and with --cupti `kernels`.
"""

import argparse
import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np


class Digest:
    """SHA-256 over type, shape and bytes of everything added, in order."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def add(self, *arrays) -> None:
        for array in arrays:
            host = np.ascontiguousarray(array)
            self._hash.update(f"{host.dtype}{host.shape}".encode())
            self._hash.update(host.tobytes())

    def add_tensors(self, *tensors) -> None:
        import torch

        for tensor in tensors:
            host = tensor.detach().cpu().contiguous().flatten()
            self.add(host.view(torch.uint8).numpy())

    def text(self) -> str:
        return self._hash.hexdigest()[:32]


def main(run: Callable[[Digest], None]) -> None:
    """A program without PyTorch."""
    digest = Digest()
    run(digest)
    print(json.dumps({"digest": digest.text()}))


def torch_main(run: Callable[[Digest], None]) -> None:
    """A PyTorch program with fixed seeds and algorithms."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cupti", action="store_true")
    arguments = parser.parse_args()
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    import torch

    torch.use_deterministic_algorithms(True, warn_only=True)
    digest = Digest()
    answer: dict[str, object] = {}
    if arguments.cupti:
        answer["kernels"] = kernels_seen_by_cupti(lambda: run(digest))
    else:
        torch.manual_seed(0)
        run(digest)
        torch.cuda.synchronize()
    print(json.dumps({"digest": digest.text(), **answer}))


def kernels_seen_by_cupti(run: Callable[[], None]) -> int:
    """Kernels of the whole program: profiling begins before the first call that uses a GPU."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        torch.manual_seed(0)
        run()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as place:
        file = Path(place, "trace.json")
        profiler.export_chrome_trace(str(file))
        events = json.loads(file.read_text())["traceEvents"]
    return sum(event.get("cat") == "kernel" for event in events)
