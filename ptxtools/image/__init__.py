"""Where PTX comes from: text, fat binaries, cubins and executables. `texts` finds it in any of them."""

from ptxtools.image.resolve import Text, best, texts

__all__ = ["Text", "best", "texts"]
