"""``kedge run --buffers``: burst buffers that begin with a run, live through its launches, and go with it."""

from __future__ import annotations

import os

import pytest

from heat import heat
from machine import KEDGE, Machine, name_of
from processes import kill, processes_with
from waiting import until

pytestmark = pytest.mark.needs("MPI")


def servers(machine: Machine) -> list[int]:
    ours = processes_with([f"MACHINE_OF_TEST={machine.folder.name}".encode()])
    return [process for process in ours if name_of(process) == "kedge-buffer"]


def options(machine: Machine, buffers: int) -> list[str]:
    machine.settings["KEDGE_NET_INTERFACE"] = "127.0.0.1"
    path = f"--buffer-path={machine.folder}/fast"
    return ["--launcher=openmpi", "--job=job", f"--buffers={buffers}", path, "--ranks=2", "--nodes=2", "--", "sh", "-c"]


def refused(machine: Machine, *arguments: str) -> str:
    """What is said of a run that does not begin."""
    _, log = machine.end_of(machine.start(*arguments), expect=2)
    return log


def test_files_go_to_the_buffers_of_a_run_and_go_with_it(machine: Machine) -> None:
    copy = f"{KEDGE} cp {KEDGE} bb://buffer1/rank$OMPI_COMM_WORLD_RANK && {KEDGE} ls bb://buffer1 && {KEDGE} ls bb://buffer0"
    report, log = machine.run(*options(machine, 2), copy)
    assert report["outcome"] == "finished" and report["launches"][0]["nodes"] == machine.names[:2]
    assert "rank0" in log and "rank1" in log and "0 files" in log
    assert "burst buffers are started" in report["launches"][0]["before"]
    assert not servers(machine)
    assert {path.name for path in machine.folder.iterdir() if path.suffix != ".log"} <= {"store", "fast"}
    assert not list((machine.folder / "fast").iterdir())


def test_a_buffer_that_dies_is_started_again_with_its_files(machine: Machine) -> None:
    mark = machine.folder / "written"
    rank = "$OMPI_COMM_WORLD_RANK"
    program = f"if [ ! -e {mark}{rank} ]; then {KEDGE} cp --sync {KEDGE} bb://buffer0/{rank} && touch {mark}{rank} && sleep 300; fi; "
    program += f"{KEDGE} cp bb://buffer0/0 {machine.folder}/back{rank}"
    run = machine.start(*options(machine, 1), program)
    until(lambda: all(mark.with_name(f"{mark.name}{number}").exists() for number in range(2)))
    (server,) = servers(machine)
    kill(server)
    kill(until(lambda: machine.ranks_on(machine.names[0], "sh") or machine.ranks_on(machine.names[0], "sleep"))[0])
    report, log = machine.finish(run)
    assert report["outcome"] == "finished" and len(report["launches"]) == 2
    assert f"burst buffer buffer0 on node {machine.names[3]} has ended, and is started again" in log
    assert os.stat(machine.folder / "back0").st_size == os.stat(KEDGE).st_size
    assert not servers(machine) and not list((machine.folder / "fast").iterdir())


@pytest.mark.parametrize(("count", "partner"), [(1, ""), (2, "partner=buffer1&")])
def test_a_buffer_before_the_store_ends_when_all_is_in_the_store(machine: Machine, count: int, partner: str) -> None:
    store = machine.folder / "store"
    machine.settings["KEDGE_STORE_PATH"] = f"bb://buffer0/checkpoints?{partner}drain={store}"
    report, log = machine.run(*options(machine, count)[:-5], *heat(40, 10))
    assert report["outcome"] == "finished" and "newest in the store: heat3d 40" in log
    machine.settings["KEDGE_STORE_PATH"] = str(store)
    assert machine.versions()[0] == 40
    assert not servers(machine) and not list((machine.folder / "fast").iterdir())


def test_what_cannot_be_is_said_before_anything_begins(machine: Machine) -> None:
    assert "none is left for ranks" in refused(machine, *options(machine, 4), "true")
    machine.settings["KEDGE_STORE_PATH"] = "s3://bucket/prefix?endpoint=http://127.0.0.1:1"
    assert "buffer.folder" in refused(machine, *options(machine, 1), "true")


def test_a_buffer_that_does_not_begin_is_named(machine: Machine) -> None:
    (machine.folder / "fast").write_text("no folder")
    assert f"burst buffer buffer0 does not begin on node {machine.names[3]}" in refused(machine, *options(machine, 1), "true")
