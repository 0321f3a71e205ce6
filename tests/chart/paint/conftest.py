"""Painting needs an application; pytest-qt's is shared with the tests of the window."""

import pytest


@pytest.fixture(autouse=True)
def _application(qapp: object) -> object:
    return qapp
