"""Twins: kernels rewritten so that each access is tested against what the launch was predicted to touch."""

from ptxtools.twin.rewrite import rewrite

__all__ = ["rewrite"]
