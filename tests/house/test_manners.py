"""What every tracked file keeps to: no path of one developer's machine, one idea a file, no loose ends, no large data.

The rules look at the files that git tracks, so that build trees and local notes stay out of it.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE_SUFFIXES = {".h", ".hpp", ".c", ".cc", ".py", ".f90", ".F90", ".cmake", ".sh"}
LINES_MAX = 800
FILE_BYTES_MAX = 512 * 1024

MACHINE_PATH = re.compile(r"(?<![\w.)}\]*/-])/(?:work|root|farm|home/\w+|Users/\w+)(?:/|\b(?=[\s\"'`;,:)]|$))")
LOOSE_END = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|X" r"XX)\b")

# A test with the decorators before it.
TEST = re.compile(r"((?:^[@ )\]].*\n)*)^def test_", re.MULTILINE)


def tracked_files(root: Path) -> list[Path]:
    """The tracked files that exist (one deleted but not yet committed does not count)."""
    listing = subprocess.run(["git", "-C", str(root), "ls-files", "-z"], check=True, capture_output=True, text=True).stdout
    return [root / name for name in listing.split("\0") if name and (root / name).is_file()]


def text_of(path: Path) -> str | None:
    """The file's text, or None for a binary one."""
    content = path.read_bytes()
    return None if b"\0" in content else content.decode(errors="replace")


def is_source(path: Path) -> bool:
    return path.suffix in SOURCE_SUFFIXES or path.parent.name == "scripts"


def problems_of(path: Path, name: str) -> list[str]:
    """What is wrong with one file; `name` is how the messages call it."""
    found: list[str] = []
    if path.stat().st_size > FILE_BYTES_MAX:
        found.append(f"{name}: larger than {FILE_BYTES_MAX} bytes; generated or large data stays out of git")
    text = text_of(path)
    if text is None:
        return found
    lines = text.splitlines()
    for number, line in enumerate(lines, 1):
        if MACHINE_PATH.search(line):
            found.append(f"{name}:{number}: names a path of one machine: {line.strip()[:100]}")
        if LOOSE_END.search(line):
            found.append(f"{name}:{number}: a loose end: {line.strip()[:100]}")
    if is_source(path) and len(lines) > LINES_MAX:
        found.append(f"{name}: {len(lines)} lines; above {LINES_MAX} a file is no longer one idea")
    if path.suffix in {".h", ".hpp"} and not text.startswith(("//", "/*")):
        found.append(f"{name}: a header opens with a comment that says what it is")
    opening = lines[1:] if text.startswith("#!") else lines
    if path.suffix == ".py" and opening and not opening[0].startswith(('"""', 'r"""')):
        found.append(f"{name}: a Python file opens with a docstring that says what it is")
    tests = TEST.findall(text) if path.suffix == ".py" else []
    if tests and all("mark.slow" in decorators for decorators in tests):
        found.append(f"{name}: each test is slow; `pytestmark` says so at once, or `make check` has a suite without tests")
    if text.startswith("#!") and not path.stat().st_mode & 0o100:
        found.append(f"{name}: has an interpreter line but is not executable")
    return found


def test_every_tracked_file_has_manners() -> None:
    found = [problem for path in tracked_files(ROOT) for problem in problems_of(path, str(path.relative_to(ROOT)))]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.md", "see /wo" + "rk/notes", "path of one machine"),
        ("a.sh", 'cd "/ro' + 'ot/kedge"', "path of one machine"),
        ("a.md", "in /ho" + "me/someone/x", "path of one machine"),
        ("a.cc", "// TO" + "DO: later", "loose end"),
        ("a.py", '"""A."""\n' + "x = 1\n" * LINES_MAX, "no longer one idea"),
        ("a.h", "#pragma once\n", "opens with a comment"),
        ("a.py", "import os\n", "opens with a docstring"),
        ("a.sh", "#!/bin/sh\n", "not executable"),
        ("a.py", '"""A."""\n@mark.slow\n@mark.parametrize(\n    "x"\n)\ndef test_x():\n    pass\n', "each test is slow"),
        ("a.bin", "\0" * (FILE_BYTES_MAX + 1), "larger than"),
    ],
)
def test_bad_manners_are_found(tmp_path: Path, name: str, text: str, reason: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    found = problems_of(path, name)
    assert len(found) == 1
    assert reason in found[0]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.md", "the network/work split, examples/work/x, $HOME/work/x and ./root/x are nobody's machine"),
        ("a.md", "\n" * (LINES_MAX + 1)),
        ("a.h", "// A header.\n#pragma once\n"),
        ("a.py", '#!/usr/bin/env python3\n"""A program."""\n'),
        ("a.py", '"""A."""\n@mark.slow\ndef test_x():\n    pass\n\n\ndef test_y():\n    pass\n'),
        ("a.bin", "\0\1"),
    ],
)
def test_good_manners_pass(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    path.chmod(0o755)
    assert problems_of(path, name) == []
