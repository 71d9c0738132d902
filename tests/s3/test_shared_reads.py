"""Ranks of a node whose images share blocks restart from a bucket: its server sends each block once."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from relay import Relay, relay
from threaded_communicator import ThreadedCommunicator, run_ranks
from tool import kedge_json

from kedge import Context, Level

MIB = 1 << 20
# More than the agent has memory to share.
COMMON, OWN = 36 * MIB, 4 * MIB
SETTINGS = {"job.lease": "2s", "reduce.deduplicate": "node"}


def content(job: str, rank: int) -> NDArray[np.uint8]:
    common, own = (np.random.default_rng([len(job), seed]) for seed in (0, 1 + rank))
    return np.frombuffer(common.bytes(COMMON) + own.bytes(OWN), dtype=np.uint8)


def take(job: str, ranks: int) -> int:
    """How many bytes the store has of the version: a rank that a busy machine holds up has all of its blocks there."""

    def body(rank: int, communicator: ThreadedCommunicator) -> None:
        with Context(job, settings=SETTINGS, communicator=communicator) as context:
            array = content(job, rank).copy()
            context.protect(0, array)
            context.checkpoint("c", version)
            context.wait("c", version, Level.STORE)

    for version in range(1, 11):
        run_ranks(ranks, body)
        images = kedge_json("inspect", f"{job}/c@{version}", "--all-ranks")["images"]
        if sum(image["borrowed_bytes"] for image in images) >= (ranks - 2) * COMMON:
            return sum(int(image["own_bytes"]) for image in images)
    pytest.fail("the ranks' images were never written together")


def restart(job: str, ranks: int) -> int:
    """How many bad copies the ranks have passed over."""
    corrupt = [0] * ranks

    def body(rank: int, communicator: ThreadedCommunicator) -> None:
        with Context(job, settings=SETTINGS, communicator=communicator) as context:
            array = np.zeros(COMMON + OWN, dtype=np.uint8)
            context.protect(0, array)
            assert context.restart("c") > 0
            assert (array == content(job, rank)).all()
            corrupt[rank] = context.statistics.corrupt_copies

    run_ranks(ranks, body)
    return sum(corrupt)


@pytest.fixture
def server(s3_store: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Relay]:
    with relay(os.environ["AWS_ENDPOINT_URL"]) as one:
        monkeypatch.setenv("AWS_ENDPOINT_URL", one.endpoint)
        monkeypatch.setenv("KEDGE_POOL_SIZE", "1GiB")
        yield one


@pytest.fixture
def forget_all(run_folder: Path, end_own_agent: Callable[[], None]) -> Callable[[], None]:
    def forget() -> None:
        end_own_agent()
        shutil.rmtree(run_folder, ignore_errors=True)

    return forget


def test_the_server_sends_each_block_once_for_a_node(server: Relay, forget_all: Callable[[], None]) -> None:
    stored = take("shared", 8)
    forget_all()
    server.sent = 0
    assert restart("shared", 8) == 0
    assert stored <= server.sent <= 1.2 * stored


@pytest.mark.slow
def test_two_jobs_restart_at_once(server: Relay, forget_all: Callable[[], None]) -> None:
    stored = sum(take(job, 3) for job in ("one", "second"))
    forget_all()
    server.sent = 0
    failures: list[BaseException] = []

    def run(job: str) -> None:
        try:
            assert restart(job, 3) == 0
        except BaseException as failure:  # noqa: BLE001
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(job,)) for job in ("one", "second")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    assert server.sent <= 1.5 * stored


def test_a_byte_that_came_wrong_to_all_is_read_anew_by_each(server: Relay, forget_all: Callable[[], None]) -> None:
    take("shared", 3)
    forget_all()
    server.sent, server.damage_at = 0, 8 * MIB
    assert restart("shared", 3) > 0
    assert server.damage_at is None


def test_ranks_whose_agent_dies_while_it_reads_for_them_read_by_themselves(
    server: Relay, forget_all: Callable[[], None], run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take("shared", 3)
    forget_all()
    monkeypatch.setenv("KEDGE_TEST_KILL_POINT", "shared-line:7")
    assert restart("shared", 3) == 0
    assert (run_folder / "agent.log").read_text().count(" serves node ") == 2, "it has a successor"
