"""What bash offers after `kedge`."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tool import KEDGE

ROOT = Path(__file__).resolve().parents[2]


def offered(line: str) -> list[str]:
    """For the last word of a command line."""
    words = line.split(" ")
    script = (
        f"source {ROOT}/packaging/completion/kedge.bash; COMP_WORDS=({KEDGE} {' '.join(map(shlex.quote, words[1:]))}); "
        f"COMP_CWORD={len(words) - 1}; _kedge; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    done = subprocess.run(["bash", "-uc", script], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout.split()


def test_commands() -> None:
    listed = offered("kedge ")
    help_text = subprocess.run([KEDGE, "--help"], capture_output=True, text=True, timeout=60).stdout
    assert set(listed) == set(re.findall(r"^  ([a-z][a-z-]+)  ", help_text, re.MULTILINE))
    assert {"ls", "doctor", "plan", "run"} <= set(listed) and offered("kedge re") == ["rebuild", "report"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("kedge ls --j", ["--job", "--json"]), ("kedge ls climate --al", ["--all"]), ("kedge run --vi", ["--virtual"]),
        ("kedge plan adv", ["advise"]), ("kedge plan advise --li", ["--list"]), ("kedge nonsense --j", []),
        ("kedge run -- ./app --j", []), ("kedge ls --config READ", ["README.md"]), ("kedge calibrate READ", ["README.md"]),
    ],
)  # fmt: skip
def test_options_and_files(line: str, words: list[str]) -> None:
    assert offered(line) == words
