"""Holds the sources to the layers: which folder may include what.

`src/LAYERS` lists the layers from the top down, and a folder includes only itself and what stands above it. A layer with a file
`ROOMS` lists its rooms, the folders in it, in the same way. Headers that open a door (to the operating system, to MPI, to the network, to a test framework) are included only by the layer
that is this door. Run as a program it prints each violation as `file:line: reason` and exits with 1.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

INCLUDE = re.compile(r"""^\s*#\s*include\s*(?:<([^>]+)>|"([^"]+)")""")
SOURCE_SUFFIXES = {".h", ".hpp", ".c", ".cc"}

# Header (a regular expression for the whole name) -> (layers that may include it, what it is).
DOORS: list[tuple[str, set[str], str]] = [
    (
        r"unistd\.h|fcntl\.h|dirent\.h|poll\.h|spawn\.h|sched\.h|signal\.h|csignal|pthread\.h|netdb\.h|libaio\.h|liburing.*"
        r"|sys/(?!types\.h|cdefs\.h).*|linux/.*|asm/.*|arpa/.*|netinet/.*|fstream|filesystem",
        {"os"},
        "the operating system",
    ),
    (r"mpi\.h", {"mpi", "kedge"}, "MPI"),
    (r"rdma/.*", {"net"}, "libfabric"),
    (r"openssl/.*", {"net", "store"}, "libcrypto"),
    (r"curl/.*", {"store"}, "libcurl"),
    (r"pugixml\.hpp", {"store"}, "pugixml"),
    (r"blosc\.h", {"reduce"}, "c-blosc"),
    (r"toml\+\+/.*|toml\.hpp", {"base"}, "toml++"),
    (r"CLI/.*", {"tools"}, "CLI11"),
]
# The files of base, which stands above os, that need the operating system before there is an os layer.
EXCEPTIONS: dict[str, set[str]] = {
    "src/base/config_reader.cc": {"filesystem", "fstream"},  # reads one small text file
    "src/base/log.cc": {"fcntl.h", "unistd.h"},  # appends lines with write(2)
    "src/base/random.cc": {"sys/random.h"},  # getrandom(2)
}
TEST_ONLY = re.compile(r"(gtest|gmock|benchmark)/.*|([^/]+/)*testing/.*")


def read_layers(root: Path) -> list[str]:
    """The names in `root/src/LAYERS`, top down."""
    lines = (root / "src" / "LAYERS").read_text().splitlines()
    return [line.split()[0] for line in lines if line.strip() and not line.startswith("#")]


def rooms_of(layer: Path) -> list[str]:
    """The rooms of a layer, top down; none where it has no list of them."""
    rooms = layer / "ROOMS"
    return [line.split()[0] for line in rooms.read_text().splitlines() if line.strip() and not line.startswith("#")] if rooms.exists() else []


def downward_includes(layer: Path) -> list[tuple[Path, str]]:
    """Product files of a layer's rooms, each with a header of a lower room that it includes."""
    rooms = rooms_of(layer)
    found: list[tuple[Path, str]] = []
    for index, room in enumerate(rooms):
        for path in sorted((layer / room).rglob("*")):
            if path.suffix not in SOURCE_SUFFIXES or is_test_code(path.relative_to(layer)):
                continue
            names = [match[2] or match[1] for line in path.read_text().splitlines() if (match := INCLUDE.match(line))]
            found += [(path, name) for name in names if name.split("/")[0] == layer.name and name.split("/")[1] in rooms[index + 1 :]]
    return found


def crowded_folders(root: Path, most: int) -> list[str]:
    """Folders below `root/src` with more sources than `most`."""
    folders = [folder for folder in (root / "src").rglob("*") if folder.is_dir()]
    sizes = {folder: sum(path.suffix in SOURCE_SUFFIXES for path in folder.iterdir()) for folder in folders}
    return sorted(folder.relative_to(root).as_posix() for folder, size in sizes.items() if size > most)


def headers_of_one_name(root: Path) -> list[str]:
    """Names that several headers below `root/src` have, each with where they are: a name says which file is meant."""
    places: dict[str, list[str]] = {}
    for path in sorted((root / "src").rglob("*")):
        if path.suffix in {".h", ".hpp"}:
            places.setdefault(path.name, []).append(path.relative_to(root).parent.as_posix())
    return [f"{name}: in {', '.join(folders)}" for name, folders in sorted(places.items()) if len(folders) > 1]


# What the README of a folder says: a title, what it may touch, and where to begin.
README_SAYS = {"its title": r"\A# \S", "what the folder may include": r"\binclud", "where to begin": r"^## Where to begin|\bBegin\b"}
README_LINES_MAX = 70


def silent_folders(root: Path) -> list[str]:
    """Folders below `root/src` with product sources, each with what its README does not say, or that it is too long."""
    found: list[str] = []
    for folder in sorted(path for path in (root / "src").rglob("*") if path.is_dir()):
        sources = [path for path in folder.iterdir() if path.suffix in SOURCE_SUFFIXES]
        if all(is_test_code(path.relative_to(root / "src")) for path in sources):
            continue
        name = folder.relative_to(root).as_posix()
        text = (folder / "README.md").read_text() if (folder / "README.md").exists() else ""
        missing = [what for what, pattern in README_SAYS.items() if not re.search(pattern, text, re.MULTILINE)]
        found += [f"{name}: its README does not say {what}" for what in missing] if text else [f"{name}: has no README"]
        if text.count("\n") > README_LINES_MAX:
            found.append(f"{name}: its README is longer than {README_LINES_MAX} lines")
    return found


def is_test_code(path: Path) -> bool:
    """Whether a file is part of the tests only: beside the code (`*_test.cc`, `*_fuzz.cc`) or under `testing` or `fuzz`."""
    return path.stem.endswith(("_test", "_fuzz", "_benchmark")) or not {"testing", "fuzz"}.isdisjoint(path.parts)


def check_include(layers: list[str], layer: str, path: Path, name: str, quoted: bool) -> str | None:
    """Why `path` (of `layer`) may not include `name`, or None when it may."""
    target = name.split("/")[0]
    if target in layers and "/" in name:
        if layers.index(target) > layers.index(layer):
            return f'layer "{layer}" includes "{name}", but "{target}" stands below it in src/LAYERS'
    elif quoted and layer != "kedge":
        return f'"{name}" does not begin with the name of a layer'
    if is_test_code(path) or name in EXCEPTIONS.get(path.as_posix(), set()):
        return None
    if TEST_ONLY.fullmatch(name):
        return f'"{name}" is for tests, and this file is not one'
    for pattern, allowed, what in DOORS:
        if re.fullmatch(pattern, name) and layer not in allowed:
            return f'"{name}" belongs to {what}: only {", ".join(sorted(allowed))} may include it'
    return None


def violations(root: Path) -> list[str]:
    """All violations under `root`, as `file:line: reason`."""
    layers = read_layers(root)
    found: list[str] = []
    folders = sorted(folder for folder in (root / "src").iterdir() if folder.is_dir())
    found += [f"src/{folder.name}: is not in src/LAYERS" for folder in folders if folder.name not in layers]
    places = [(folder.name, folder) for folder in folders if folder.name in layers]
    if "kedge" in layers and (root / "include" / "kedge").is_dir():
        places.append(("kedge", root / "include" / "kedge"))
    for layer, folder in places:
        for path in sorted(folder.rglob("*")):
            if path.suffix not in SOURCE_SUFFIXES:
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                match = INCLUDE.match(line)
                if match is None:
                    continue
                reason = check_include(layers, layer, path.relative_to(root), match[1] or match[2], match[2] is not None)
                if reason is not None:
                    found.append(f"{path.relative_to(root)}:{number}: {reason}")
    for folder in folders:
        rooms = rooms_of(folder)
        inside = {path.name for path in folder.iterdir() if path.is_dir()} - {"testing", "fuzz"} if rooms else set()
        found += [f"src/{folder.name}/{name}: is not in ROOMS" for name in sorted(inside - set(rooms))]
        found += [f'{path.relative_to(root)}: includes "{name}" of a lower room' for path, name in downward_includes(folder)]
    return found


if __name__ == "__main__":
    problems = violations(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[2])
    print("\n".join(problems) or "the layers hold")
    sys.exit(1 if problems else 0)
