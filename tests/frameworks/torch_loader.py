"""PyTorch, children: loader processes made by fork, and processes made by spawn that use the GPU themselves."""

import torch
from common import Digest, torch_main
from torch.utils.data import DataLoader, TensorDataset


def child(number: int, queue) -> None:
    torch.manual_seed(number)
    queue.put(torch.randn(1000, device="cuda").sort().values.cpu().tolist())


def run(digest: Digest) -> None:
    images = torch.arange(64 * 12, dtype=torch.float32).view(64, 12)
    for (batch,) in DataLoader(TensorDataset(images), batch_size=8, num_workers=2, pin_memory=True):
        digest.add_tensors((batch.cuda(non_blocking=True) * 3).sum(0))
    context = torch.multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    for number in range(2):
        process = context.Process(target=child, args=(number, queue))
        process.start()
        digest.add_tensors(torch.tensor(queue.get()))
        process.join()


if __name__ == "__main__":
    torch_main(run)
