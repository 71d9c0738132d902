"""What the documents say about the repository holds: links lead somewhere, and tests that they name exist. They are plain, too:
lines have an end, and a sentence has a thing for its subject.

docs/failures.md promises a test for each failure, in a comment below it (scripts/failure-tests describes its form, and
makes docs/failures-tests.md of it). A failure whose protection has no test yet says "not yet" there, and why.
"""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
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
# Pages that lead people through the code.
CODE_PAGES = ["docs/architecture.md", "docs/internals.md", *sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("src/**/README.md"))]
# A script makes these of measurements.
MADE_PAGES = DOCUMENTS / "figures"

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
HEADING = re.compile(r"^(#+) (.+)$", re.MULTILINE)
CASE = re.compile(r"^\s*(?:TYPED_)?TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", re.MULTILINE)
PROGRAM = re.compile(r"^\s*kedge_test\((\S+)\s+SOURCES\s+([^)]*?)\s+LINK\b", re.MULTILINE)
PYTEST = re.compile(r"^\s*(?:async )?def (test_\w+)", re.MULTILINE)
# A sentence begins with the paragraph or the item, and after a mark that ends another one or a part of one.
ITEM = re.compile(r"\s*(?:[-*] |\d+\. )")
SENTENCE_END = re.compile(r"(?<=[.!?:;])[*_)\"]*\s+")
DIARY = re.compile(
    r"\btried:|before and after|after and before|on another day|\bthat day\b|a moment before|\bas now\b|as it is now|was left out",
    re.IGNORECASE,
)
FREE_RELATIVE = re.compile(r"[\s*_(\"]*(?:What|Whatever|Which|Whichever|Who|Whoever|Whom|Whose)\b")


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


def pages() -> list[Path]:
    """The documents, READMEs and sources of manual pages that people write."""
    written = [path for path in tracked_files(ROOT) if path.suffix == ".md" or path.name.endswith((".scd", ".scd.in"))]
    return [path for path in written if MADE_PAGES not in path.parents]


def without(pattern: re.Pattern[str], text: str) -> str:
    """The text with empty lines for what matches."""
    return pattern.sub(lambda block: "\n" * block[0].count("\n"), text)


def as_shown(line: str) -> str:
    """A row of a table cannot be broken: its links count as their texts."""
    return re.sub(r"\]\([^)\s]+\)", "]", line) if line.startswith("|") else line


def paragraphs(text: str) -> list[tuple[int, str]]:
    """The prose of a document, each paragraph and item in one line, with the number of its first line; no titles, no tables."""
    found: list[tuple[int, str]] = []
    before = ""  # the line before, where that is prose; a manual says below a name, behind a tab, what it is
    for number, line in enumerate(without(COMMENT, without(FENCE, text)).splitlines(), 1):
        prose = line.strip() != "" and not line.startswith(("#", "|"))
        if prose and before and not ITEM.match(line) and line.startswith("\t") == before.startswith("\t"):
            found[-1] = (found[-1][0], f"{found[-1][1]} {line.strip()}")
        elif prose:
            found.append((number, ITEM.sub("", line, count=1).strip()))
        before = line if prose else ""
    return found


def free_relatives(text: str) -> list[str]:
    """Sentences, also behind a semicolon, that begin with a clause for a subject ("What is new goes to ..."). Questions may."""
    return [
        f"line {number}: {sentence[:60]}"
        for number, paragraph in paragraphs(text)
        for sentence in SENTENCE_END.split(re.sub(r"(?<=; )wh", "Wh", paragraph))
        if FREE_RELATIVE.match(sentence) and not sentence.endswith("?")
    ]


def diary_entries(text: str) -> list[str]:
    """Words by which a page tells when something was tried, and not what holds and under which conditions."""
    lines = without(FENCE, text).splitlines()
    return [f"line {number}: {match[0]}" for number, line in enumerate(lines, 1) for match in DIARY.finditer(line)]


def problems_for_readers(text: str) -> list[str]:
    """Lines that are too long, and sections that the table of contents lacks."""
    found = long_lines(text)
    contents = re.search(r"^## Contents\n(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    linked = LINK.findall(contents[1]) if contents else []
    sections = [title for title in headings(text, 2)[1:] if title != "Contents"]
    return found + [f"not in the contents: {title}" for title in sections if f"#{FAILURE_TESTS.anchor(title)}" not in linked]


@cache
def sources(root: Path) -> tuple[set[str], set[str]]:
    """The paths of all C and C++ sources, and the words in them."""
    paths = [path for path in tracked_files(root) if path.suffix in {".h", ".hpp", ".c", ".cc"}]
    words = {word for path in paths for word in re.findall(r"\w+", path.read_text(errors="replace"))}
    return {path.relative_to(root).as_posix() for path in paths}, words


def unknown_code(root: Path, path: Path) -> list[str]:
    """What a document calls by a name of the code (`Class::Function`, `folder/file.h`), and the sources do not have."""
    places, words = sources(root)
    marked = re.findall(r"`([^`\n]+)`", without(FENCE, path.read_text()))
    names = [name for name in marked if re.fullmatch(r"\w+(::\w+)+", name) and not set(name.split("::")) <= words]
    files = [name for name in marked if re.fullmatch(r"\w+(/\w+)+\.(h|hpp|c|cc)", name)]
    return names + [name for name in files if not places & {name, f"src/{name}", f"include/{name}"}]


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


@pytest.mark.parametrize("page", [str(path.relative_to(ROOT)) for path in pages()])
def test_no_line_is_too_long(page: str) -> None:
    """But for what a program prints."""
    text = without(FENCE, (ROOT / page).read_text())
    assert long_lines("\n".join(as_shown(line) for line in text.splitlines())) == []


@pytest.mark.parametrize("page", [str(path.relative_to(ROOT)) for path in pages()])
def test_a_sentence_has_a_thing_for_its_subject(page: str) -> None:
    assert free_relatives((ROOT / page).read_text()) == []


def test_measurements_are_no_diary() -> None:
    assert diary_entries((DOCUMENTS / "performance.md").read_text()) == []


def test_entries_of_a_diary_are_found() -> None:
    text = "### Before and after\n- **Tried:** sums. It was left out.\nOn another day the disk was faster.\n28 November 2026.\n"
    assert diary_entries(text) == [
        "line 1: Before and after",
        "line 2: Tried:",
        "line 2: was left out",
        "line 3: On another day",
    ]


@pytest.mark.parametrize("page", CODE_PAGES)
def test_code_that_is_named_is_there(page: str) -> None:
    assert unknown_code(ROOT, ROOT / page) == []


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


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("The agent takes it. What is new goes to the image's\nobject.\n", [1]),
        ("# Page\n\nWhoever reads an object in order finds ranges.\n", [3]),
        ("- **Addresses.** Told.\n- **What it costs:** much.\n", [2]),
        ("An item:\n1. Who connects proves the secret.\n", [2]),
        ("It is there, whole; what is not is written again.\n", [1]),
        ("*removed*\n\tNo version any more. What is left of it are objects.\n", [2]),
        ("*--rate* _BYTES_\n\tWhat one node writes.\n", [2]),
        ("Which link is slow? All ways. How it is done is in the code.\n", []),
        ("# What survives\n\n| What tells it | here |\n\n```\nWhat is printed.\n```\n", []),
        ("<!-- What nobody reads. -->\nThe agent keeps what is new. Whole images go.\n", []),
    ],
)
def test_clauses_as_subjects_are_found(text: str, lines: list[int]) -> None:
    assert [int(found.split(":")[0].removeprefix("line ")) for found in free_relatives(text)] == lines


def test_a_row_of_a_table_is_as_long_as_it_is_shown() -> None:
    assert as_shown("| a [link](to/a/file.md) |") == "| a [link] |"
    assert as_shown("A [link](to/a/file.md).") == "A [link](to/a/file.md)."


def test_code_that_is_gone_is_found(tmp_path: Path) -> None:
    (tmp_path / "src" / "os").mkdir(parents=True)
    (tmp_path / "src" / "os" / "loop.h").write_text("class Loop { void Run(); };\n")
    (tmp_path / "page.md").write_text("`Loop::Run` in `os/loop.h`, `Loop::Gone` in `os/gone.h`, `kedge run`.\n\n```\n`Old::Way`\n```\n")
    subprocess.run(["git", "-C", tmp_path, "init", "-q"], check=True)
    subprocess.run(["git", "-C", tmp_path, "add", "."], check=True)
    assert unknown_code(tmp_path, tmp_path / "page.md") == ["Loop::Gone", "os/gone.h"]


def test_broken_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# A part, of `it`\n")
    text = "# Here\n[a](there.md#a-part-of-it) [b](gone.md) [c](https://example.org/x) [d](#here) [e](#gone) [f](there.md#gone)\n"
    in_code = "```\n[g](in-code.md)\n```\n"
    assert broken_links(tmp_path / "page.md", text + in_code) == ["gone.md", "#gone", "there.md#gone"]
