"""Evaluates a template for one launch: the ranges of bytes that the launch may read and may write."""

from ptxtools.ranges.launch import Launch, Range, Result, evaluate

__all__ = ["Launch", "Range", "Result", "evaluate"]
