"""Types of the program: what is sent of them, how they refuse misuse, and that they come back after kills."""

from __future__ import annotations

import pytest

from conftest import TYPES, Launch, Nodes


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_types_travel_as_the_header_says(launch: Launch, ranks: int) -> None:
    ended = launch("-n", ranks, TYPES, "all").wait()
    assert (ended.code, ended.out, ended.err) == (0, "ok\n", "")


def test_types_travel_between_nodes(launch: Launch, nodes: Nodes) -> None:
    ended = launch("-n", 4, "--virtual", nodes.some(2), TYPES, "all").wait()
    assert (ended.code, ended.out) == (0, "ok\n"), ended.err


def test_a_type_that_was_made_in_the_loop_comes_back(launch: Launch) -> None:
    ended = launch("-n", 4, TYPES, "survive").wait()
    assert (ended.code, ended.out) == (0, "ok\n"), ended.err
    assert "rank 1 (process " in ended.err and "it is started again" in ended.err


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("uncommitted", "FMI_Send: type 64 has not been committed"),
        ("freed", "FMI_Type_commit: type 64 has been freed"),
        ("null", "FMI_Bcast: the type is FMI_DATATYPE_NULL"),
        ("never", "FMI_Type_vector: there is no type 77"),
        ("free-basic", "FMI_Type_free: type 2 is one of the language"),
        ("reduce", "FMI_Allreduce: type 64 is a derived one, which operations of the program alone can combine"),
        ("truncated", "FMI: rank 0: FMI_Recv: the message of 12 bytes from rank 1 (tag 4) does not fit into 8 bytes"),
        ("count", "FMI_Type_contiguous: the count is -1"),
        ("too-large", "FMI_Type_contiguous: the type has more than"),
    ],
)
def test_misuse_of_types_ends_the_job_and_names_rank_and_call(launch: Launch, case: str, expected: str) -> None:
    ended = launch("-n", 2, TYPES, case).wait()
    assert ended.code == 1
    assert expected in ended.err
