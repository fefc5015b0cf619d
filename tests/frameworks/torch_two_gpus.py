"""PyTorch, one process with two GPUs: NCCL, peer copies, events across devices."""

import torch
from common import Digest, torch_main


def run(digest: Digest) -> None:
    inputs = [torch.randn(1 << 20, device=f"cuda:{i}") for i in range(torch.cuda.device_count())]
    torch.cuda.nccl.all_reduce(inputs)
    digest.add_tensors(*inputs)
    there = inputs[0].to("cuda:1", non_blocking=True)
    with torch.cuda.device(1):
        doubled = there * 2
        event = torch.cuda.Event()
        event.record()
    torch.cuda.current_stream(0).wait_event(event)
    digest.add_tensors(doubled.to("cuda:0"), there)
    replicas = torch.nn.parallel.replicate(torch.nn.Linear(64, 64).cuda(0), [0, 1])
    outputs = torch.nn.parallel.parallel_apply(replicas, [x[:64] for x in inputs])
    digest.add_tensors(*outputs)


torch_main(run)
