"""What the tests of burst buffers share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from buffers import MIB, Buffer


@pytest.fixture
def buffer(tmp_path: Path) -> Buffer:
    return Buffer(tmp_path / "buffer")


@pytest.fixture
def content(tmp_path: Path) -> Path:
    path = tmp_path / "content"
    path.write_bytes(os.urandom(40 * MIB + 12345))
    return path
