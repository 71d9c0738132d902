"""Programs that ignore what calls return: in C broken calls jump back to FMI_Loop, in C++ they throw."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import pytest

from conftest import BUILD, Launch, Nodes, armed, assert_survived
from test_abi import ROOT, compiled, on_mpich

JUMP = BUILD / "test" / "fmi_jump"
JUMPING = BUILD / "test" / "fmi_jumping"
THROWING = BUILD / "test" / "fmi_throwing"
CARELESS_CPP = BUILD / "examples" / "careless-cpp"


@pytest.fixture(scope="module")
def careless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(ROOT / "examples" / "fmi" / "careless.c", tmp_path_factory.mktemp("careless"))


def test_broken_calls_jump_back_to_the_loop(launch: Launch) -> None:
    """Of ranks that die among their calls, between them, and behind the loop."""
    ended = launch("-n", 4, JUMP, "survive").wait()
    assert (ended.code, ended.out) == (0, "ok\n"), ended.err
    assert ended.err.count("was killed by signal 9; it is started again") == 5


def test_they_do_so_between_nodes(launch: Launch, nodes: Nodes) -> None:
    ended = launch("-n", 4, "--virtual", nodes.some(2), JUMP, "survive").wait()
    assert (ended.code, ended.out) == (0, "ok\n"), ended.err


def test_a_function_that_has_returned_is_no_place_to_jump_to(launch: Launch) -> None:
    ended = launch("-n", 4, JUMP, "returned").wait()
    assert (ended.code, ended.out) == (0, "ok\n"), ended.err
    assert ended.err.count("was killed by signal 9; it is started again") == 1


def test_a_jump_destroys_the_objects_of_the_frames_that_it_leaves(launch: Launch) -> None:
    ended = launch("-n", 4, JUMPING).wait()
    assert (ended.code, ended.out) == (0, "ok\n"), ended.err
    assert ended.err.count("was killed by signal 9; it is started again") == 2


@pytest.mark.parametrize("case", ["survive", "leaks"])
def test_broken_calls_throw_and_the_loop_goes_back(launch: Launch, case: str) -> None:
    """The library keeps nothing of calls that have been left so."""
    ended = launch("-n", 4, THROWING, case).wait()
    assert (ended.code, ended.out) == (0, "ok\n"), ended.err
    assert ended.err.count("was killed by signal 9; it is started again") == 3


KILLS = {(1, 0): "fmi.checkpoint:7", (0, 0): "fmi.restore:2", (1, 1): "fmi.h2"}


def test_a_careless_program_for_mpi_survives_and_is_the_one_of_mpich(launch: Launch, careless: Path) -> None:
    expected = on_mpich(2, careless, 400, 300).strip()
    assert launch("-n", 2, "env", "KEDGE_JOB_NAME=undisturbed", careless, 400, 300).wait().result() == expected
    ended = launch("-n", 2, "--interval", 10, *armed([str(careless), "400", "300"], KILLS)).wait()
    assert_survived(ended, expected)
    assert ended.err.count("was killed by signal 9; it is started again") == 3


def test_a_careless_program_in_cpp_survives(launch: Launch) -> None:
    expected = launch("-n", 2, "env", "KEDGE_JOB_NAME=undisturbed", CARELESS_CPP, 400, 300).wait().result()
    ended = launch("-n", 2, "--interval", 10, *armed([str(CARELESS_CPP), "400", "300"], KILLS)).wait()
    assert_survived(ended, expected)
    assert ended.err.count("was killed by signal 9; it is started again") == 3


@pytest.mark.parametrize("language", ["c", "cpp"])
def test_random_kills_change_nothing(launch: Launch, careless: Path, language: str) -> None:
    words = (careless if language == "c" else CARELESS_CPP, 40000, 6000)
    expected = launch("-n", 4, "--interval", 1000, "env", "KEDGE_JOB_NAME=undisturbed", *words).wait().result()
    job = launch("-n", 4, "--interval", 50, "--failures", 100, *words)
    for rank in (3, 0, 2, 1):
        time.sleep(random.uniform(0.2, 0.5))
        job.kill(rank)
    ended = job.wait()
    assert_survived(ended, expected)
    assert re.search("was killed by signal 9; it is started again", ended.err)
