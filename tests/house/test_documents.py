"""What the documents say about the repository holds: links lead somewhere, and tests that they name exist.

docs/failures.md promises a test for each failure, in a comment below it (scripts/failure-tests describes its form, and
makes docs/failures-tests.md of it). A failure whose protection has no test yet says "not yet" there, and why.
"""

from __future__ import annotations

import re
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest
from test_manners import ROOT, tracked_files

DOCUMENTS = ROOT / "docs"
# Pages that keep to the rules for readers: a table of contents, and lines that end by LINE_CHARACTERS_MAX, in examples, too.
READABLE_PAGES = ["architecture.md", "internals.md", "failures.md", "failures-tests.md", "performance.md"]
LINE_CHARACTERS_MAX = 120

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
CASE = re.compile(r"^\s*(?:TYPED_)?TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", re.MULTILINE)
PROGRAM = re.compile(r"^\s*kedge_test\((\S+)\s+SOURCES\s+([^)]*?)\s+LINK\b", re.MULTILINE)
PYTEST = re.compile(r"^\s*(?:async )?def (test_\w+)", re.MULTILINE)


def load_script(name: str) -> ModuleType:
    """A Python program under scripts/, as a module."""
    loader = SourceFileLoader(name.replace("-", "_"), str(ROOT / "scripts" / name))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    sys.modules[loader.name] = module  # its dataclasses look for themselves there
    writes_bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    loader.exec_module(module)
    sys.dont_write_bytecode = writes_bytecode
    return module


FAILURE_TESTS = load_script("failure-tests")


def headings(text: str, depth_max: int = 6) -> list[str]:
    """The titles of a document, without the link and the code marks in them."""
    found = HEADING.findall(FENCE.sub("", text))
    return [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title) for marks, title in found if len(marks) <= depth_max]


def anchors(text: str) -> set[str]:
    """The names under which links find the headings of a document; a title that comes again gets a number."""
    found: dict[str, int] = {}
    for title in headings(text):
        name: str = FAILURE_TESTS.anchor(title)
        found[name] = found.get(name, -1) + 1
    return set(found) | {f"{name}-{number}" for name, count in found.items() for number in range(1, count + 1)}


def broken_links(path: Path, text: str) -> list[str]:
    """The relative links of one document that lead to no file, or to no heading of a document."""
    found = []
    for target in LINK.findall(FENCE.sub("", text)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        leads_to = (path.parent / name).resolve() if name else path
        if name and not leads_to.exists():
            found.append(target)
        elif anchor and leads_to.suffix == ".md" and anchor not in anchors(leads_to.read_text() if name else text):
            found.append(target)
    return found


def long_lines(text: str) -> list[str]:
    lines = enumerate(text.splitlines(), 1)
    return [f"line {number} has {len(line)} characters" for number, line in lines if len(line) > LINE_CHARACTERS_MAX]


def problems_for_readers(text: str) -> list[str]:
    """Lines that are too long, and sections that the table of contents lacks."""
    found = long_lines(text)
    contents = re.search(r"^## Contents\n(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    linked = LINK.findall(contents[1]) if contents else []
    sections = [title for title in headings(text, 2)[1:] if title != "Contents"]
    return found + [f"not in the contents: {title}" for title in sections if f"#{FAILURE_TESTS.anchor(title)}" not in linked]


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


def exists(program: str, case: str, cases: set[tuple[str, str]]) -> bool:
    """Whether there is such a test; `Suite.*` stands for any of a suite."""
    programs = {program, re.sub(r"_(default|mpich)_", "_*_", program)}
    if case.endswith(".*"):
        return any(of in programs and name.startswith(case.removesuffix("*")) for of, name in cases)
    return any((of, case) in cases for of in programs)


def problems_of_failures(text: str, cases: set[tuple[str, str]]) -> list[str]:
    """Failures without a test, tests that are not there, and comments that are not understood."""
    entries = FAILURE_TESTS.read_failures(text)
    names = [entry.failure for entry in entries]
    found = [f"described twice: {name}" for name in sorted(set(names)) if names.count(name) > 1]
    for entry in entries:
        if not (entry.tests or entry.not_yet or entry.unclear):
            found.append(f"no test: {entry.failure}")
        found += [f"not understood: {part}" for part in entry.unclear]
        found += [f"no such test: {program} {case}" for program, case, _ in entry.tests if not exists(program, case, cases)]
    understood = sum(len(FAILURE_TESTS.COMMENT.findall(block)) for block in re.split(r"\n\s*\n", text) if block.startswith("**"))
    if understood != text.count("<!--"):
        found.append("a comment of tests is not right below a failure")
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
    text = (DOCUMENTS / "failures.md").read_text()
    assert len(FAILURE_TESTS.read_failures(text)) > 150, "the failures are not found any more"
    assert problems_of_failures(text, cases) == []


def test_the_list_of_tests_is_that_of_the_failures() -> None:
    written = FAILURE_TESTS.appendix((DOCUMENTS / "failures.md").read_text())
    assert (DOCUMENTS / "failures-tests.md").read_text() == written, "run scripts/failure-tests"


@pytest.mark.parametrize("page", sorted(path.name for path in DOCUMENTS.glob("*.md")))
def test_no_line_is_too_long(page: str) -> None:
    """But for what a program prints."""
    blank_fences = FENCE.sub(lambda block: "\n" * block[0].count("\n"), (DOCUMENTS / page).read_text())
    assert long_lines(blank_fences) == []


@pytest.mark.parametrize("page", READABLE_PAGES)
def test_pages_are_readable(page: str) -> None:
    assert problems_for_readers((DOCUMENTS / page).read_text()) == []


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("**The agent dies.** It goes on.\n<!-- tests: agent_test Death.Comes -->", None),
        ("**The agent\ndies**, too.\n<!-- tests: veloc_mpich_test A.B;\ntools\ntest_it (in long) -->", None),
        ("**The agent dies.**\n<!-- tests: agent_test Death.*, Death.Comes -->", None),
        ("**The moon falls.**\n<!-- tests: not yet: it never has -->", None),
        ("In **short**: nothing.", None),
        ("**The agent dies.** It goes on.", "no test: The agent dies"),
        ("**The agent dies.**\n<!-- tests: agent_test Death.Left -->", "no such test: agent_test Death.Left"),
        ("**The agent dies.**\n<!-- tests: agent_test Deaths.* -->", "no such test: agent_test Deaths.*"),
        ("**The agent dies.**\n<!-- tests: other_test Death.Comes -->", "no such test: other_test Death.Comes"),
        ("**The agent dies.**\n<!-- tests: agent_test Death -->", "not understood: agent_test Death"),
        ("It goes on.\n\n<!-- tests: agent_test Death.Comes -->", "a comment of tests is not right below a failure"),
    ],
)
def test_failures_are_understood(entry: str, problem: str | None) -> None:
    cases = {("agent_test", "Death.Comes"), ("veloc_*_test", "A.B"), ("tools", "test_it")}
    assert problems_of_failures(entry, cases) == ([problem] if problem else [])


def test_a_failure_is_described_once() -> None:
    entry = "**The agent dies.**\n<!-- tests: not yet: why -->\n\n"
    assert problems_of_failures(entry * 2, set()) == ["described twice: The agent dies"]


def test_pages_that_are_hard_to_read_are_found() -> None:
    page = "# A page\n\n## Contents\n- [One](#one)\n\n## One\n\n## Two\n" + "x" * (LINE_CHARACTERS_MAX + 1) + "\n"
    assert problems_for_readers(page) == ["line 9 has 121 characters", "not in the contents: Two"]
    assert problems_for_readers("# A page\n\n## One\n") == ["not in the contents: One"]


def test_broken_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# A part, of `it`\n")
    text = "# Here\n[a](there.md#a-part-of-it) [b](gone.md) [c](https://example.org/x) [d](#here) [e](#gone) [f](there.md#gone)\n"
    in_code = "```\n[g](in-code.md)\n```\n"
    assert broken_links(tmp_path / "page.md", text + in_code) == ["gone.md", "#gone", "there.md#gone"]
