"""Holds the C and C++ sources to .clang-format; `make format` mends what this finds."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_sources_are_formatted() -> None:
    names = subprocess.run(
        ["git", "ls-files", "-z", "*.h", "*.hpp", "*.c", "*.cc"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split("\0")[:-1]
    assert len(names) > 100
    result = subprocess.run(["clang-format", "--dry-run", "-Werror", *names], cwd=ROOT, capture_output=True, text=True)
    differing = sorted({line.split(":")[0] for line in result.stderr.splitlines() if "error:" in line})
    assert result.returncode == 0, f"run `make format`: {', '.join(differing) or result.stderr}"
