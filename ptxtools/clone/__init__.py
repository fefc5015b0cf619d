"""Instrumented clones: kernels rewritten so that each access is tested against the launch's predicted ranges."""

from ptxtools.clone.rewrite import Clone, rewrite

__all__ = ["Clone", "rewrite"]
