"""What commands print with --json is as docs/schemas says."""

from __future__ import annotations

import json
from pathlib import Path

from jsonschema import Draft202012Validator

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "schemas"


def check(name: str, printed: object) -> None:
    """Raises jsonschema.ValidationError with the place."""
    Draft202012Validator(json.loads((FOLDER / f"{name}.json").read_text())).validate(printed)
