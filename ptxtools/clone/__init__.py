"""Clones: kernels rewritten so that each access is tested against what the launch was predicted to touch."""

from ptxtools.clone.rewrite import Clone, rewrite

__all__ = ["Clone", "rewrite"]
