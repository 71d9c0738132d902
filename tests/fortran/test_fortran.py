"""Runs the Fortran test programs on a node of their own; each prints what is wrong and ends with an error then."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("BUILD_FOLDER", ROOT / "build"))
sys.path.insert(0, str(ROOT / "examples" / "support"))

from node import Node  # noqa: E402


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Node(pool_bytes=64 << 20) as node:
        yield node


def run(node: Node, command: list[str]) -> str:
    done = subprocess.run(command, cwd=node.folder, env=node.mpi_environment("fortran"), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_an_array_of_every_type_kind_and_rank_comes_back(node: Node) -> None:
    assert "arrays: 192" in run(node, [str(BUILD / "test" / "fortran_every_array")])


@pytest.mark.parametrize("program", ["refusals", "api"])
def test_program(node: Node, program: str) -> None:
    assert f"{program}: passed" in run(node, [str(BUILD / "test" / f"fortran_{program}")])


@pytest.mark.parametrize("binding", ["mpi", "mpi_f08"])
@pytest.mark.parametrize(
    ("suffix", "launchers"),
    [
        pytest.param("", ("mpirun.openmpi", "mpirun"), marks=pytest.mark.needs("MPI")),
        pytest.param("-mpich", ("mpiexec.mpich", "mpiexec.hydra"), marks=pytest.mark.needs("MPICH")),
    ],
)
def test_communicators_of_both_bindings(node: Node, binding: str, suffix: str, launchers: tuple[str, ...]) -> None:
    program = BUILD / "test" / f"fortran_{binding}{suffix}"
    launcher = next(filter(None, map(shutil.which, launchers)))
    output = run(node, [launcher, "-n", "4", str(program)])
    assert output.count(f"{binding}: passed") == 4
