"""The ranges of bytes that a launch may read and may write: a template that is evaluated in C (interpose/access)."""

from ptxtools.ranges.launch import Launch, Range, Result
from ptxtools.ranges.native import Evaluator, evaluate

__all__ = ["Evaluator", "Launch", "Range", "Result", "evaluate"]
