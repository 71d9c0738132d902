"""What the documents say about the repository holds: links lead to a file and a heading, and tests that they name exist.

docs/failures.md promises a test for each failure: the last column of each of its tables names them, as
`PROGRAM Suite.Case` (GoogleTest, without instantiation and parameter) or `FOLDER test_name` (pytest, the folder below tests/).
A row whose protection has no test yet says "not yet" there, and why.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from test_manners import ROOT, tracked_files

FAILURES = ROOT / "docs" / "failures.md"

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
CASE = re.compile(r"^\s*(?:TYPED_)?TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", re.MULTILINE)
PROGRAM = re.compile(r"^\s*kedge_test\((\S+)\s+SOURCES\s+([^)]*?)\s+LINK\b", re.MULTILINE)
PYTEST = re.compile(r"^\s*(?:async )?def (test_\w+)", re.MULTILINE)
REFERENCE = re.compile(r"`(\w+) (\w+\.\w+|test_\w+)`")


def anchors(text: str) -> set[str]:
    """The names under which links reach the headings of a document, made as GitHub makes them."""
    headings = [LINK.sub(lambda link: link[0][1:].partition("](")[0], heading) for heading in HEADING.findall(FENCE.sub("", text))]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(path: Path, text: str) -> list[str]:
    """The relative links of one document that lead to no file, or to no heading of it."""
    found = []
    for target in LINK.findall(FENCE.sub("", text)):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        leads_to = (path.parent / file).resolve() if file else path
        if file and not leads_to.exists():
            found.append(target)
        elif anchor and leads_to.suffix == ".md" and anchor not in anchors(leads_to.read_text() if file else text):
            found.append(target)
    return found


def googletest_cases(root: Path) -> set[tuple[str, str]]:
    """All (program, "Suite.Case") that the CMake files build; a program named in a loop matches by any name."""
    cases: set[tuple[str, str]] = set()
    for listing in tracked_files(root):
        if listing.name != "CMakeLists.txt":
            continue
        for program, sources in PROGRAM.findall(listing.read_text()):
            for source in sources.split():
                for suite, case in CASE.findall((listing.parent / source).read_text()):
                    cases.add((re.sub(r"\$\{\w+\}", "*", program), f"{suite}.{case}"))
    return cases


def pytest_cases(root: Path) -> set[tuple[str, str]]:
    """All (folder below tests/, test function)."""
    cases: set[tuple[str, str]] = set()
    for path in tracked_files(root / "tests"):
        if path.name.startswith("test_") and path.suffix == ".py":
            cases.update((path.parent.name, name) for name in PYTEST.findall(path.read_text()))
    return cases


def problems_of_tables(text: str, cases: set[tuple[str, str]]) -> list[str]:
    """Rows without a test, and tests that are not there."""
    found = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        is_row = line.startswith("|") and not set(line) <= set("|-: ")
        if not is_row or cells[-1] == "test":
            continue
        references = REFERENCE.findall(cells[-1])
        if not references and "not yet" not in cells[-1]:
            found.append(f"no test: {cells[0]}")
        for program, case in references:
            if (program, case) not in cases and (re.sub(r"_(default|mpich)_", "_*_", program), case) not in cases:
                found.append(f"no such test: {program} {case}")
    return found


def test_links_lead_somewhere() -> None:
    found = {
        str(path.relative_to(ROOT)): broken
        for path in tracked_files(ROOT)
        if path.suffix == ".md" and (broken := broken_links(path, path.read_text()))
    }
    assert found == {}


def test_each_failure_names_tests_that_exist() -> None:
    cases = googletest_cases(ROOT) | pytest_cases(ROOT)
    assert len(cases) > 300, "the tests themselves are not found any more"
    text = FAILURES.read_text()
    assert text.count("\n|") > 40, "the tables are not found any more"
    assert problems_of_tables(text, cases) == []


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("| the agent dies | goes on | a log line | `agent_test Death.Comes` |", None),
        ("| the agent dies | goes on | a log line | `veloc_mpich_test A.B`, `tools test_it` |", None),
        ("| the moon falls | nothing | | not yet: it never has |", None),
        ("| the agent dies | goes on | a log line | |", "no test: the agent dies"),
        ("| the agent dies | goes on | a log line | `agent_test Death.Left` |", "no such test: agent_test Death.Left"),
        ("| the agent dies | goes on | a log line | `other_test Death.Comes` |", "no such test: other_test Death.Comes"),
        ("| what happens | what Kedge does | what you see | test |", None),
        ("|---|---|---|---|", None),
    ],
)
def test_tables_are_understood(row: str, problem: str | None) -> None:
    cases = {("agent_test", "Death.Comes"), ("veloc_*_test", "A.B"), ("tools", "test_it")}
    assert problems_of_tables(row, cases) == ([problem] if problem else [])


def test_broken_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("## A part: `it`, and\n```\n# no heading\n```\n")
    links = "[a](there.md#a-part-it-and) [b](gone.md) [c](https://example.org/x) [d](#here) [e](there.md#no-heading) [f](#nowhere)"
    text = f"# Here\n{links}\n```\n[g](in-code.md)\n```\n"
    assert broken_links(tmp_path / "page.md", text) == ["gone.md", "there.md#no-heading", "#nowhere"]
