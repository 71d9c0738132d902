"""Parts of nodes' ranks, of groups, of arrays and of messages."""

from __future__ import annotations

import pytest

from conftest import BUILD, Launch, Nodes

PARTS = BUILD / "test" / "fmi_parts"


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_parts_are_as_the_header_says(launch: Launch, ranks: int) -> None:
    ended = launch("-n", ranks, PARTS, "all").wait()
    assert (ended.code, ended.out, ended.err) == (0, "ok\n", "")


def test_ranks_of_a_node_have_a_communicator_that_comes_back(launch: Launch, nodes: Nodes) -> None:
    ended = launch("-n", 5, "--virtual", nodes.some(2), PARTS, "node").wait()
    assert ended.code == 0, ended.err
    assert sorted(ended.out.splitlines()) == [
        *("rank 0: place 2 of 3, from 0, sum 3", "rank 1: place 1 of 3, from 0, sum 3", "rank 2: place 0 of 3, from 0, sum 3"),
        *("rank 3: place 1 of 2, from 3, sum 7", "rank 4: place 0 of 2, from 3, sum 7"),
    ]
    assert ended.err.count("was killed by signal 9; it is started again") == 1


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("too-far", "FMI_Pack: 1 bytes from 1 on do not lie within 1"),
        ("no-part", "FMI_Type_create_subarray: 3 elements from 2 on are no part of 4"),
    ],
)
def test_misuse_ends_the_job_and_names_rank_and_call(launch: Launch, case: str, expected: str) -> None:
    ended = launch("-n", 2, PARTS, case).wait()
    assert ended.code == 1
    assert expected in ended.err
