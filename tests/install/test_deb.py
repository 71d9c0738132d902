"""The Debian packages, in a Debian 12 that has nothing else: installed, used by C, Fortran, MPI and Python, and purged."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fresh_debian import ROOT, Debian, run

pytestmark = [pytest.mark.slow, pytest.mark.needs("PYTHON", "MPI", "FORTRAN", "MAN")]
NAMES = ("libkedge0", "libkedge-mpi0", "libkedge-dev", "kedge-tools", "python3-kedge")
COMPILERS = ("cmake", "gcc", "gfortran", "libc6-dev", "make", "pkg-config", "libopenmpi-dev", "openmpi-bin")
FILES = "find /usr /etc /var/lib -xdev -name '*kedge*' -not -path '/var/lib/dpkg/info/*' -not -path '/var/lib/apt/*'"


@pytest.fixture(scope="module")
def system(debian: Debian, tmp_path_factory: pytest.TempPathFactory) -> Debian:
    """A system with the packages, compilers and a manual, where programs of the examples wait in /srv."""
    made = tmp_path_factory.mktemp("packages")
    built = run("scripts/deb", made)
    assert "Building CXX object" in built and not re.search(r"_tests?\.dir|gtest|gmock", built), "tests are not part of a package"
    assert {path.name.split("_")[0] for path in made.iterdir()} == set(NAMES)
    here = Path(__file__).parent
    debian.put(*made.iterdir(), *(ROOT / "examples" / "quickstart").iterdir(), here / "consumer.c", here / "CMakeLists.txt")
    debian.install("man-db", *COMPILERS)
    debian.install("/srv/*.deb")
    return debian


AGENT = "echo agent: $(readlink /proc/[0-9]*/exe | grep kedge-agent)"


def test_a_program_in_c(system: Debian) -> None:
    build = "cc /srv/consumer.c -o consumer $(pkg-config --cflags --libs kedge)"
    output = system.do(f"{build}; ./consumer; {AGENT}; kedge ls", user="user")
    assert "restored version 7" in output and "agent: /usr/bin/kedge-agent\n" in output
    assert re.search(r"^consumer\b.*\b7\b", output, re.MULTILINE), output


def test_a_project_of_cmake(system: Debian) -> None:
    build = "export KEDGE_STORE_PATH=$HOME/cmake; cmake -S /srv -B tree -DQUICKSTART=/srv/quickstart.c -DMPI_C_COMPILER=mpicc; cmake --build tree"
    output = system.do(f"{build}; tree/consumer; mpirun --oversubscribe -n 2 tree/consumer_mpi", user="user")
    assert "restored version 7" in output and output.count("= 2525") == 2


@pytest.mark.parametrize(
    ("compiler", "source", "package"),
    [("mpicc", "quickstart.c", "kedge-mpi"), ("mpifort", "quickstart.f90", "kedge-mpi-fortran")],
)
def test_programs_with_mpi(system: Debian, compiler: str, source: str, package: str) -> None:
    """They go on where they were when they are launched again."""
    build = f"export KEDGE_STORE_PATH=$HOME/{package}; {compiler} /srv/{source} -o {package}.app $(pkg-config --cflags --libs {package})"
    launch = f"mpirun --oversubscribe -n 2 ./{package}.app"
    output = system.do(f"{build}; {launch}; {launch}; kedge ls --json", user="user")
    assert output.count("= 2525") == 4 and "continuing" in output
    assert re.search(r'"version": ?100\b', output)


def test_the_examples_build_without_a_compiler_for_cpp(system: Debian) -> None:
    folder = "/usr/share/doc/libkedge-dev"
    build = f"cmake -S {folder}/examples -B examples -DMPI_C_COMPILER=mpicc -DMPI_Fortran_COMPILER=mpifort; cmake --build examples"
    launches = "; ".join(f"mpirun --oversubscribe -n 2 examples/{name} 16 20 10" for name in ("heat3d", "heat3d-fortran"))
    output = system.do(f"export KEDGE_STORE_PATH=$HOME/examples-store; {build}; {launches}; head -n 1 {folder}/docs/how-to.md", user="user")
    assert len(set(re.findall(r"step 20, checksum \S+", output))) == 1 and "# How-to" in output


def test_python(system: Debian) -> None:
    output = system.do(
        "export KEDGE_STORE_PATH=$HOME/python; for launch in 1 2; do python3 /srv/quickstart.py; done; kedge verify; kedge run --help", "user"
    )
    assert output.count("field[0] = 2525") == 2 and "continuing from step 100" in output and "usage: kedge run" in output


def test_the_manual_and_completion(system: Debian) -> None:
    """The index of the manual is made by the installation itself."""
    found = system.do("man -k kedge", user="user")
    pages = {path.name.removesuffix(".scd.in") for path in (ROOT / "docs" / "man").glob("*.scd.in")}
    for name, section in (page.rsplit(".", 1) for page in pages):
        assert f"{name} ({section})" in found
    assert "remove a version" in system.do("man kedge-rm | cat", user="user")
    assert "complete -o filenames" in system.do("cat /usr/share/bash-completion/completions/kedge")


def test_nothing_is_left_when_they_are_purged(system: Debian) -> None:
    """Python writes what it has compiled beside its sources, as root."""
    system.do("python3 -c 'import kedge'; kedge report --help")
    assert "/usr/bin/kedge\n" in system.do(FILES)
    system.do(f"apt-get -qq purge -y {' '.join(NAMES)}")
    assert system.do(FILES) == ""
