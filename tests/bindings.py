"""Calls through NVIDIA's Python bindings, as test programs make them."""

from typing import Any


def call(result: tuple[Any, ...]) -> Any:
    """Unpacks (error, value...) of any of the bindings' functions and raises on an error."""
    error, *values = result
    if int(error) != 0:
        raise RuntimeError(str(error))
    return values[0] if len(values) == 1 else values
