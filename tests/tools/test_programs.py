"""What the programs of Kedge have in common."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

PROGRAMS = Path(os.environ["BUILD_FOLDER"]) / "bin"


@pytest.mark.parametrize("name", ["kedge", "kedge-agent", "kedge-buffer"])
def test_libfabric_opens_files_through_the_program(name: str) -> None:
    """Which keeps the kernel's symbols from it (src/net/program/without_kernel_symbols.cc)."""
    done = subprocess.run(["readelf", "--dyn-syms", "--wide", PROGRAMS / name], capture_output=True, text=True, check=True, timeout=60)
    assert any(re.search(r"GLOBAL +DEFAULT +\d+ fopen$", line) for line in done.stdout.splitlines())


@pytest.mark.parametrize("name", ["kedge", "kedge-agent", "kedge-buffer"])
def test_libfabric_is_loaded_when_it_is_needed(name: str) -> None:
    """It takes 0.2 s (src/net/fabric_library.h)."""
    done = subprocess.run([PROGRAMS / name, "--version"], env=os.environ | {"LD_DEBUG": "files"}, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert "libc.so" in done.stderr
    assert "libfabric" not in done.stderr
