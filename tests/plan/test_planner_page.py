"""The planner's page as a reader follows it: every command that it shows, on the files that it shows, prints what it says.

A block whose first line is `# NAME` is a file. In the other blocks, what follows a line with `$ kedge plan` is what the command prints
first; `...` stands for lines left out. Times of computation are none of it, so the lines must be the same, letter by letter.
"""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import pytest

from kedge.plan.cli import main

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "planner.md").read_text()
BLOCKS: list[str] = re.findall(r"^```\w*\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
FILES = {match[1]: block for block in BLOCKS if (match := re.match(r"# (\S+\.\w+)\n", block))}
PROMPT = "$ kedge plan "


def examples() -> list[tuple[str, list[str]]]:
    """The commands, and what the page says that each prints."""
    found: list[tuple[str, list[str]]] = []
    for block in BLOCKS:
        for line in block.splitlines():
            if line.startswith(PROMPT):
                found.append((line.removeprefix(PROMPT), []))
            elif found and PROMPT in block:
                found[-1][1].append(line)
    return found


def is_long(command: str) -> bool:
    """Whether the suite for every day leaves it out."""
    return "--transitions" in command


def check(command: str, expected: list[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in FILES.items():
        (folder / name).write_text(text)
    assert main(shlex.split(command)) == 0
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert expected, "the page does not say what it prints"
    place = 0
    for part in "\n".join(expected).split("\n...\n"):
        lines = [line.rstrip() for line in part.splitlines()]
        starts = [start for start in range(place, len(printed)) if printed[start : start + len(lines)] == lines]
        assert starts and (place > 0 or starts[0] == 0), f"the page says\n{part}\nand the command\n" + "\n".join(printed)
        place = starts[0] + len(lines)


@pytest.mark.parametrize(("command", "expected"), [example for example in examples() if not is_long(example[0])], ids=lambda _: "")
def test_a_command_prints_what_the_page_says(
    command: str, expected: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    check(command, expected, tmp_path, capsys)


@pytest.mark.slow
def test_the_long_commands_print_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    long = [example for example in examples() if is_long(example[0])]
    assert long
    for command, expected in long:
        check(command, expected, tmp_path, capsys)


def test_the_library_answers_as_the_page_says() -> None:
    session = next(block for block in BLOCKS if block.startswith(">>> "))
    parsed = doctest.DocTestParser().get_doctest(session, {}, "planner.md", None, None)
    said: list[str] = []
    assert parsed.examples and doctest.DocTestRunner().run(parsed, out=said.append).failed == 0, "".join(said)


def test_the_page_has_an_example_of_every_command_that_answers() -> None:
    shown = {command.split()[0] for command, _ in examples()}
    assert shown >= {"advise", "sweep", "compare", "simulate", "fit", "watch", "groups", "staging"}
