"""The fixture that numba-cuda's tests expect from a conftest that its wheel does not carry."""

import pytest


@pytest.fixture
def initialize_from_pytest_config(request: pytest.FixtureRequest) -> None:
    setattr(request.cls, "_dump_failed_filechecks", False)  # noqa: B010
