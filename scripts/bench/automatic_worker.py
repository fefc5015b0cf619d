"""A worker of scripts/bench/automatic: a program of tests/frameworks/independent.py's kind, some units at a time.

    automatic_worker.py PROGRAM UNITS

One thread and the default stream. Says "ready" once warm; for each line on standard input it runs UNITS requests, or
steps, one after another, waits for the last, and prints the seconds that they took. At the end of the input: a digest
of the results for each time.
"""

import hashlib
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "frameworks"))

from independent import placed
from llama import Shape as LlamaShape
from llama import build as build_llama
from mmdit import DiffusionTransformer, Shape
from zoo import llama, random, tokens

WARM = 6
IMAGES = 4


def made(make: Callable[[], nn.Module]) -> nn.Module:
    """With weights that the GPU draws, which takes it a second and a CPU half a minute."""
    with torch.device("cuda"):
        return placed(make())


def requests(units: int) -> Callable[[], Tensor]:
    """A Llama of 16 layers, 2,048 tokens a request; results stay on the GPU."""
    model = made(lambda: llama(16))
    inputs = [tokens(1, 2048, 32000) for _ in range(units)]
    return lambda: torch.stack([model(some, use_cache=False, logits_to_keep=1).logits for some in inputs])


def guidance(units: int) -> Callable[[], Tensor]:
    """Steps of a diffusion transformer with two branches, with the prompt and without; some images at a time."""
    shape = Shape(layers=12)
    model = made(lambda: DiffusionTransformer(shape))
    latent = random(IMAGES, shape.channels, shape.side, shape.side)
    prompts = [(random(IMAGES, 154, shape.text_width), random(IMAGES, shape.pooled_width)) for _ in range(2)]
    times = torch.linspace(1000, 0, units + 1, device="cuda")[:, None].expand(-1, IMAGES)

    def run() -> Tensor:
        image = latent
        for step in range(units):
            with_prompt, without = (model(image, *prompt, times[step]) for prompt in prompts)
            image = image + (without + 5.0 * (with_prompt - without)) / units
        return image

    return run


@dataclass(frozen=True, slots=True)
class Captured:
    """result: where it lies; uses: what the graph reads, and nobody else may keep."""

    graph: torch.cuda.CUDAGraph
    result: Tensor
    uses: tuple[object, ...]


def captured(run: Callable[[], Tensor], *uses: object) -> Captured:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        run()
    side.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = run()
    return Captured(graph, result, uses)


def captured_guidance(units: int) -> Callable[[], Tensor]:
    """As guidance; each branch is a CUDA graph."""
    shape = Shape(layers=12)
    model = made(lambda: DiffusionTransformer(shape))
    latent = random(IMAGES, shape.channels, shape.side, shape.side)
    prompts = [(random(IMAGES, 154, shape.text_width), random(IMAGES, shape.pooled_width)) for _ in range(2)]
    times = torch.linspace(1000, 0, units + 1, device="cuda")[:, None].expand(-1, IMAGES).contiguous()
    image, time_now = latent.clone(), times[0].clone()
    with_prompt, without = (
        captured(lambda prompt=prompt: model(image, *prompt, time_now), model, prompt) for prompt in prompts
    )

    def run() -> Tensor:
        image.copy_(latent)
        for step in range(units):
            time_now.copy_(times[step])
            with_prompt.graph.replay()
            without.graph.replay()
            image.add_((without.result + 5.0 * (with_prompt.result - without.result)) / units)
        return image.clone()

    return run


def captured_decode(units: int) -> Callable[[], Tensor]:
    """One launch of a graph after another, each a token: a chain, which no second GPU makes faster."""
    model = build_llama(LlamaShape())
    token, position = tokens(1, 1, 32000), torch.zeros(1, dtype=torch.long, device="cuda")

    def step() -> Tensor:
        logits = model(token, position)
        token.copy_(logits.argmax(-1, keepdim=True))
        position.add_(1).remainder_(model.shape.context)
        return logits

    one = captured(step, model, token, position)

    def run() -> Tensor:
        for _ in range(8 * units):
            one.graph.replay()
        return one.result.clone()

    return run


def decode(units: int) -> Callable[[], Tensor]:
    """One token after another: a chain, which no second GPU makes faster."""
    model, token = made(llama), tokens(1, 1, 32000)

    def run() -> Tensor:
        last, cache = token, None
        for _ in range(units):
            out = model(last, past_key_values=cache, use_cache=True)
            last, cache = out.logits[:, -1:].argmax(-1), out.past_key_values
        return last

    return run


def ensemble(units: int) -> Callable[[], Tensor]:
    """Four ResNet-50, of which each sees all batches; the host takes about as long as a GPU."""
    from transformers import ResNetConfig, ResNetForImageClassification

    models = [made(lambda: ResNetForImageClassification(ResNetConfig())).half() for _ in range(4)]
    batches = [random(16, 3, 224, 224).half() for _ in range(units)]
    return lambda: torch.stack([torch.stack([model(batch).logits for model in models]).mean(0) for batch in batches])


def trained(model: nn.Module, loss_of: Callable[[int], Tensor], units: int) -> Callable[[], Tensor]:
    """Steps of the optimiser; the results are the losses."""
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)

    def run() -> Tensor:
        losses = []
        for number in range(units):
            loss = loss_of(number)
            loss.backward()
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
            losses.append(loss.detach())
        return torch.stack(losses)

    return run


def training(units: int) -> Callable[[], Tensor]:
    """Of a GPT-2 of 8 layers. Its attention is PyTorch's own: the gradients of the fused one differ from run to run."""
    from transformers import GPT2Config, GPT2LMHeadModel

    shape = {"n_layer": 8, "n_embd": 1024, "n_head": 16, "attn_pdrop": 0.0, "resid_pdrop": 0.0, "embd_pdrop": 0.0}
    model = GPT2LMHeadModel(GPT2Config(**shape, attn_implementation="eager")).to("cuda", torch.bfloat16).train()
    batches = [tokens(8, 512, 50000) for _ in range(units)]
    return trained(model, lambda number: model(input_ids=batches[number], labels=batches[number]).loss, units)


def resnet_training(units: int) -> Callable[[], Tensor]:
    """Of a ResNet-50."""
    from transformers import ResNetConfig, ResNetForImageClassification

    model = ResNetForImageClassification(ResNetConfig()).to("cuda", torch.bfloat16).train()
    images, labels = random(32, 3, 224, 224), torch.arange(32, device="cuda") % 2
    return trained(model, lambda _: nn.functional.cross_entropy(model(images).logits.float(), labels), units)


def pipeline(units: int) -> Callable[[], Tensor]:
    """A diffusers pipeline of the Wan class, 12 layers, with guidance: from embedded prompts to latents of 33 frames.

    Of 17 frames the host takes about as long as two GPUs: 28,800 launches for 20 steps.
    """
    from diffusers import AutoencoderKLWan, FlowMatchEulerDiscreteScheduler, WanPipeline, WanTransformer3DModel

    shape = {"num_attention_heads": 12, "ffn_dim": 8960, "num_layers": 12}
    model = made(lambda: WanTransformer3DModel(**shape))
    decoder = made(lambda: AutoencoderKLWan(base_dim=8, num_res_blocks=1))
    pipe = WanPipeline(None, None, decoder, FlowMatchEulerDiscreteScheduler(shift=3.0), model)
    pipe.set_progress_bar_config(disable=True)
    prompts = {name: random(1, 512, 4096) for name in ("prompt_embeds", "negative_prompt_embeds")}
    latents = random(1, 16, 9, 60, 104).float()
    size = {"height": 480, "width": 832, "num_frames": 33}
    return lambda: pipe(num_inference_steps=units, latents=latents, output_type="latent", **size, **prompts).frames


def jax_training(units: int) -> Callable[[], Tensor]:
    """JAX: steps of gradient descent on a perceptron, compiled."""
    os.environ["XLA_FLAGS"] = "--xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0"
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    import jax
    from jax import numpy as jnp

    keys = jax.random.split(jax.random.key(1), 10)
    state = [jax.random.normal(key, (4096, 4096), jnp.bfloat16) / 64 for key in keys[:8]]
    inputs, wanted = (jax.random.normal(key, (2048, 4096), jnp.bfloat16) for key in keys[8:])

    def loss_of(weights: list[jax.Array]) -> jax.Array:
        values = inputs
        for weight in weights:
            values = jax.nn.gelu(values @ weight)
        return jnp.mean((values - wanted).astype(jnp.float32) ** 2)

    @jax.jit
    def step(weights: list[jax.Array]) -> tuple[list[jax.Array], jax.Array]:
        loss, slopes = jax.value_and_grad(loss_of)(weights)
        return [weight - 0.01 * slope for weight, slope in zip(weights, slopes, strict=True)], loss

    def run() -> Tensor:
        weights, losses = state, []
        for _ in range(units):
            weights, loss = step(weights)
            losses.append(loss)
        return torch.tensor([float(loss) for loss in losses])

    return run


def fft(units: int) -> Callable[[], Tensor]:
    """CuPy: transforms of what the one before gave."""
    import cupy

    first = cupy.ones((8, 1024, 1024), dtype=cupy.complex64) * cupy.arange(1024, dtype=cupy.float32)

    def run() -> Tensor:
        values = first
        for _ in range(units):
            values = cupy.fft.fft2(values) / 1024
        cupy.cuda.get_current_stream().synchronize()
        return torch.from_dlpack(values.real)

    return run


PROGRAMS = {
    "requests": requests,
    "guidance": guidance,
    "ensemble": ensemble,
    "captured-guidance": captured_guidance,
    "captured-decode": captured_decode,
    "decode": decode,
    "training": training,
    "resnet-training": resnet_training,
    "fft": fft,
    "pipeline": pipeline,
    "jax-training": jax_training,
}
TRAIN = ("training", "resnet-training")


def work(run: Callable[[], Tensor]) -> None:
    for _ in range(WARM):
        run()
        torch.cuda.synchronize()
    print("ready", flush=True)
    results = []
    for _ in sys.stdin:
        started = time.perf_counter()
        results.append(run())
        torch.cuda.synchronize()
        print(time.perf_counter() - started, flush=True)
    print(
        " ".join(hashlib.sha256(each.float().cpu().numpy().tobytes()).hexdigest()[:8] for each in results), flush=True
    )


def main() -> None:
    program, units = sys.argv[1], int(sys.argv[2])
    torch.manual_seed(1)
    torch.backends.cudnn.deterministic = True
    with torch.inference_mode(program not in TRAIN):
        work(PROGRAMS[program](units))


main()
