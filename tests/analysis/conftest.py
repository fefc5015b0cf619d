"""Ranges are those of the native build of this checkout."""

import pytest


@pytest.fixture(autouse=True)
def _built(native: None) -> None:
    """For every test here."""
