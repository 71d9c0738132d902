"""What the programs of Kedge have in common."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

PROGRAMS = Path(os.environ["BUILD_FOLDER"]) / "bin"


@pytest.mark.parametrize("name", ["kedge", "kedge-agent", "kedge-buffer"])
def test_libfabric_opens_files_through_the_program(name: str) -> None:
    """Which keeps the kernel's symbols from it (src/net/program/without_kernel_symbols.cc)."""
    environment = os.environ | {"LD_DEBUG": "bindings", "LD_BIND_NOW": "1"}
    done = subprocess.run([PROGRAMS / name, "--version"], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    bound = [line for line in done.stderr.splitlines() if "/libfabric.so" in line.split(" to ")[0] and "`fopen'" in line]
    assert bound and all(f"/{name} [0]: normal symbol" in line for line in bound), bound
