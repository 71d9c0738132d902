"""The layers hold in this tree, and the check that says so finds each kind of violation in a tree made for it."""

from pathlib import Path

import pytest

import layers

ROOT = Path(__file__).resolve().parents[2]


def test_the_layers_hold() -> None:
    assert layers.violations(ROOT) == []


SOURCES_IN_A_FOLDER = 45


def test_no_folder_is_crowded() -> None:
    assert layers.crowded_folders(ROOT, SOURCES_IN_A_FOLDER) == []


def test_no_two_headers_have_one_name() -> None:
    assert layers.headers_of_one_name(ROOT) == []


def test_headers_of_one_name_are_found(tmp_path: Path) -> None:
    make_tree(tmp_path, "src/os/files/link.h", "")
    make_tree(tmp_path, "src/os/files/link.cc", "")
    make_tree(tmp_path, "src/agent/link.cc", "")
    assert layers.headers_of_one_name(tmp_path) == []
    make_tree(tmp_path, "src/agent/testing/link.h", "")
    assert layers.headers_of_one_name(tmp_path) == ["link.h: in src/agent/testing, src/os/files"]


def test_each_folder_has_a_readme_for_strangers() -> None:
    assert layers.silent_folders(ROOT) == []


def test_folders_that_say_too_little_are_found(tmp_path: Path) -> None:
    make_tree(tmp_path, "src/os/testing/double.h", "")
    make_tree(tmp_path, "src/os/only_test.cc", "")
    assert layers.silent_folders(tmp_path) == []
    make_tree(tmp_path, "src/os/files/a.cc", "")
    assert layers.silent_folders(tmp_path) == ["src/os/files: has no README"]
    readme = "# Files\n\nIt includes base.\n\nBegin with `a`.\n"
    make_tree(tmp_path, "src/os/files/README.md", readme)
    assert layers.silent_folders(tmp_path) == []
    make_tree(tmp_path, "src/os/files/README.md", readme + "\n" * layers.README_LINES_MAX)
    assert layers.silent_folders(tmp_path) == ["src/os/files: its README is longer than 70 lines"]
    make_tree(tmp_path, "src/os/files/README.md", "# Files\n")
    assert [problem.split(" say ")[1] for problem in layers.silent_folders(tmp_path)] == [
        "what the folder may include",
        "where to begin",
    ]


def test_rooms_are_held_to_their_order(tmp_path: Path) -> None:
    make_tree(tmp_path, "src/agent/ROOMS", "# top down\nabove  first\nbelow  second\n")
    make_tree(tmp_path, "src/agent/above/a_test.cc", '#include "agent/below/b.h"\n')
    make_tree(tmp_path, "src/agent/below/b.h", '#include "agent/above/a.h"\n')
    assert layers.violations(tmp_path) == []
    make_tree(tmp_path, "src/agent/above/a.cc", '#include "agent/below/b.h"\n')
    make_tree(tmp_path, "src/agent/above/a.h", '#include "agent/below/b.h"\n')
    make_tree(tmp_path, "src/agent/stray/c.h", "")
    found = [violation.split(":")[0] for violation in layers.violations(tmp_path)]
    assert found == ["src/agent/stray", "src/agent/above/a.cc", "src/agent/above/a.h"]


def test_the_list_names_the_foundation_first() -> None:
    assert layers.read_layers(ROOT)[:4] == ["kedge", "base", "os", "format"]


def test_every_exception_is_in_use() -> None:
    for name, headers in layers.EXCEPTIONS.items():
        found = {match[1] for line in (ROOT / name).read_text().splitlines() if (match := layers.INCLUDE.match(line))}
        assert headers <= found, f"{name} no longer includes {headers - found}"


def make_tree(root: Path, path: str, text: str) -> None:
    for name, content in (("src/LAYERS", "# top down\nkedge  face\nbase  base\nos  door\nagent  daemon\n"), (path, text)):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)


@pytest.mark.parametrize(
    ("path", "include", "reason"),
    [
        ("src/base/a.h", '#include "agent/b.h"', "stands below"),
        ("src/os/a.cc", '  #  include  "agent/b.h"  // why', "stands below"),
        ("src/base/a_test.cc", '#include "os/b.h"', "stands below"),
        ("src/base/deep/a.h", "#include <os/b.h>", "stands below"),
        ("include/kedge/a.h", '#include "base/b.h"', "stands below"),
        ("src/agent/a.cc", '#include "../os/b.h"', "does not begin with the name of a layer"),
        ("src/agent/a.cc", '#include "b.h"', "does not begin with the name of a layer"),
        ("src/agent/a.cc", "#include <sys/mman.h>", "the operating system"),
        ("src/agent/a.cc", "#include <unistd.h>", "the operating system"),
        ("src/base/a.cc", "#include <fstream>", "the operating system"),
        ("src/agent/a.cc", "#include <liburing.h>", "the operating system"),
        ("src/agent/a.cc", "#include <mpi.h>", "MPI"),
        ("src/agent/a.cc", "#include <rdma/fabric.h>", "libfabric"),
        ("src/agent/a.cc", "#include <gtest/gtest.h>", "is for tests"),
        ("src/agent/a.cc", '#include "os/testing/b.h"', "is for tests"),
        ("src/stray/a.cc", "", "is not in src/LAYERS"),
    ],
)
def test_a_violation_is_found(tmp_path: Path, path: str, include: str, reason: str) -> None:
    make_tree(tmp_path, path, f"// A file.\n{include}\n")
    found = layers.violations(tmp_path)
    assert len(found) == 1
    assert reason in found[0]


@pytest.mark.parametrize(
    ("path", "include"),
    [
        ("src/agent/a.cc", '#include "base/b.h"'),
        ("src/agent/a.cc", '#include "agent/b.h"'),
        ("src/agent/a.cc", '#include "kedge/kedge.h"'),
        ("src/agent/a.cc", "#include <vector>"),
        ("src/agent/a.cc", "#include <fmt/format.h>"),
        ("src/agent/a.cc", "#include <sys/types.h>"),
        ("src/agent/a.cc", '// #include "tools/b.h"'),
        ("src/os/a.cc", "#include <sys/mman.h>"),
        ("src/agent/a_test.cc", "#include <gtest/gtest.h>"),
        ("src/agent/a_test.cc", '#include "os/testing/b.h"'),
        ("src/agent/a_test.cc", "#include <unistd.h>"),
        ("src/os/testing/b.cc", '#include "os/testing/b.h"'),
        ("include/kedge/a.hpp", '#include "kedge.h"'),
    ],
)
def test_what_is_allowed_passes(tmp_path: Path, path: str, include: str) -> None:
    make_tree(tmp_path, path, f"// A file.\n{include}\n")
    assert layers.violations(tmp_path) == []
