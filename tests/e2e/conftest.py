"""Makes the builder beside the tests importable; appended, so that an installed package is not shadowed."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))
