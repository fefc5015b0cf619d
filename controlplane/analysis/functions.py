"""What is known of the code of a recorded process' functions, as far as it is enough for their launches."""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.analysis.cache import Key
from controlplane.analysis.pointers import Kernel
from controlplane.analysis.result import Analysis
from controlplane.analysis.traced import Used, UsedFunction


class Functions:
    """Each kernel is made once, when a function that has it is first asked for."""

    def __init__(self, process: Used, analyses: Mapping[Key, Analysis]) -> None:
        self._analyses = analyses
        self._kernels: dict[Key, Kernel] = {}
        kernels = [self.kernel(function) for function in process.functions.values()]
        self.have_pointers = any(kernel.pointers for kernel in kernels if kernel is not None)

    def kernel(self, function: UsedFunction) -> Kernel | None:
        """None: nothing is known of its code."""
        analysis = self._analyses.get(function.key) if function.key is not None else None
        if analysis is None or not analysis.template or function.key is None:
            return None
        if function.key not in self._kernels:
            self._kernels[function.key] = Kernel(analysis.template, bool(analysis.description["parameters"]))
        return self._kernels[function.key]
