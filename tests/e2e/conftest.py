"""Makes the builder beside the tests importable; appended, so that the checkout does not shadow an installed package."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))
