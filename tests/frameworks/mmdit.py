"""Stable Diffusion 3's model in plain PyTorch: image and text tokens, each with their own weights, attend jointly."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes as Stable Diffusion 3 medium has them, but for `layers`, which it has 24 of."""

    layers: int = 24
    width: int = 1536
    heads: int = 24
    channels: int = 16
    patch: int = 2
    side: int = 128  # of the latent image
    text_width: int = 4096
    pooled_width: int = 2048
    frequencies: int = 256


def modulated(tokens: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    return tokens * (1 + scale[:, None]) + shift[:, None]


def sinusoids(times: Tensor, width: int) -> Tensor:
    """Of one number per row, `width` columns."""
    steps = torch.arange(width // 2, device=times.device, dtype=torch.float32)
    angles = times[:, None].float() * torch.exp(-math.log(10000.0) * steps / (width // 2))
    return torch.cat([angles.cos(), angles.sin()], dim=-1)


def plain_norm(width: int) -> nn.LayerNorm:
    return nn.LayerNorm(width, elementwise_affine=False, eps=1e-6)


def two_layers(begin: int, end: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(begin, end), nn.SiLU(), nn.Linear(end, end))


class Side(nn.Module):
    """One kind of tokens in a block. The last block of text tokens only gives keys and values."""

    def __init__(self, shape: Shape, is_last: bool = False) -> None:
        super().__init__()
        width = shape.width
        self.heads, self.is_last = shape.heads, is_last
        self.modulation = nn.Linear(width, (2 if is_last else 6) * width)
        self.norm = plain_norm(width)
        self.qkv = nn.Linear(width, 3 * width)
        if not is_last:
            self.out = nn.Linear(width, width)
            self.norm_after = plain_norm(width)
            self.mlp = nn.Sequential(
                nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"), nn.Linear(4 * width, width)
            )

    def before(self, tokens: Tensor, condition: Tensor) -> tuple[Tensor, list[Tensor]]:
        """(3, batch, heads, tokens, width of a head), and what `after` is modulated with."""
        parts = list(self.modulation(functional.silu(condition)).chunk(2 if self.is_last else 6, dim=-1))
        qkv = self.qkv(modulated(self.norm(tokens), parts[0], parts[1]))
        return qkv.unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4), parts[2:]

    def after(self, tokens: Tensor, attended: Tensor, parts: list[Tensor]) -> Tensor:
        gate, shift, scale, mlp_gate = parts
        tokens = tokens + gate[:, None] * self.out(attended.transpose(1, 2).flatten(2))
        return tokens + mlp_gate[:, None] * self.mlp(modulated(self.norm_after(tokens), shift, scale))


class Block(nn.Module):
    def __init__(self, shape: Shape, is_last: bool) -> None:
        super().__init__()
        self.image, self.text = Side(shape), Side(shape, is_last)

    def forward(self, image: Tensor, text: Tensor, condition: Tensor) -> tuple[Tensor, Tensor]:
        image_qkv, image_parts = self.image.before(image, condition)
        text_qkv, text_parts = self.text.before(text, condition)
        query, key, value = torch.cat([image_qkv, text_qkv], dim=3)
        attended = functional.scaled_dot_product_attention(query, key, value)
        of_image, of_text = attended.split([image.shape[1], text.shape[1]], dim=2)
        image = self.image.after(image, of_image, image_parts)
        return image, text if self.text.is_last else self.text.after(text, of_text, text_parts)


class DiffusionTransformer(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        width, patch = shape.width, shape.patch
        self.patches = nn.Conv2d(shape.channels, width, patch, stride=patch)
        self.positions = nn.Parameter(0.02 * torch.randn(1, (shape.side // patch) ** 2, width))
        self.text = nn.Linear(shape.text_width, width)
        self.time = two_layers(shape.frequencies, width)
        self.pooled = two_layers(shape.pooled_width, width)
        self.blocks = nn.ModuleList(Block(shape, layer == shape.layers - 1) for layer in range(shape.layers))
        self.modulation = nn.Linear(width, 2 * width)
        self.norm = plain_norm(width)
        self.out = nn.Linear(width, patch * patch * shape.channels)

    def forward(self, latent: Tensor, text: Tensor, pooled: Tensor, times: Tensor) -> Tensor:
        """(batch, channels, side, side), (batch, tokens, text_width), (batch, pooled_width), (batch) to a latent."""
        condition = self.time(sinusoids(times, self.shape.frequencies).to(latent.dtype)) + self.pooled(pooled)
        image = self.patches(latent).flatten(2).transpose(1, 2) + self.positions
        text = self.text(text)
        for block in self.blocks:
            image, text = block(image, text, condition)
        shift, scale = self.modulation(functional.silu(condition)).chunk(2, dim=-1)
        return self._unpatched(self.out(modulated(self.norm(image), shift, scale)))

    def _unpatched(self, image: Tensor) -> Tensor:
        shape = self.shape
        rows = shape.side // shape.patch
        image = image.unflatten(1, (rows, rows)).unflatten(-1, (shape.patch, shape.patch, shape.channels))
        return image.permute(0, 5, 1, 3, 2, 4).reshape(-1, shape.channels, shape.side, shape.side)
