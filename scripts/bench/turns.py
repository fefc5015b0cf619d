"""A worker of launch_overhead.py: PyTorch programs whose host side is the bottleneck, run a batch at a time.

    turns.py decode|micro STEPS

Says "ready" once warm; for each line on standard input runs STEPS steps and prints how long they took, in seconds. All
workers use one and the same CPU, as only one has a turn at a time.
"""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests" / "frameworks"))

from llama import Shape, build

WARM_STEPS = 3


def decode() -> Callable[[], None]:
    """One token at batch 1 through 16 layers, eager."""
    model = build(Shape())
    token = torch.full((1, 1), 5, device="cuda")
    position = torch.zeros(1, dtype=torch.long, device="cuda")

    def step() -> None:
        logits = model(token, position)
        token.copy_(logits.argmax(-1, keepdim=True))
        position.add_(1).remainder_(model.shape.context)

    return step


def micro() -> Callable[[], None]:
    """100 additions to a small vector: nothing but launches."""
    vector = torch.zeros(1024, device="cuda")

    def step() -> None:
        for _ in range(100):
            vector.add_(1.0)

    return step


@torch.inference_mode()
def main() -> None:
    step, steps = {"decode": decode, "micro": micro}[sys.argv[1]](), int(sys.argv[2])
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
