"""A worker of scripts/bench/serve: a server in PyTorch, a batch of requests for each thread at a time.

    serve_worker.py THREADS REQUESTS LAYERS LENGTH [THREAD...]

Threads with a stream each answer requests of LENGTH tokens with one Llama (4,096 wide) that they share; each awaits its
answer before the next. Says "ready" once warm; for each line on standard input every thread answers REQUESTS requests,
and the seconds that it took are printed. At the end of the input: the digests of the threads' last answers. THREAD:
only these run, out of THREADS, with the requests that they would have.
"""

import hashlib
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor, nn
from transformers import LlamaConfig, LlamaForCausalLM

WARM = 8
SHAPE = {"hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8}


def model(layers: int) -> nn.Module:
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        made = LlamaForCausalLM(LlamaConfig(num_hidden_layers=layers, vocab_size=32000, **SHAPE)).eval()
    torch.set_default_dtype(torch.float32)
    return made


class Thread:
    """A client's thread: its stream and its request."""

    def __init__(self, server: nn.Module, tokens: Tensor) -> None:
        self.server, self.tokens = server, tokens
        self.stream = torch.cuda.Stream()
        self.answer = torch.empty(0)

    @torch.inference_mode()
    def requests(self, count: int) -> None:
        with torch.cuda.stream(self.stream):
            for _ in range(count):
                logits = self.server(self.tokens, use_cache=False, logits_to_keep=1).logits
                self.stream.synchronize()
            self.answer = logits.float().cpu()

    def digest(self) -> str:
        return hashlib.sha256(self.answer.numpy().tobytes()).hexdigest()[:16]


def main() -> None:
    count, requests, layers, length, *only = map(int, sys.argv[1:])
    server = model(layers)
    tokens = [torch.randint(0, 1000, (1, length), device="cuda") for _ in range(count)]
    torch.cuda.synchronize()
    threads = [Thread(server, tokens[place]) for place in only or range(count)]
    with ThreadPoolExecutor(len(threads)) as pool:

        def batch(each: int) -> None:
            for done in [pool.submit(thread.requests, each) for thread in threads]:
                done.result()

        batch(WARM)
        print("ready", flush=True)
        for _ in sys.stdin:
            started = time.perf_counter()
            batch(requests)
            print(time.perf_counter() - started, flush=True)
    print(json.dumps([thread.digest() for thread in threads]), flush=True)


main()
