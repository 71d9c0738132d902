"""scripts/run-again: what fails once and passes by itself is named, and what fails again has failed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "run-again"
GOOD, BAD = "true", "false"


def late(folder: Path, name: str) -> str:
    """Passes the second time."""
    return f'sh "-c" "test -e {folder / name} || {{ touch {folder / name}; exit 1; }}"'


def run_again(folder: Path, tests: dict[str, str]) -> subprocess.CompletedProcess[str]:
    (folder / "CTestTestfile.cmake").write_text("".join(f"add_test({name} {command})\n" for name, command in tests.items()))
    first = subprocess.run(["ctest", "--test-dir", folder], capture_output=True, text=True, timeout=60)
    assert first.returncode != 0
    return subprocess.run([SCRIPT, folder], capture_output=True, text=True, timeout=60)


def test_what_passes_by_itself_is_named(tmp_path: Path) -> None:
    done = run_again(tmp_path, {"good": GOOD, "one": late(tmp_path, "a"), "other": late(tmp_path, "b")})
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1].startswith("100% tests passed, 0 tests failed out of 3; 2 of them only by themselves")
    assert done.stdout.splitlines()[-1].endswith(": one, other")


@pytest.mark.parametrize("others", [{}, {"one": GOOD}, {"one": GOOD, "other": BAD}])
def test_what_fails_again_has_failed(tmp_path: Path, others: dict[str, str]) -> None:
    done = run_again(tmp_path, {"bad": BAD, "late": late(tmp_path, "a"), **others})
    assert done.returncode == 1
    assert "not all of them pass by themselves" in done.stdout.splitlines()[-1]


def test_many_at_once_are_no_chance(tmp_path: Path) -> None:
    done = run_again(tmp_path, {f"late{number}": late(tmp_path, str(number)) for number in range(4)})
    assert done.returncode == 1
    assert "4 tests failed out of 4, too many" in done.stdout
