"""docs/architecture.svg, the drawing of the layers, from scripts/layers.toml and the code.

scripts/gen layers
"""

from __future__ import annotations

from collections.abc import Sequence

from scripts import layers, layers_drawing
from scripts.commands.dispatch import parser_of
from scripts.commands.gen.support import ROOT, replace


def main(words: Sequence[str]) -> int:
    parser_of(__name__, __doc__).parse_args(words)
    replace(ROOT / "docs" / "architecture.svg", layers_drawing.draw(layers.c_house(), layers.python_house()))
    return 0
