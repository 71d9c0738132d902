"""Fresh systems for the tests of packages and wheels: made once, and a copy for each module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fresh_debian import Debian


@pytest.fixture(scope="session")
def bare_debian(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Debian]:
    made = Debian.bootstrap(tmp_path_factory.mktemp("debian") / "bare")
    yield made
    made.remove()


@pytest.fixture(scope="module")
def debian(bare_debian: Debian, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Debian]:
    made = bare_debian.copy(tmp_path_factory.mktemp("debian") / "system")
    yield made
    made.remove()
