"""PyTorch, eager: training steps, attention, sorting, scans, transforms, copies; cuBLAS, cuDNN, cuFFT."""

import torch
from common import Digest, torch_main
from torch import nn
from torch.nn import functional


def train(digest: Digest) -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.GroupNorm(4, 16),
        nn.GELU(),
        nn.Conv2d(16, 8, 3, stride=2),
        nn.BatchNorm2d(8),
        nn.Flatten(),
        nn.Linear(8 * 15 * 15, 64),
        nn.LayerNorm(64),
        nn.ReLU(),
        nn.Dropout(0.1),
        nn.Linear(64, 10),
    ).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(4):
        images, labels = torch.randn(32, 3, 32, 32, device="cuda"), torch.randint(10, (32,), device="cuda")
        loss = functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        digest.add_tensors(loss)
    digest.add_tensors(*model.parameters())


def attend(digest: Digest) -> None:
    for kind in (torch.bfloat16, torch.float32):
        q, k, v = (torch.randn(2, 8, 128, 64, device="cuda", dtype=kind) for _ in range(3))
        digest.add_tensors(functional.scaled_dot_product_attention(q, k, v, is_causal=True))
        digest.add_tensors(torch.matmul(q, k.transpose(-1, -2)).softmax(-1))


def rearrange(digest: Digest) -> None:
    x = torch.randn(100_000, device="cuda")
    numbers = torch.randint(1000, (100_000,), device="cuda")
    digest.add_tensors(x.sort().values, x.topk(100).values, numbers.cumsum(0), numbers.unique(), x[x > 0])
    digest.add_tensors(torch.fft.rfft(x[:65536]).abs(), torch.histc(x, 50), x.view(100, 1000).std(0))
    digest.add_tensors(torch.nonzero(numbers == 7), x.half().float(), torch.linalg.qr(x[:4096].view(64, 64)).Q)


def copy(digest: Digest) -> None:
    pinned = torch.arange(1 << 16, dtype=torch.float32).pin_memory()
    there = pinned.to("cuda", non_blocking=True)
    back = torch.empty_like(pinned).pin_memory()
    back.copy_(there * 2, non_blocking=True)
    torch.cuda.synchronize()
    digest.add_tensors(back, there.view(256, 256).t().contiguous())


def run(digest: Digest) -> None:
    for part in (train, attend, rearrange, copy):
        part(digest)


torch_main(run)
