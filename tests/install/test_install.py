"""An installed Kedge, moved elsewhere after the installation, serves programs outside it: by CMake, pkg-config and Fortran."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from waiting import until

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ["BUILD_FOLDER"])
COMPILERS = {"C": "mpicc", "CXX": "mpicxx", "Fortran": "mpifort"}
COMPONENTS = {"openmpi": "mpi", "mpich": "mpi-mpich"}
LAUNCHERS = {"openmpi": ["mpirun.openmpi", "-n", "2"], "mpich": ["mpiexec.mpich", "-n", "2"]}


def run(*command: str | Path, **environment: str) -> str:
    """Runs a command, which must succeed; its standard output."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, env={**os.environ, **environment})
    assert done.returncode == 0, f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Kedge lies. It was installed somewhere else first, so that a path baked into it leads nowhere."""
    folder = tmp_path_factory.mktemp("install")
    run("cmake", "--install", BUILD, "--prefix", folder / "first")
    return (folder / "first").rename(folder / "moved")


def test_the_planner_is_one_command_with_the_tools(prefix: Path) -> None:
    for folder in (BUILD / "bin", prefix / "bin"):
        assert "tsubame2" in run(folder / "kedge", "plan", "advise", "--list", PYTHONPATH="", KEDGE_PLAN_PYTHON=sys.executable)


@pytest.mark.needs("MAN")
def test_the_manual_is_there(prefix: Path) -> None:
    pages = {path.name for path in (prefix / "share" / "man").glob("man*/*")}
    assert pages >= {"kedge.1", "kedge-ls.1", "kedge-agent.1", "kedge-plan.1", "kedge.3", "kedge.toml.5"}


@pytest.mark.needs("MAN")
def test_the_manual_is_searched_by_word(prefix: Path) -> None:
    (command,) = re.findall(r"`(mandb \S+)`", (ROOT / "docs" / "install.md").read_text())
    run(*command.replace("PREFIX", str(prefix)).split())
    found = run("man", "-k", "kedge", MANPATH=str(prefix / "share" / "man"))
    assert {line.split()[0] for line in found.splitlines()} >= {"kedge", "kedge-ls", "kedge-run", "kedge.toml"}


def pkg_config(prefix: Path, package: str) -> list[str]:
    """The flags for compiling and linking against a package of the prefix; a run path to its libraries is among them."""
    (configuration,) = prefix.glob("lib/**/pkgconfig")
    return run("pkg-config", "--cflags", "--libs", package, PKG_CONFIG_PATH=str(configuration)).split()


def libraries_of(program: Path) -> set[Path]:
    """The Kedge libraries that the loader gives to a program."""
    lines = [line.split() for line in run("ldd", program).splitlines() if "libkedge" in line]
    return {Path(line[2]).resolve() for line in lines}


def test_programs_and_headers_are_there(prefix: Path) -> None:
    assert {path.name for path in (prefix / "bin").iterdir()} >= {"kedge", "kedge-agent", "kedge-plan"}
    assert {path.name for path in (prefix / "include" / "kedge").iterdir()} >= {
        *("kedge.h", "kedge.hpp", "kedge_mpi.h", "veloc.h", "bb.h", "bb.hpp", "fmi.h", "fmi.hpp", "fmi_jump.h"),
    }
    assert "ls" in run(prefix / "bin" / "kedge", "--help")


@pytest.mark.needs("FORTRAN")
def test_fortran_modules_and_what_they_say_are_there(prefix: Path) -> None:
    folder = prefix / "include" / "kedge" / "fortran"
    assert {path.name for path in folder.iterdir()} >= {"kedge.mod", "kedge.f90", "kedge_mpi.f90"}
    assert (folder / "mpich" / "kedge_mpi.mod").exists() == (BUILD / "include" / "mpich").exists()


@pytest.mark.needs("PYTHON")
def test_python_finds_what_the_document_says(prefix: Path) -> None:
    """With the extension, and with the libraries of the prefix."""
    (folder,) = re.findall(r"PYTHONPATH=PREFIX/(\S+)`", (ROOT / "docs" / "install.md").read_text())
    program = "import kedge; kedge.Context; print(next(line for line in open('/proc/self/maps') if 'libkedge.so' in line))"
    assert str(prefix.resolve() / "lib") in run(sys.executable, "-c", program, PYTHONPATH=str(prefix / folder))


@pytest.mark.needs("MPI")
def test_cmake_package(prefix: Path, agent_program: Callable[[], Path], tmp_path: Path) -> None:
    quickstart = ROOT / "examples" / "quickstart" / "quickstart.c"
    run(
        *("cmake", "-S", Path(__file__).parent, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}"),
        *("-DMPI_C_COMPILER=mpicc.openmpi", f"-DQUICKSTART={quickstart}"),
    )
    run("cmake", "--build", tmp_path / "build")
    assert libraries_of(tmp_path / "build" / "consumer") == {(prefix / "lib" / "libkedge.so").resolve()}
    assert "restored version 7" in run(tmp_path / "build" / "consumer")
    assert agent_program() == prefix.resolve() / "bin" / "kedge-agent"
    assert run(*LAUNCHERS["openmpi"], tmp_path / "build" / "consumer_mpi").count("= 2525") == 2


@pytest.mark.usefixtures("run_folder")
@pytest.mark.needs("MPI")
@pytest.mark.parametrize(
    ("language", "component", "source"),
    [
        ("CXX", "mpi", "quickstart.cc"),
        pytest.param("Fortran", "mpi-fortran", "quickstart.f90", marks=pytest.mark.needs("FORTRAN")),
    ],
)
def test_cmake_brings_the_mpi_of_the_projects_language(prefix: Path, tmp_path: Path, language: str, component: str, source: str) -> None:
    (tmp_path / "CMakeLists.txt").write_text(
        f"cmake_minimum_required(VERSION 3.25)\nproject(x LANGUAGES {language})\nset(CMAKE_CXX_STANDARD 17)\n"
        f"find_package(kedge REQUIRED COMPONENTS {component})\nadd_executable(app {ROOT}/examples/quickstart/{source})\n"
        f"target_link_libraries(app PRIVATE kedge::{component})\n"
    )
    compilers = ("-DMPI_CXX_COMPILER=mpicxx.openmpi", "-DMPI_Fortran_COMPILER=mpifort.openmpi")
    run("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}", *compilers)
    run("cmake", "--build", tmp_path / "build")
    assert run(*LAUNCHERS["openmpi"], tmp_path / "build" / "app").count("= 2525") == 2


def test_cmake_package_says_what_it_lacks(prefix: Path, tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(x LANGUAGES C)\nfind_package(kedge COMPONENTS nonsense)\n"
        "if(kedge_FOUND)\n  message(FATAL_ERROR found)\nendif()\n"
    )
    run("cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={prefix}")


@pytest.mark.needs("MPI")
@pytest.mark.parametrize("standard", ["c++17", "c++20"])
def test_the_header_for_cpp(prefix: Path, agent_program: Callable[[], Path], tmp_path: Path, standard: str) -> None:
    """Nothing but the language's own old standard is refused, with a sentence."""
    source, flags = ROOT / "examples" / "quickstart" / "quickstart.cc", pkg_config(prefix, "kedge-mpi")
    run("mpicxx.openmpi", f"-std={standard}", "-DOMPI_SKIP_MPICXX=1", "-Wall", "-Wextra", "-Wpedantic", "-Werror", source, "-o", tmp_path / "app", *flags)
    assert run(*LAUNCHERS["openmpi"], tmp_path / "app").count("= 2525") == 2
    assert agent_program() == prefix.resolve() / "bin" / "kedge-agent"
    old = subprocess.run(["mpicxx.openmpi", "-std=c++14", "-c", source, *flags], capture_output=True, text=True, cwd=tmp_path)
    assert old.returncode != 0 and "kedge.hpp needs C++17" in old.stderr


def test_the_tutorial_is_compiled_with_what_is_installed(prefix: Path, tmp_path: Path) -> None:
    page = (prefix / "share" / "doc" / "kedge" / "docs" / "tutorial.md").read_text()
    (program,) = re.findall(r"^Save this as `tutorial.c`:\n\n```c\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (command,) = re.findall(r"`(cc tutorial.c .*)`", page)
    (tmp_path / "tutorial.c").write_text(program)
    (configuration,) = prefix.glob("lib/**/pkgconfig")
    run("bash", "-euc", f"cd {tmp_path}; {command}", PKG_CONFIG_PATH=str(configuration))
    assert libraries_of(tmp_path / "tutorial") == {(prefix / "lib" / "libkedge.so").resolve()}


def test_pkg_config(prefix: Path, agent_program: Callable[[], Path], tmp_path: Path) -> None:
    program = tmp_path / "consumer"
    run("cc", Path(__file__).parent / "consumer.c", "-o", program, *pkg_config(prefix, "kedge"))
    assert "restored version 7" in run(program)
    assert agent_program() == prefix.resolve() / "bin" / "kedge-agent"


@pytest.mark.parametrize(
    "mpi", [pytest.param("openmpi", marks=pytest.mark.needs("MPI")), pytest.param("mpich", marks=pytest.mark.needs("MPICH"))]
)
@pytest.mark.parametrize("language", ["c", pytest.param("fortran", marks=pytest.mark.needs("FORTRAN"))])
def test_pkg_config_with_mpi(prefix: Path, agent_program: Callable[[], Path], tmp_path: Path, mpi: str, language: str) -> None:
    package = "kedge-mpi" + ("-mpich" if mpi == "mpich" else "") + ("-fortran" if language == "fortran" else "")
    compiler, source = {"c": ("mpicc", "quickstart.c"), "fortran": ("mpifort", "quickstart.f90")}[language]
    program = tmp_path / "quickstart"
    run(f"{compiler}.{mpi}", ROOT / "examples" / "quickstart" / source, "-o", program, *pkg_config(prefix, package))
    assert all(library.is_relative_to(prefix.resolve()) for library in libraries_of(program))
    assert run(*LAUNCHERS[mpi], program).count("= 2525") == 2
    assert agent_program() == prefix.resolve() / "bin" / "kedge-agent"


@pytest.mark.needs("FORTRAN")
@pytest.mark.parametrize(
    "mpi", [pytest.param("openmpi", marks=pytest.mark.needs("MPI")), pytest.param("mpich", marks=pytest.mark.needs("MPICH"))]
)
@pytest.mark.usefixtures("run_folder")
def test_the_examples_build_from_the_prefix(prefix: Path, tmp_path: Path, mpi: str) -> None:
    """By the commands of the page, with the compilers of one MPI."""
    page = (ROOT / "docs" / "install.md").read_text()
    commands = re.findall(r"^(cmake .*examples.*)$", page, re.MULTILINE)
    assert len(commands) == 2
    options = " ".join(f"-DMPI_{language}_COMPILER={compiler}.{mpi}" for language, compiler in COMPILERS.items())
    commands[0] += f" {options} -DKEDGE_MPI={COMPONENTS[mpi]}"
    run("bash", "-euc", f"cd {tmp_path}; " + "; ".join(commands).replace("PREFIX", str(prefix)))
    built = {path.name for path in (tmp_path / "examples").iterdir() if path.is_file() and os.access(path, os.X_OK)}
    assert built >= {f"{name}{suffix}" for name in ("quickstart", "heat3d", "shallow") for suffix in ("", "-fortran")} | {"tree", "jacobi", "quickstart-cpp"}
    assert (mpi == "openmpi") == ("lammps-copper" in built)
    heat = [run(*LAUNCHERS[mpi], tmp_path / "examples" / name, "16", "20", "10", KEDGE_JOB_NAME=name) for name in ("heat3d", "heat3d-fortran")]
    assert len({re.findall(r"checksum \S+", output)[0] for output in heat}) == 1, heat


def test_links_between_installed_pages_lead_somewhere(prefix: Path) -> None:
    folder = prefix / "share" / "doc" / "kedge"
    pages = [*folder.glob("*.md"), *folder.glob("docs/*.md"), *folder.glob("[be]*/**/*.md")]
    assert {path.name for path in pages} >= {"README.md", "install.md", "tutorial.md", "how-to.md", "reference.md"}
    for page in pages:
        for link in re.findall(r"[^\[]\]\((?!https?:|#)([^)#]+)", page.read_text()):
            assert (page.parent / link).exists(), f"{page}: {link}"


def test_a_job_of_fmi_and_its_launcher(prefix: Path, agent_program: Callable[[], Path], tmp_path: Path) -> None:
    program = tmp_path / "jacobi"
    run("cc", ROOT / "examples" / "fmi" / "jacobi.c", "-o", program, *pkg_config(prefix, "kedge-fmi"))
    assert libraries_of(program) == {(prefix / "lib" / f"lib{name}.so").resolve() for name in ("kedge", "kedge-fmi")}
    assert "steps 20, residual" in run(prefix / "bin" / "fmirun", "-n", "2", program, "8", "20")
    assert agent_program() == prefix.resolve() / "bin" / "kedge-agent"


def test_a_program_for_mpi_on_fmi(prefix: Path, agent_program: Callable[[], Path], tmp_path: Path) -> None:
    """The library is that of the prefix, where no other program finds it."""
    program = tmp_path / "heat"
    mpicc = Path(sys.prefix) / "bin" / "mpicc_abi"
    run(mpicc, ROOT / "examples" / "fmi" / "heat.c", "-o", program, "-I", prefix / "include")
    assert [path.name for path in (prefix / "lib" / "kedge" / "mpi_abi").iterdir()] == ["libmpi_abi.so.1"]
    assert "steps 20, change" in run(prefix / "bin" / "fmirun", "-n", "2", program, "16", "20")
    assert agent_program() == prefix.resolve() / "bin" / "kedge-agent"


def test_a_burst_buffer_by_its_unit_and_a_program_by_pkg_config(prefix: Path, tmp_path: Path) -> None:
    """What systemd would run, with the options that an operator gives; and the library, which needs no other of Kedge."""
    program = tmp_path / "steps"
    run("cc", ROOT / "tests" / "buffer" / "steps" / "steps.c", "-o", program, *pkg_config(prefix, "kedge-bb"))
    assert libraries_of(program) == {(prefix / "lib" / "libkedge-bb.so").resolve()}
    unit = (prefix / "lib" / "systemd" / "system" / "kedge-buffer@.service").read_text()
    start = re.search(r"^ExecStart=\S*/(kedge-buffer .*)$", unit, re.MULTILINE)
    assert start
    shared = {"FOLDER": str(tmp_path), "OWNER": "alice", "SECRET": str(tmp_path / "secret")}
    options = f"--path {tmp_path}/data --folder {tmp_path} --owner alice:{tmp_path}/secret --interface 127.0.0.1"
    command = start[1].replace("%i", "fast").replace("$OPTIONS", options).split()
    server = subprocess.Popen([prefix / "bin" / command[0], *command[1:]])
    try:
        until((tmp_path / "fast.buffer").exists)
        run(program, **{f"KEDGE_BUFFER_{key}": value for key, value in shared.items()})
        server.terminate()
        assert server.wait(30) == 0
    finally:
        server.kill()
        server.wait()
