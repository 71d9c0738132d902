"""Shared by the planner's tests: where the package lies, and random systems."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker of the tests that `make test-long` runs."""
    config.addinivalue_line("markers", "slow: more seeds or larger cases; deselect with -m 'not slow'")


@pytest.fixture
def generator(request: pytest.FixtureRequest) -> random.Random:
    """A random generator whose seed is the test's name: the same cases in every run."""
    return random.Random(request.node.name)
