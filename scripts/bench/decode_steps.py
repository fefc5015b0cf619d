"""Steps of a PyTorch decoding loop at batch 1, for gpu_times.py: decode_steps.py STEPS [--cupti]

With --cupti the last line of output is a JSON object: kernel to the durations in ns that torch.profiler saw.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests" / "frameworks"))

from llama import decoding


@torch.inference_mode()
def main() -> None:
    step = decoding()

    def run(steps: int) -> None:
        for _ in range(steps):
            step()
        torch.cuda.synchronize()

    run(3)
    if "--cupti" not in sys.argv:
        run(int(sys.argv[1]))
        return
    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        run(int(sys.argv[1]))
    times: dict[str, list[int]] = defaultdict(list)
    for event in profiled.profiler.kineto_results.events():
        if event.device_type() == torch.autograd.DeviceType.CUDA and not event.name().startswith(("Memcpy", "Memset")):
            times[event.name()].append(event.duration_ns())
    print(json.dumps(times))


main()
