"""Operations of the program: functions by which ranks combine elements of any type, in the order of ranks."""

from __future__ import annotations

import pytest

from conftest import OPERATIONS, Launch, Nodes


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_functions_of_the_program_combine_any_type_in_the_order_of_ranks(launch: Launch, ranks: int) -> None:
    ended = launch("-n", ranks, OPERATIONS, "all").wait()
    assert (ended.code, ended.out, ended.err) == (0, "ok\n", "")


def test_they_do_so_between_nodes(launch: Launch, nodes: Nodes) -> None:
    ended = launch("-n", 5, "--virtual", nodes.some(3), OPERATIONS, "all").wait()
    assert (ended.code, ended.out, ended.err) == (0, "ok\n", "")


def test_a_rank_that_is_started_again_has_those_of_before_its_loop(launch: Launch) -> None:
    ended = launch("-n", 4, OPERATIONS, "survive").wait()
    assert (ended.code, ended.out) == (0, "ok\n"), ended.err
    assert ended.err.count("was killed by signal 9; it is started again") == 2


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("freed", "FMI_Allreduce: operation 64 is gone: it was freed"),
        ("made-in-the-loop", "FMI: rank 1: FMI_Allreduce: operation 64 is gone: it was freed, or made by a process that has died"),
        ("of-the-language", "FMI_Op_free: operation 0 is one of the language"),
        ("counts-differ", "FMI_Reduce_scatter: ranks do not make the same call: this one is in a reduction of 8 bytes, rank 1 in a reduction of 12"),
        ("negative-count", "FMI_Reduce_scatter: the count is -1"),
        ("none", "FMI_Allreduce: the operation is FMI_OP_NULL"),
    ],
)
def test_misuse_ends_the_job_and_names_rank_and_call(launch: Launch, case: str, expected: str) -> None:
    ended = launch("-n", 2, OPERATIONS, case).wait()
    assert ended.code == 1
    assert expected in ended.err
