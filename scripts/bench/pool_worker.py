"""A worker of scripts/bench/pool and spill: a Llama-shaped model of any size, for one GPU or spread by accelerate.

    pool_worker.py cuda|map|managed:LIBRARY LAYERS WIDTH INTERMEDIATE TOKENS ROUNDS [DECODED [captured]]

cuda: an unmodified program for one GPU, `.to("cuda")` and no more. map: accelerate's device_map over the GPUs that it
sees. managed: as cuda, with the allocator of a library (managed_allocator.c). Weights are random, and made on the GPU;
the same in all. DECODED: tokens after a prefill (16). captured: also a decoding step as a CUDA graph, launched as
often. Says on standard error how far it is. Prints JSON: seconds of a prefill, of eight without synchronising in
between, of a decoded token, of a captured step (each as often as there are rounds), with `map` also the sums of the
layers' own times in a prefill and for a token, and a digest of all results.
"""

import hashlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

HEADS, KV_HEADS, VOCABULARY = 64, 8, 32000
REQUESTS, DECODED, WARM = 8, 16, 1


@dataclass(frozen=True, slots=True)
class Shape:
    layers: int
    width: int
    intermediate: int
    tokens: int
    decoded: int

    @property
    def head(self) -> int:
        return self.width // HEADS


class Norm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width))

    def forward(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x, (x.shape[-1],), self.weight, 1e-6)


class Layer(nn.Module):
    """Its cache has a fixed size; a prefill fills it from the beginning."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.head = shape.head
        self.before, self.after = Norm(shape.width), Norm(shape.width)
        self.q = nn.Linear(shape.width, shape.width, bias=False)
        self.k = nn.Linear(shape.width, KV_HEADS * shape.head, bias=False)
        self.v = nn.Linear(shape.width, KV_HEADS * shape.head, bias=False)
        self.o = nn.Linear(shape.width, shape.width, bias=False)
        self.gate = nn.Linear(shape.width, shape.intermediate, bias=False)
        self.up = nn.Linear(shape.width, shape.intermediate, bias=False)
        self.down = nn.Linear(shape.intermediate, shape.width, bias=False)
        cache = torch.empty(1, KV_HEADS, shape.tokens + shape.decoded + 8, shape.head)
        self.register_buffer("keys", cache)
        self.register_buffer("values", cache.clone())

    def forward(self, x: Tensor, at: int) -> Tensor:
        length = x.shape[1]
        normed = self.before(x)
        q = self.q(normed).view(1, length, HEADS, self.head).transpose(1, 2)
        k = self.k(normed).view(1, length, KV_HEADS, self.head).transpose(1, 2)
        v = self.v(normed).view(1, length, KV_HEADS, self.head).transpose(1, 2)
        self.keys[:, :, at : at + length] = k
        self.values[:, :, at : at + length] = v
        keys, values = self.keys[:, :, : at + length], self.values[:, :, : at + length]
        attended = functional.scaled_dot_product_attention(q, keys, values, is_causal=length > 1, enable_gqa=True)
        x = x + self.o(attended.transpose(1, 2).reshape(1, length, -1))
        normed = self.after(x)
        return x + self.down(functional.silu(self.gate(normed)) * self.up(normed))


class Model(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, shape.width)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = Norm(shape.width)
        self.out = nn.Linear(shape.width, VOCABULARY, bias=False)

    def forward(self, tokens: Tensor, at: int) -> Tensor:
        """Logits of the last position."""
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, at)
        return self.out(self.norm(x[:, -1:]))


def fill(module: nn.Module, number: int) -> None:
    """The same numbers on whatever GPU it is."""
    for place, each in enumerate([*module.parameters(), *module.buffers()]):
        source = torch.Generator(each.device).manual_seed(1000 * number + place)
        with torch.no_grad():
            each.normal_(0, 0.02, generator=source) if each.dim() > 1 else each.fill_(1)


def parts_of(model: Model) -> dict[str, nn.Module]:
    layers = {f"layers.{number}": layer for number, layer in enumerate(model.layers)}
    return {"embedding": model.embedding, **layers, "norm": model.norm, "out": model.out}


def build(where: str, shape: Shape) -> Model:
    with torch.device("meta"):
        model = Model(shape).to(torch.bfloat16).eval()
    parts = parts_of(model)
    places: dict[str, str | int] = dict.fromkeys(parts, "cuda")
    if where == "map":
        from accelerate import infer_auto_device_map

        share = 1.02 * sum(each.numel() * 2 for each in model.parameters()) / torch.cuda.device_count()
        room = {gpu: int(share) for gpu in range(torch.cuda.device_count())}
        room[torch.cuda.device_count() - 1] *= 2
        places = infer_auto_device_map(model, max_memory=room, no_split_module_classes=["Layer"])
    for number, (name, part) in enumerate(parts.items()):
        part.to_empty(device=places.get(name, places.get("")))  # "": all, where there is one GPU
        fill(part, number)
    if where == "map":
        from accelerate import dispatch_model

        model = dispatch_model(model, places)
    return model


def synchronize() -> None:
    for gpu in range(torch.cuda.device_count()):
        torch.cuda.synchronize(gpu)


def timed(name: str, run: Callable[[], Tensor], rounds: int) -> tuple[list[float], Tensor]:
    seconds, result = [], torch.empty(0)
    for number in range(WARM + rounds):
        print(f"{name}: {number + 1} of {WARM + rounds}", file=sys.stderr, flush=True)
        synchronize()
        started = time.perf_counter()
        result = run()
        synchronize()
        if number >= WARM:
            seconds.append(time.perf_counter() - started)
    return seconds, result


def own_times(model: Model, shape: Shape, tokens: int, at: int) -> float:
    """Seconds that all layers take by themselves for so many tokens, each on its GPU."""
    total, times = 0.0, 4
    for layer in model.layers:
        device = layer.q.weight.device
        with torch.cuda.device(device):
            x = torch.randn(1, tokens, shape.width, dtype=torch.bfloat16, device=device)
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            layer(x, at)
            begin.record()
            for _ in range(times):
                layer(x, at)
            end.record()
            end.synchronize()
            total += begin.elapsed_time(end) / 1e3 / times
    return total


def captured(model: Model, shape: Shape, first: Tensor, rounds: int) -> dict[str, object]:
    """A step whose token is the next one's, at one place of the cache, as a graph and eagerly."""
    token, steps = first.clone(), max(shape.decoded, 1)

    def step() -> Tensor:
        logits = model(token, shape.tokens)
        token.copy_(logits.argmax(-1))
        return logits

    graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.stream(side):
        step()
    side.synchronize()
    with torch.cuda.graph(graph):
        logits = step()

    def replay() -> Tensor:
        token.copy_(first)
        for _ in range(steps):
            graph.replay()
        return logits

    seconds, result = timed("captured", replay, rounds)
    result = result.clone()
    token.copy_(first)
    for _ in range(steps):
        eager = step()
    return {"captured_s": [each / steps for each in seconds], "captured_is_eager": torch.equal(result, eager)}


@torch.inference_mode()
def main() -> None:
    where, shape, rounds = (
        sys.argv[1],
        Shape(*map(int, sys.argv[2:6]), int((sys.argv[7:] or [DECODED])[0])),
        int(sys.argv[6]),
    )
    torch.backends.cuda.enable_cudnn_sdp(False)  # what it gives for one token differs from run to run
    if where.startswith("managed:"):
        library = where.removeprefix("managed:")
        allocator = torch.cuda.memory.CUDAPluggableAllocator(library, "managed_malloc", "managed_free")
        torch.cuda.memory.change_current_allocator(allocator)
    model = build(where, shape)
    source = torch.Generator("cuda").manual_seed(7)
    inputs = [torch.randint(0, VOCABULARY, (1, shape.tokens), device="cuda", generator=source) for _ in range(REQUESTS)]

    def decode() -> Tensor:
        token, results = model(inputs[0], 0).argmax(-1), []
        for step in range(shape.decoded):
            logits = model(token, shape.tokens + step)
            token = logits.argmax(-1)
            results.append(logits)
        return torch.cat(results)

    if not where.startswith("managed:"):
        model(inputs[0], 0)
        synchronize()  # a pool divides memory among its GPUs when the program has waited
    prefill_s, first = timed("prefill", lambda: model(inputs[0], 0), rounds)
    eight_s, eight = timed("eight requests", lambda: torch.cat([model(each, 0) for each in inputs]), rounds)
    decode_s, decoded = timed("decoding", decode, rounds)
    more = captured(model, shape, first.argmax(-1), rounds) if "captured" in sys.argv[8:] else {}
    digest = hashlib.sha256()
    for result in (first, eight, decoded):
        digest.update(result.float().cpu().numpy().tobytes())
    said: dict[str, object] = {
        "bytes": sum(each.numel() * 2 for each in model.parameters()),
        "prefill_s": prefill_s,
        "eight_s": eight_s,
        "decode_s": [(all_s - statistics.median(prefill_s)) / shape.decoded for all_s in decode_s],
        "digest": digest.hexdigest()[:16],
        **more,
    }
    if where == "map":
        said["layers_s"] = own_times(model, shape, shape.tokens, 0)
        said["layers_token_s"] = own_times(model, shape, 1, shape.tokens)
    print(json.dumps(said), flush=True)


main()
