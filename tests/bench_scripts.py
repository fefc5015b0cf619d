"""Scripts of scripts/bench, as modules."""

import importlib.machinery
import importlib.util
import sys
from types import ModuleType

import controlplane  # noqa: F401  the installed ones: a script puts its tree in front
import ptxtools  # noqa: F401
from tests.command import ROOT


def load(name: str) -> ModuleType:
    """The script of that name, which has no suffix that Python's import knows."""
    loader = importlib.machinery.SourceFileLoader(f"{name}_bench", str(ROOT / "scripts" / "bench" / name))
    spec = importlib.util.spec_from_loader(loader.name, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[loader.name] = module
    loader.exec_module(module)
    return module
