"""A small Llama in plain PyTorch. Its cache has a fixed size: each decoding step makes the same launches."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True, slots=True)
class Shape:
    layers: int = 16
    hidden: int = 1024
    heads: int = 16
    kv_heads: int = 4
    intermediate: int = 2816
    vocabulary: int = 32000
    context: int = 512
    batch: int = 1

    @property
    def head(self) -> int:
        return self.hidden // self.heads


class Norm(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * self.weight


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat((-right, left), -1) * sin


class Layer(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.before, self.after = Norm(shape.hidden), Norm(shape.hidden)
        self.q = nn.Linear(shape.hidden, shape.heads * shape.head, bias=False)
        self.k = nn.Linear(shape.hidden, shape.kv_heads * shape.head, bias=False)
        self.v = nn.Linear(shape.hidden, shape.kv_heads * shape.head, bias=False)
        self.o = nn.Linear(shape.heads * shape.head, shape.hidden, bias=False)
        self.gate = nn.Linear(shape.hidden, shape.intermediate, bias=False)
        self.up = nn.Linear(shape.hidden, shape.intermediate, bias=False)
        self.down = nn.Linear(shape.intermediate, shape.hidden, bias=False)
        cache = torch.zeros(shape.batch, shape.kv_heads, shape.context, shape.head)
        self.register_buffer("keys", cache)
        self.register_buffer("values", cache.clone())

    def forward(self, x: Tensor, position: Tensor, cos: Tensor, sin: Tensor, mask: Tensor) -> Tensor:
        batch, length, _ = x.shape
        normed = self.before(x)
        q = self.q(normed).view(batch, length, self.shape.heads, -1).transpose(1, 2)
        k = self.k(normed).view(batch, length, self.shape.kv_heads, -1).transpose(1, 2)
        v = self.v(normed).view(batch, length, self.shape.kv_heads, -1).transpose(1, 2)
        self.keys.index_copy_(2, position, rotate(k, cos, sin))
        self.values.index_copy_(2, position, v)
        groups = self.shape.heads // self.shape.kv_heads
        keys = self.keys.repeat_interleave(groups, 1)
        values = self.values.repeat_interleave(groups, 1)
        attended = functional.scaled_dot_product_attention(rotate(q, cos, sin), keys, values, attn_mask=mask)
        x = x + self.o(attended.transpose(1, 2).reshape(batch, length, -1))
        normed = self.after(x)
        return x + self.down(functional.silu(self.gate(normed)) * self.up(normed))


class Llama(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.vocabulary, shape.hidden)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = Norm(shape.hidden)
        rates = 10000.0 ** (-torch.arange(0, shape.head, 2) / shape.head)
        angles = torch.outer(torch.arange(shape.context), rates)
        self.register_buffer("cos", torch.cat((angles.cos(), angles.cos()), -1))
        self.register_buffer("sin", torch.cat((angles.sin(), angles.sin()), -1))

    def forward(self, tokens: Tensor, position: Tensor) -> Tensor:
        """Logits of the last position. `tokens` is [batch, length]; `position` [length], where they go in the cache."""
        x = self.embedding(tokens)
        cos, sin = self.cos[position], self.sin[position]
        mask = position[:, None] >= torch.arange(self.shape.context, device=tokens.device)
        for layer in self.layers:
            x = layer(x, position, cos, sin, mask)
        return functional.linear(self.norm(x[:, -1]), self.embedding.weight)


def build(shape: Shape) -> Llama:
    """Random weights from a fixed seed, in bfloat16 on the current GPU."""
    torch.manual_seed(1)
    with torch.device("cuda"):
        return Llama(shape).to(torch.bfloat16).eval()


def decoding() -> Callable[[], None]:
    """A step of the decoding loop that measurements are of: one token at batch 1, eager. For inference mode."""
    model = build(Shape())
    token = torch.full((1, 1), 5, device="cuda")
    position = torch.zeros(1, dtype=torch.long, device="cuda")

    def step() -> None:
        logits = model(token, position)
        token.copy_(logits.argmax(-1, keepdim=True))
        position.add_(1).remainder_(model.shape.context)

    return step
