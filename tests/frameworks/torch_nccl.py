"""PyTorch and NCCL: two processes, a GPU each, through every collective."""

import json
import tempfile
from pathlib import Path

import torch
import torch.distributed as distributed
from common import Digest


def rank(number: int, count: int, place: str) -> None:
    torch.cuda.set_device(number)
    distributed.init_process_group("nccl", init_method=f"file://{place}/store", rank=number, world_size=count)
    torch.manual_seed(number)
    digest = Digest()
    for size in (10, 4096, 1 << 22):
        x = torch.randn(size * count, device="cuda")
        total = x.clone()
        distributed.all_reduce(total)
        parts = [torch.empty_like(x) for _ in range(count)]
        distributed.all_gather(parts, x)
        piece = torch.empty(size, device="cuda")
        distributed.reduce_scatter_tensor(piece, x)
        swapped = torch.empty_like(x)
        distributed.all_to_all_single(swapped, x)
        distributed.broadcast(x, 1)
        digest.add_tensors(total, *parts, piece, swapped, x)
    torch.cuda.synchronize()
    Path(place, str(number)).write_text(digest.text())
    distributed.destroy_process_group()


def main() -> None:
    count = torch.cuda.device_count()
    with tempfile.TemporaryDirectory() as place:
        torch.multiprocessing.spawn(rank, (count, place), nprocs=count)
        texts = [Path(place, str(number)).read_text() for number in range(count)]
    print(json.dumps({"digest": "-".join(texts)}))


if __name__ == "__main__":
    main()
