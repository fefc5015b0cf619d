"""A worker of scripts/bench/serve: a server in PyTorch, a batch of requests for each thread at a time.

    serve_worker.py prefill|compiled|captured THREADS REQUESTS LAYERS LENGTH [THREAD...]

Threads with a stream each answer requests of LENGTH tokens with one Llama (4,096 wide) that they share; each awaits its
answer before the next. compiled: each has compiled it with mode="reduce-overhead", so that a request is a launch of a
CUDA graph that PyTorch made. captured: a request is LENGTH steps of decoding for 32 sequences, each a launch of the
thread's graph. Says "ready" once warm; for each line on standard input every thread answers REQUESTS requests,
and the seconds that it took are printed. At the end of the input: the digests of the threads' last answers. THREAD:
only these run, out of THREADS, with the requests that they would have.
"""

import hashlib
import json
import sys
import threading
import time
import types
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "frameworks"))

from llama import Llama, build
from llama import Shape as LlamaShape

WARM = {"prefill": 8, "compiled": 8, "captured": 2}  # requests
COMPILING = 3  # requests until a compiled one is a launch of a graph
BATCH, CONTEXT = 32, 512  # of decoding
SHAPE = {"hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8}


def model(layers: int) -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        made = LlamaForCausalLM(LlamaConfig(num_hidden_layers=layers, vocab_size=32000, **SHAPE)).eval()
    torch.set_default_dtype(torch.float32)
    return made


def prefill(server: nn.Module, tokens: Tensor) -> Tensor:
    said: Tensor = server(tokens, use_cache=False, logits_to_keep=1).logits
    return said


class Thread:
    """A client's thread: its stream and its request."""

    def __init__(self, server: nn.Module, tokens: Tensor) -> None:
        self.server, self.tokens = server, tokens
        self.stream = torch.cuda.Stream()
        self.answer = torch.empty(0)
        self.pool = ThreadPoolExecutor(1)

    def prepare(self) -> None:
        """On its thread, while no other one works."""

    def logits(self) -> Tensor:
        return prefill(self.server, self.tokens)

    @torch.inference_mode()
    def requests(self, count: int) -> None:
        with torch.cuda.stream(self.stream):
            for _ in range(count):
                logits = self.logits()
                self.stream.synchronize()
            self.answer = logits.float().cpu()

    def digest(self) -> str:
        return hashlib.sha256(self.answer.numpy().tobytes()).hexdigest()[:16]


class Compiled(Thread):
    """Its own compilation: PyTorch shares what it compiled of one code, and the graph of that, among all threads."""

    def prepare(self) -> None:
        from torch._inductor import cudagraph_trees

        cudagraph_trees.local.tree_manager_containers = {}  # PyTorch makes them for its first thread only
        cudagraph_trees.local.tree_manager_locks = defaultdict(threading.Lock)
        code = prefill.__code__.replace(co_name=f"prefill_{id(self)}")
        own = types.FunctionType(code, prefill.__globals__)
        self.compiled: Callable[[nn.Module, Tensor], Tensor] = torch.compile(own, mode="reduce-overhead")
        self.requests(COMPILING)

    def logits(self) -> Tensor:
        return self.compiled(self.server, self.tokens)


class Decoding(Thread):
    """Its own cache, and a graph of a step over it."""

    def __init__(self, server: Llama, number: int, steps: int) -> None:
        super().__init__(server, torch.full((BATCH, 1), 5 + number, device="cuda"))
        self.steps, self.position = steps, torch.zeros(1, dtype=torch.long, device="cuda")
        self.caches = [(torch.zeros_like(layer.keys), torch.zeros_like(layer.values)) for layer in server.layers]
        for layer, (keys, values) in zip(server.layers, self.caches, strict=True):
            layer.keys, layer.values = keys, values
        torch.cuda.synchronize()
        with torch.inference_mode(), torch.cuda.stream(self.stream):
            self._step()
            self.stream.synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, stream=self.stream):
                self.said = self._step()

    def _step(self) -> Tensor:
        logits = self.server(self.tokens, self.position)
        self.tokens.copy_(logits.argmax(-1, keepdim=True))
        self.position.add_(1).remainder_(CONTEXT)
        return logits

    @torch.inference_mode()
    def requests(self, count: int) -> None:
        with torch.cuda.stream(self.stream):
            for _ in range(count):
                for _ in range(self.steps):
                    self.graph.replay()
                self.stream.synchronize()
            self.answer = self.said.float().cpu()


def prefills(kind: type[Thread], count: int, layers: int, length: int, only: list[int]) -> list[Thread]:
    server = model(layers)
    tokens = [torch.randint(0, 1000, (1, length), device="cuda") for _ in range(count)]
    torch.cuda.synchronize()
    return [kind(server, tokens[place]) for place in only]


def decodings(layers: int, steps: int, only: list[int]) -> list[Thread]:
    names = {"hidden": 4096, "heads": 32, "kv_heads": 8, "intermediate": 14336}
    server = build(LlamaShape(layers=layers, context=CONTEXT, batch=BATCH, **names))
    return [Decoding(server, number, steps) for number in only]


def main() -> None:
    what, (count, requests, layers, length, *only) = sys.argv[1], map(int, sys.argv[2:])
    chosen = only or list(range(count))
    threads: Sequence[Thread]
    if what == "captured":
        threads = decodings(layers, length, chosen)
    else:
        threads = prefills(Compiled if what == "compiled" else Thread, count, layers, length, chosen)
    for thread in threads:
        thread.pool.submit(thread.prepare).result()

    def batch(each: int) -> None:
        for done in [thread.pool.submit(thread.requests, each) for thread in threads]:
            done.result()

    batch(WARM[what])
    print("ready", flush=True)
    for _ in sys.stdin:
        started = time.perf_counter()
        batch(requests)
        print(time.perf_counter() - started, flush=True)
    print(json.dumps([thread.digest() for thread in threads]), flush=True)


main()
