"""PyTorch, torch.compile: kernels that Inductor writes in Triton, without and with CUDA graphs, and a training step."""

import torch
from common import Digest, torch_main
from torch.nn import functional


def gated(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    hidden = functional.layer_norm(x, (x.shape[-1],)) @ weight
    return functional.silu(hidden) * hidden.softmax(-1).cumsum(-1)


def run(digest: Digest) -> None:
    x = torch.randn(256, 512, device="cuda")
    weight = torch.randn(512, 512, device="cuda") / 32
    plain = torch.compile(gated)
    digest.add_tensors(plain(x, weight), plain(x * 2, weight))
    graphed = torch.compile(lambda a: (a.sin() + a.cos()).sum(-1), mode="reduce-overhead")
    for _ in range(6):
        digest.add_tensors(graphed(x).clone())
    trained = weight.clone().requires_grad_()
    plain(x, trained).square().mean().backward()
    digest.add_tensors(trained.grad)


torch_main(run)
