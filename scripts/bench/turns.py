"""A worker of launch_overhead.py and prefill.py: PyTorch programs, run a batch at a time.

    turns.py decode|micro|prefill STEPS

Says "ready" once warm; for each line on standard input runs STEPS steps and prints how long they took, in seconds. All
workers use one and the same CPU, as only one has a turn at a time. The host side of decode and micro is the bottleneck;
prefill keeps a GPU busy.
"""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests" / "frameworks"))

from llama import Shape, build, decoding

WARM_STEPS = 3


def micro() -> Callable[[], None]:
    """100 additions to a small vector: nothing but launches."""
    vector = torch.zeros(1024, device="cuda")

    def step() -> None:
        for _ in range(100):
            vector.add_(1.0)

    return step


def prefill() -> Callable[[], None]:
    """A request of 2048 tokens through 16 layers of a 7B model's size; its answer is awaited."""
    length = 2048
    model = build(Shape(hidden=4096, heads=32, kv_heads=8, intermediate=14336, context=length))
    tokens = torch.arange(length, device="cuda")[None] % model.shape.vocabulary
    position = torch.arange(length, device="cuda")

    def step() -> None:
        model(tokens, position).argmax(-1).item()

    return step


@torch.inference_mode()
def main() -> None:
    step, steps = {"decode": decoding, "micro": micro, "prefill": prefill}[sys.argv[1]](), int(sys.argv[2])
    for _ in range(20):
        step()
    torch.cuda.synchronize()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print("ready", flush=True)
    for _ in sys.stdin:
        for _ in range(WARM_STEPS):
            step()
        torch.cuda.synchronize()
        started = time.perf_counter()
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
        print(time.perf_counter() - started, flush=True)


main()
