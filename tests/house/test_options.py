"""What the default build needs and does not find is an error that names the package and the way to do without; and the recipe
of the packager uses options that exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PARTS = ["MPI", "MPICH", "FORTRAN", "PYTHON", "LAMMPS", "MAN"]
WITHOUT = [f"-DKEDGE_WITH_{part}=OFF" for part in PARTS]
# For each part, a configuration in which what it needs cannot be found.
MISSING = [
    ("MPI", "-DKEDGE_MPI_default_c_WRAPPER=/nowhere/mpicc", "libopenmpi-dev"),
    ("MPICH", "-DKEDGE_MPI_mpich_c_WRAPPER=/nowhere/mpicc", "libmpich-dev"),
    ("FORTRAN", "-DCMAKE_Fortran_COMPILER=NOTFOUND", "gfortran"),
    ("PYTHON", "-DKEDGE_PYTHON={folder}/python", "nanobind"),
    ("LAMMPS", "-DKEDGE_LAMMPS_LIBRARY=/nowhere/liblammps.so", "liblammps-dev"),
    ("MAN", "-DKEDGE_SCDOC=/nowhere/scdoc", "scdoc"),
]


def configure(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["cmake", "-S", str(ROOT), "-B", str(folder / "tree"), "-G", "Ninja", f"-DKEDGE_PYTHON={sys.executable}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(("part", "hidden", "package"), MISSING, ids=PARTS)
def test_a_missing_part_is_an_error_with_a_way_out(tmp_path: Path, part: str, hidden: str, package: str) -> None:
    needed = {part, "MPI"} if part == "LAMMPS" else {part}
    others = [f"-DKEDGE_WITH_{other}=OFF" for other in PARTS if other not in needed]
    bare_python = tmp_path / "python"
    bare_python.write_text(f'#!/bin/sh\n[ "$2" != nanobind ] || exit 1\nexec {sys.executable} "$@"\n')
    bare_python.chmod(0o755)
    done = configure(tmp_path, hidden.format(folder=tmp_path), *others)
    assert done.returncode != 0
    message = " ".join(done.stderr.split())
    assert package in message
    assert f"-DKEDGE_WITH_{part}=OFF" in message


@pytest.mark.parametrize("tests", ["ON", "OFF"])
def test_all_parts_can_be_left_out(tmp_path: Path, tests: str) -> None:
    done = configure(tmp_path, f"-DKEDGE_BUILD_TESTS={tests}", *WITHOUT)
    assert done.returncode == 0, done.stderr


def test_the_options_of_the_recipes_exist() -> None:
    options = set(re.findall(r"option\((KEDGE_\w+)", (ROOT / "CMakeLists.txt").read_text()))
    assert {f"KEDGE_WITH_{part}" for part in PARTS} <= options
    for recipe in ("packaging/spack/package.py", "packaging/debian/rules", "pyproject.toml", "CMakePresets.json"):
        used = set(re.findall(r"KEDGE_(?:WITH|BUILD|WARNINGS)_\w+", (ROOT / recipe).read_text()))
        assert used and used <= options, f"{recipe} sets {used - options}, which the build does not know"


def test_the_recipes_depend_on_each_library_of_the_build() -> None:
    names = {
        "libblosc-dev": "c-blosc",
        "libfmt-dev": "fmt",
        "libisal-dev": "isa-l",
        "liburing-dev": "liburing",
        "libxxhash-dev": "xxhash",
        "libfabric-dev": "libfabric",
        "libssl-dev": "openssl",
        "libcurl4-openssl-dev": "curl",
        "libpugixml-dev": "pugixml",
        "libtomlplusplus-dev": "tomlplusplus",
        "libcli11-dev": "cli11",
        "nlohmann-json3-dev": "nlohmann-json",
    }
    libraries = (ROOT / "cmake/KedgeDependencies.cmake").read_text().split("if(KEDGE_BUILD_TESTS)")[0]
    asked_for = set(re.findall(r"[\w-]+-dev\b", libraries))
    assert asked_for == names.keys()
    wanted = set(re.findall(r'depends_on\("([\w-]+)', (ROOT / "packaging/spack/package.py").read_text()))
    assert set(names.values()) <= wanted
    assert asked_for <= set((ROOT / "scripts/setup").read_text().split())
    assert asked_for <= set((ROOT / "packaging/debian/control").read_text().replace(",", " ").split())
