"""The fixture of the tests of ``kedge run``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from machine import Machine  # noqa: E402


@pytest.fixture
def machine() -> Iterator[Machine]:
    machine = Machine()
    try:
        yield machine
    finally:
        for path in sorted(machine.folder.glob("run-*.log")):
            print(path.read_text())  # shown where the test has failed
        machine.clean()
