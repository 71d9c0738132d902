"""The manual says what the programs say: every command, option, key and function has its place in a page, and no page names
one that is gone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ["BUILD_FOLDER"])
BIN = BUILD / "bin"
OPTION = re.compile(r"(?<![\w-])--?[a-z][\w-]*")
pytestmark = pytest.mark.needs("MAN")


def help_of(*command: str | Path) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KEDGE_")} | {"COLUMNS": "200"}
    done = subprocess.run([*command, "--help"], capture_output=True, text=True, timeout=60, check=True, env=environment)
    return done.stdout + done.stderr


def commands() -> list[str]:
    listing = help_of(BIN / "kedge").split("Subcommands:")[1].split("\n\n")[0]
    return re.findall(r"^  (\S+)", listing, re.MULTILINE)


def page(name: str, section: int = 1) -> str:
    """The text of a page as it was made, without the escapes of roff."""
    text = (BUILD / "man" / f"man{section}" / f"{name}.{section}").read_text()
    text = text.replace("\\-", "-").replace("\\&", "").replace("\\(aq", "'").replace("\\e", "\\")
    assert "@" not in re.sub(r"NAME\\fR\[?@|\w@\d|\[@|kedge-buffer@", "", text), "a piece that all pages share was not put in"
    return text


def bold(text: str) -> str:
    """All that stands in bold, where the pages name what is typed."""
    return "\n".join(re.findall(r"\\fB(.*?)\\fR", text, re.DOTALL))


def options_of_help(text: str) -> set[str]:
    """The options that a program's help lists; examples and prose follow after an empty line and do not count."""
    lines = [line for line in text.splitlines() if re.match(r"\s+-", line)]
    # The part before the description, which begins after two spaces.
    return {option for line in lines for option in OPTION.findall(re.split(r"\s{2,}", line.strip())[0])}


def check(name: str, found: set[str]) -> None:
    described = set(OPTION.findall(bold(page(name).split(".SH OPTIONS")[1].split(".SH EXIT")[0].split(".SH SEE")[0])))
    assert found, f"the help of {name} could not be read"
    assert found - described == set(), f"{name}(1) lacks options"
    assert described - found == set(), f"{name}(1) has options that are gone"


@pytest.mark.parametrize("command", [command for command in commands() if command != "agent"])
def test_the_page_of_a_command_has_its_options(command: str) -> None:
    check(f"kedge-{command}", options_of_help(help_of(BIN / "kedge", command)))


def test_the_page_of_the_agent_has_the_options_of_both_ways_to_start_it() -> None:
    check("kedge-agent", options_of_help(help_of(BIN / "kedge", "agent")) | options_of_help(help_of(BIN / "kedge-agent")))


@pytest.mark.needs("MPI")
def test_the_page_of_the_benchmark_has_its_options() -> None:
    levels = options_of_help(help_of(BIN / "kedge-bench", "levels"))
    check("kedge-bench", options_of_help(help_of(BIN / "kedge-bench")) | levels)
    section = page("kedge-bench").split(".SH OPTIONS OF PLACEMENT")[1].split(".SH")[0]
    found = options_of_help(help_of(BIN / "kedge-bench", "placement"))
    assert {"--policy", "--model"} <= found
    assert found - set(OPTION.findall(bold(section))) == {"-h", "--help"}


def test_the_page_of_the_planner_has_its_commands_and_options() -> None:
    planner = [sys.executable, "-m", "kedge.plan"]
    names = re.findall(r"^    ([a-z]+)  ", help_of(*planner), re.MULTILINE)
    assert len(names) >= 6
    text = page("kedge-plan")
    found = options_of_help(help_of(*planner))
    for name in names:
        assert re.search(rf"\\fB{name}\\fR", text), f"kedge-plan(1) lacks the command {name}"
        # argparse breaks "--a X, --b" with single spaces and puts alternatives of one option on one line.
        found |= options_of_help(help_of(*planner, name))
    check("kedge-plan", found)


def test_the_page_of_the_report_has_its_options() -> None:
    check("kedge-report", options_of_help(help_of(BIN / "kedge-report")))


@pytest.mark.parametrize("program", ["fmirun", "kedge-buffer", "kedge-with-buffers"])
def test_the_pages_of_other_programs_have_their_options(program: str) -> None:
    check(program, options_of_help(help_of(BIN / program)))


def test_the_first_page_names_every_command_and_every_page() -> None:
    text = page("kedge")
    for command in commands():
        assert f"kedge-{command}" in text
    for path in (BUILD / "man" / "man1").iterdir():
        assert path.stem in {"kedge", "kedge-bench"} or path.stem in text, f"kedge(1) does not name {path.name}"
    check("kedge", options_of_help(help_of(BIN / "kedge")))


def test_the_page_of_the_configuration_has_every_key_default_and_unit(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("KEDGE_", "XDG_"))}
    done = subprocess.run([BIN / "kedge", "config", "--docs", "--json"], cwd=tmp_path, env=environment | {"HOME": str(tmp_path)},
                          capture_output=True, text=True, timeout=60, check=True)
    configuration = json.loads(done.stdout)
    expected = {entry["key"]: f"{entry['value']} {entry['unit']}".strip() for entry in configuration["keys"]}
    for entry in configuration["tables"]:
        expected[entry["key"]] = "(must be given)" if entry["required"] else entry["default"]
    assert {"store.path", "tier.capacity"} <= set(expected)
    text = page("kedge.toml", 5)
    described = {key: value.strip() for key, value in re.findall(r"^\\fB([a-z_.]+)\\fR =(.*)$", text, re.MULTILINE)}
    assert described == expected


def test_the_page_of_the_library_has_every_function_level_and_code() -> None:
    for header in ("kedge.h", "kedge_mpi.h", "bb.h"):
        text = page("kedge_bb" if header == "bb.h" else "kedge", 3)
        source = (ROOT / "include" / "kedge" / header).read_text()
        for function in re.findall(r"KEDGE_API [\w\s*]*?\b(kedge_\w+)\(", source):
            assert re.search(rf"\\fB{function}\\fR", text), f"the page of {header} lacks {function}"
    text, source = page("kedge", 3), (ROOT / "include" / "kedge" / "kedge.h").read_text()
    for code in re.findall(r"\b(KEDGE_ERROR_\w+|KEDGE_LEVEL_(?!NONE)\w+) = ", source):
        assert re.search(rf"^{code}$", text, re.MULTILINE), f"kedge(3) lacks {code}"
