"""Persistent requests, requests that are freed under way, and calls that look at many."""

from __future__ import annotations

import pytest

from conftest import REQUESTS, Launch, Nodes


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_requests_do_as_the_header_says(launch: Launch, ranks: int) -> None:
    ended = launch("-n", ranks, REQUESTS, "all").wait()
    assert (ended.code, ended.out, ended.err) == (0, "ok\n", "")


def test_they_do_so_between_nodes(launch: Launch, nodes: Nodes) -> None:
    ended = launch("-n", 5, "--virtual", nodes.some(3), REQUESTS, "all").wait()
    assert (ended.code, ended.out, ended.err) == (0, "ok\n", "")


def test_a_rank_leaves_when_all_is_sent_that_it_does_not_wait_for(launch: Launch) -> None:
    ended = launch("-n", 2, REQUESTS, "unreceived").wait()
    assert (ended.code, ended.out, ended.err) == (0, "ok\n", "")


def test_persistent_requests_of_before_the_loop_outlive_deaths(launch: Launch) -> None:
    """Of the ranks that live, and of the one that is started again, which makes them anew."""
    ended = launch("-n", 4, REQUESTS, "survive").wait()
    assert (ended.code, ended.out) == (0, "ok\n"), ended.err
    assert ended.err.count("was killed by signal 9; it is started again") == 3


def test_they_outlive_deaths_between_nodes(launch: Launch, nodes: Nodes) -> None:
    ended = launch("-n", 4, "--virtual", nodes.some(2), REQUESTS, "survive").wait()
    assert (ended.code, ended.out) == (0, "ok\n"), ended.err


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("started-twice", "FMI_Start: the request was started before, and nobody has waited for it"),
        ("freed", "FMI_Start: persistent request 1 is gone: it was freed"),
        ("not-persistent", "FMI_Start: the request is none that can be started"),
        ("null", "FMI_Request_free: the request is FMI_REQUEST_NULL"),
        ("no-such-rank", "FMI_Send_init: the receiver is 2, and there are 2 ranks"),
        ("never-given", "FMI_Wait: there is no request 0x4000000000000006"),
        ("too-long", "does not fit into 4 bytes"),
    ],
)
def test_misuse_ends_the_job_and_names_rank_and_call(launch: Launch, case: str, expected: str) -> None:
    ended = launch("-n", 2, REQUESTS, case).wait()
    assert ended.code == 1
    assert expected in ended.err
