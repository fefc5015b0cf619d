"""Twins: kernels rewritten so that each access is tested against what the launch was predicted to touch."""

from ptxtools.twin.rewrite import Twin, rewrite

__all__ = ["Twin", "rewrite"]
