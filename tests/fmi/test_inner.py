"""Loops within steps, of which ranks and nodes die: they go on from their own checkpoints, to the result of an undisturbed run."""

from __future__ import annotations

import random
import re
import shlex
import time

import pytest
from waiting import until

from conftest import BUILD, Ended, Launch, Nodes, armed

INNER = BUILD / "test" / "fmi_inner"
JUMPING = BUILD / "test" / "fmi_inner_jumping"
STEPS, TURNS = 4, 60  # each of two loops in a step


def turns(ended: Ended) -> int:
    """What rank 0 has made of them, in all."""
    (found,) = re.findall(r"^turns (\d+)$", ended.out, re.MULTILINE)
    return int(found)


def dies(moments: dict[tuple[int, int], str], program: object = INNER) -> list[str]:
    """The program, in which rank r, started for the n-th time (from 0), dies at moments[r, n]: "LOOP STEP TURN"."""
    cases = "".join(f"{rank}.{respawns}) export KILLS='{moment}';;" for (rank, respawns), moment in moments.items())
    return ["sh", "-c", f"case $FMI_RANK.$FMI_RESPAWNS in {cases} esac; exec {shlex.quote(str(program))} survive"]


@pytest.fixture
def expected(launch: Launch) -> str:
    ended = launch("-n", 2, "--interval", 1000, "env", "KEDGE_JOB_NAME=undisturbed", INNER, "survive").wait()
    assert ended.code == 0, ended.err
    assert turns(ended) == 2 * STEPS * TURNS
    return ended.result()


@pytest.mark.parametrize("program", [INNER, JUMPING], ids=["looks at results", "jumps"])
@pytest.mark.parametrize(
    ("moment", "again"),
    [
        ("first 2 47", 7),
        ("second 2 47", 7),
        ("between 3 0", 1),
        ("first 0 47", 7),  # on top of the first checkpoint of all
        ("behind 3 0", 0),
    ],
)
def test_a_loop_goes_on_from_its_own_checkpoint(launch: Launch, expected: str, program: object, moment: str, again: int) -> None:
    """Rank 1 dies there. What rank 0 makes again are the turns since the last checkpoints."""
    ended = launch("-n", 2, "--interval", 20, *dies({(1, 0): moment}, program)).wait()
    assert ended.code == 0, ended.err
    assert ended.result() == expected
    assert ended.err.count("was killed by signal 9; it is started again") == 1
    # It may have been a turn further, or was not told yet.
    assert abs(turns(ended) - (2 * STEPS * TURNS + again)) <= 1


def test_steps_without_a_checkpoint_have_none_of_their_loops(launch: Launch, expected: str) -> None:
    """Of the first step there is one. FMI_Loop takes the second's because the first one's loop has asked for it, and so on."""
    ended = launch("-n", 2, "--interval", 50, *dies({(1, 0): "first 1 30"})).wait()
    assert ended.code == 0, ended.err
    assert ended.result() == expected
    assert abs(turns(ended) - (2 * STEPS * TURNS + 30)) <= 1


KILLS = {
    "at a checkpoint of the loop": {(1, 0): "fmi.inner:3"},
    "both, one after the other": {(1, 0): "fmi.inner:4", (0, 0): "fmi.inner:6"},
    "while it comes back": {(1, 0): "fmi.inner:4", (0, 0): "fmi.restore-inner"},
    "the successor while it comes back": {(1, 0): "fmi.inner:4", (1, 1): "fmi.restore-inner"},
    "both at once while it comes back": {(1, 0): "fmi.inner:4", (1, 1): "fmi.restore-inner", (0, 0): "fmi.restore-inner"},
    "at the step's checkpoint": {(1, 0): "fmi.checkpoint:3"},
}


@pytest.mark.parametrize("kills", KILLS.values(), ids=KILLS.keys())
def test_a_death_at_any_point_changes_nothing_in_the_result(launch: Launch, expected: str, kills: dict[tuple[int, int], str]) -> None:
    ended = launch("-n", 2, "--interval", 20, *armed([str(INNER), "survive"], kills)).wait()
    assert ended.code == 0, ended.err
    assert ended.result() == expected
    assert ended.err.count("was killed by signal 9; it is started again") == len(kills)


def test_random_kills_of_ranks_and_of_a_node_change_nothing(launch: Launch, nodes: Nodes, expected: str) -> None:
    """A step that is begun again may leave checkpoints of loops that belong to another course of the job."""
    job = launch("-n", 2, "--virtual", nodes.some(3), "--spares", 1, "--interval", 7, "--failures", 100, INNER, "survive")
    for number in range(8):
        time.sleep(random.uniform(0.02, 0.15))
        if number == 5:
            until(lambda: nodes.has_checkpoint(nodes.names[1]))
            nodes.lose(nodes.names[1])
        else:
            job.kill(number % 2)
    ended = job.wait()
    assert ended.result() == expected, ended.err


def test_a_job_that_is_run_again_goes_on_in_its_loop(launch: Launch, expected: str) -> None:
    first = launch("-n", 2, "--interval", 20, "--failures", 0, *dies({(1, 0): "second 2 47"})).wait()
    assert first.code != 0
    second = launch("-n", 2, "--interval", 20, INNER, "survive").wait()
    assert second.code == 0, second.err
    assert second.result() == expected
    # The rest of the third step, whose first loop was over, and the fourth one.
    assert turns(second) == TURNS - 40 + 2 * TURNS


def test_a_loop_whose_checkpoint_does_not_come_back_begins_its_step_again(launch: Launch, expected: str) -> None:
    """Here because the program gives it other arrays. Those of the step come back once more, without the loop's."""
    first = launch("-n", 2, "--interval", 20, "--failures", 0, *dies({(1, 0): "first 2 47"})).wait()
    assert first.code != 0
    second = launch("-n", 2, "--interval", 20, "env", "MORE=1", INNER, "survive").wait()
    assert second.code == 0, second.err
    assert second.result() == expected
    assert "the loop first does not go on from its checkpoint, and step 2 begins again: " in second.err
    assert turns(second) == 4 * TURNS


@pytest.mark.parametrize(
    ("case", "sentence"),
    [
        ("outside", "FMI_Inner_loop: it is called within a step of FMI_Loop"),
        ("name", 'FMI_Inner_loop: "../solve" is no name of a loop: 1 to 47 letters, digits, - and _'),
        ("apart", "this is call 1 of"),
    ],
)
def test_misuse_ends_the_job_and_says_why(launch: Launch, case: str, sentence: str) -> None:
    ended = launch("-n", 2, INNER, case).wait()
    assert ended.code != 0
    assert sentence in ended.err
