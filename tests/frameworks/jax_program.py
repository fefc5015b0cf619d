"""JAX: compiled functions, a gradient, a scan, and two GPUs if there are."""

import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
os.environ.setdefault("XLA_FLAGS", "--xla_gpu_autotune_level=0 --xla_gpu_deterministic_ops=true")

import jax
import jax.numpy as jnp
from common import Digest, main


def layer(weights, x):
    return jax.nn.gelu(x @ weights) + jnp.sort(x, -1)


def run(digest: Digest) -> None:
    keys = jax.random.split(jax.random.key(0), 3)
    x, weights = jax.random.normal(keys[0], (128, 256)), jax.random.normal(keys[1], (256, 256)) / 16
    compiled = jax.jit(layer)
    gradient = jax.jit(jax.grad(lambda w: compiled(w, x).mean()))
    scanned = jax.jit(lambda w: jax.lax.scan(lambda c, _: (layer(w, c) / 2, c.sum()), x, None, 10))
    digest.add(compiled(weights, x), gradient(weights), *scanned(weights))
    for device in jax.devices():
        digest.add(compiled(jax.device_put(weights, device), jax.device_put(x, device)))


main(run)
