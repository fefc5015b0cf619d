"""Where code comes from: text, fat binaries, cubins and executables.

`texts` finds the PTX in any of them, `running` what a GPU runs.
"""

from ptxtools.image.resolve import Code, Text, best, running, texts

__all__ = ["Code", "Text", "best", "running", "texts"]
