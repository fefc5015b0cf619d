"""PyTorch, threads: each has a stream of its own, waits for the other's events, and ends while others work."""

import threading

import torch
from common import Digest, torch_main

THREADS, ROUNDS = 6, 20


def work(number: int, results: list[torch.Tensor | None], started: torch.cuda.Event) -> None:
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        stream.wait_event(started)
        generator = torch.Generator("cuda").manual_seed(number)
        x = torch.randn(256, 256, device="cuda", generator=generator)
        for _ in range(ROUNDS):
            x = torch.nn.functional.normalize(x @ x.t(), dim=-1) + x
        results[number] = x.sum(0)
    stream.synchronize()


def run(digest: Digest) -> None:
    for _ in range(3):
        started = torch.cuda.Event()
        started.record()
        results: list[torch.Tensor | None] = [None] * THREADS
        threads = [threading.Thread(target=work, args=(i, results, started)) for i in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        digest.add_tensors(*(result for result in results if result is not None))


torch_main(run)
