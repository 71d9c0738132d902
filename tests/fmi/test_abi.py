"""Programs for MPI's standard ABI, compiled once by MPICH's mpicc_abi: on MPICH and on FMI."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import BUILD, Launch, Nodes, armed, assert_survived

MPICH = Path(sys.prefix) / "bin"
HEADER = Path(sys.prefix) / "include" / "mpi_abi.h"
LIBRARY = BUILD / "lib" / "kedge" / "mpi_abi" / "libmpi_abi.so.1"
HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def compiled(source: Path, to: Path) -> Path:
    program = to / source.stem
    flags = ["-O1", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}"]
    subprocess.run([MPICH / "mpicc_abi", *flags, source, "-o", program], check=True)
    return program


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(HERE / "mpi_calls.c", tmp_path_factory.mktemp("mpi"))


@pytest.fixture(scope="module")
def heat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(ROOT / "examples" / "fmi" / "heat.c", tmp_path_factory.mktemp("mpi"))


def on_mpich(ranks: int, program: Path, *words: object) -> str:
    command = [MPICH / "mpiexec", "-n", ranks, program, *words]
    done = subprocess.run([str(word) for word in command], env=os.environ, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_a_binary_does_the_same_on_mpich_and_on_fmi(launch: Launch, calls: Path, ranks: int) -> None:
    ended = launch("-n", ranks, calls, "all").wait()
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == on_mpich(ranks, calls, "all")


def test_ranks_of_several_nodes_do_the_same(launch: Launch, nodes: Nodes, calls: Path) -> None:
    ended = launch("-n", 5, "--virtual", nodes.some(3), calls, "all").wait()
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == on_mpich(5, calls, "all")


def test_the_library_has_all_names_of_the_standard() -> None:
    """Those that are not implemented, too, so that each program is loaded."""
    table = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], check=True, capture_output=True, text=True).stdout
    found = set(re.findall(r" [TW] (P?MPI_\w+)$", table, re.MULTILINE))
    declared = set(re.findall(r"\b(P?MPI_\w+)\(", HEADER.read_text()))
    assert len(declared) > 1300
    assert declared - found == set()
    # And nothing else, which another library may have.
    assert {name for name in re.findall(r" [TWDBR] (\w+)$", table, re.MULTILINE)} - found == set()


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("missing", "FMI: rank 0: MPI_Win_create: FMI does not have this call"),
        ("no-such-type", "FMI has no datatype 0x2ca"),
        ("no-such-rank", "FMI_Send: the receiver is "),
    ],
)
def test_what_fmi_does_not_have_ends_with_its_name(launch: Launch, calls: Path, case: str, expected: str) -> None:
    ended = launch("-n", 1, calls, case).wait()
    assert ended.code == 1
    assert expected in ended.err


def test_abort_ends_the_job_with_its_code(launch: Launch, calls: Path) -> None:
    assert launch("-n", 2, calls, "abort").wait().code == 9


def test_a_program_without_loop_is_started_again_and_sees_no_wrong_result(launch: Launch, calls: Path) -> None:
    ended = launch("-n", 4, calls, "dies").wait()
    assert (ended.code, ended.out) == (0, "sum 16\nok\n"), ended.err
    assert "was killed by signal 9 before the first checkpoint; all ranks are started again, from the begin" in ended.err
    assert "a program that calls FMI_Loop at the head of its main loop goes back to a checkpoint" in ended.err


def test_one_line_makes_a_program_survive(launch: Launch, heat: Path) -> None:
    """The binary that survives is the one that runs on MPICH, and gives the same to the last bit."""
    expected = on_mpich(2, heat, 48, 300).strip()
    assert launch("-n", 2, "env", "KEDGE_JOB_NAME=undisturbed", heat, 48, 300).wait().result() == expected
    kills = {(1, 0): "fmi.checkpoint:7", (0, 0): "fmi.restore:2", (1, 1): "fmi.h2"}
    ended = launch("-n", 2, "--interval", 10, *armed([str(heat), "48", "300"], kills)).wait()
    assert_survived(ended, expected)
    assert ended.err.count("was killed by signal 9; it is started again") == 3


def test_random_kills_change_nothing_in_a_program_for_mpi(launch: Launch, heat: Path) -> None:
    """Of communicators and types that were made before the loop."""
    words = (heat, 64, 4000)
    expected = launch("-n", 4, "--interval", 1000, "env", "KEDGE_JOB_NAME=undisturbed", *words).wait().result()
    job = launch("-n", 4, "--interval", 50, "--failures", 100, *words)
    for rank in (3, 0, 2):
        time.sleep(0.3)
        job.kill(rank)
    assert_survived(job.wait(), expected)


def test_the_commands_of_the_example_say_the_same_on_both(run_folder: Path, tmp_path: Path) -> None:
    page = (ROOT / "examples" / "fmi" / "README.md").read_text()
    (commands,) = re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    for name in ("include", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "build").symlink_to(BUILD)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    done = subprocess.run(["sh", "-ec", commands], cwd=tmp_path, env=os.environ, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    (on_mpich_said, on_fmi_said) = done.stdout.splitlines()
    assert on_mpich_said == on_fmi_said
