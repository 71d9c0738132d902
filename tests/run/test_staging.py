"""``kedge run --staging``: staging agents that begin with a run, write its checkpoints, and go with it."""

from __future__ import annotations

import time

import pytest

from heat import assert_continued, endless_heat, heat
from machine import Machine
from processes import kill
from undrained import undrained
from waiting import until

pytestmark = pytest.mark.needs("MPI")


def options(machine: Machine) -> list[str]:
    machine.settings["KEDGE_NET_INTERFACE"] = "127.0.0.1"
    return ["--launcher=openmpi", "--job=job", "--staging=1"]


def agents(machine: Machine) -> list[int]:
    return [agent for node in machine.names for agent in machine.ranks_on(node, "kedge-agent")]


def test_the_last_host_writes_the_checkpoints(machine: Machine) -> None:
    report, _ = machine.run(*options(machine), *heat(40, 10))
    assert report["outcome"] == "finished" and report["launches"][0]["nodes"] == machine.names[:2]
    assert "staging agents are started" in report["launches"][0]["before"]
    assert not agents(machine)
    # A node object each: of a staging agent, though the layout is one of files.
    objects = [path.name for path in (machine.folder / "store").rglob("data/*")]
    assert objects and all(name.startswith("n") for name in objects), objects
    assert not list(machine.folder.glob("*staging*"))


def test_a_staging_agent_that_dies_is_started_again(machine: Machine) -> None:
    run = machine.start(*options(machine), *endless_heat(machine))
    (agent,) = until(lambda: machine.ranks_on(machine.names[3], "kedge-agent"))
    machine.end_after(until(machine.versions))
    kill(agent)
    kill(until(lambda: machine.ranks_on(machine.names[1], "heat3d"))[0])
    report, log = machine.finish(run)
    assert report["outcome"] == "finished"
    assert f"the staging agent on node {machine.names[3]} has ended, and is started again" in log
    assert_continued(machine, log)


@pytest.mark.needs("PYTHON")
def test_nodes_are_free_before_the_store_has_everything(machine: Machine) -> None:
    machine.settings["KEDGE_FLUSH_RATE"] = "2MiB"
    report, log = machine.run(*options(machine), "--ranks=2", "--nodes=2", "--", *undrained(machine))
    assert report["outcome"] == "finished" and not report["not_drained"]
    assert report["freed"] == machine.names[:2] and "2 of 2 nodes are free" in log, log
    assert report["node_seconds_saved"] > 2, report
    assert machine.versions() == [1] and report["versions"] == {"sim": 1}
    assert not agents(machine)


def test_no_host_may_be_left_out(machine: Machine) -> None:
    _, log = machine.end_of(machine.start("--staging=4", "--", "true"), expect=2)
    assert "--staging 4: there are 4 hosts, and none is left for ranks" in log


@pytest.mark.parametrize("option", ["staging", "buffers"])
def test_what_cannot_serve_ends_at_once(machine: Machine, option: str) -> None:
    """Its secret may be read by others: whoever comes later would find the same."""
    folder = machine.folder / f"store-{option}-job"
    folder.mkdir(0o700)
    (folder / "secret").write_text("0" * 64)
    (folder / "secret").chmod(0o644)
    machine.settings["KEDGE_NET_INTERFACE"] = "127.0.0.1"
    began = time.monotonic()
    _, log = machine.end_of(machine.start("--launcher=openmpi", "--job=job", f"--{option}=1", "--", "true"), expect=2)
    assert time.monotonic() - began < 15, log
    assert f"{folder}/secret: a secret is a file of this user alone; chmod 600 it" in log, log
    assert not agents(machine)
