"""kedge rm: what it refuses, what it removes, and that nothing brings it back."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kedge import Context, Level, NotFoundError
from threaded_communicator import ThreadedCommunicator, run_ranks
from tool import KEDGE, kedge, kedge_json
from waiting import until

pytestmark = pytest.mark.usefixtures("run_folder")


def versions(*arguments: str) -> list[tuple[str, int]]:
    return [(entry["name"], entry["version"]) for entry in kedge_json("ls", *arguments)["versions"]]


def obstacles(report: Any) -> dict[int, str]:
    return {entry["version"]: entry["obstacle"] for entry in report["versions"]}


def data_in(store: Path) -> list[Path]:
    """All objects and records of versions; marks of what was removed are none."""
    return [path for path in (store / "jobs").glob("*/names/*/*-*-*/*") if path.name != "removed"]


def at_a_terminal(answer: str, *arguments: str) -> tuple[int, str]:
    """The exit code, and what stood on the terminal."""
    main, terminal = pty.openpty()
    process = subprocess.Popen([KEDGE, *arguments], stdin=terminal, stdout=terminal, stderr=terminal)
    os.close(terminal)
    os.write(main, f"{answer}\n".encode())
    text = b""
    try:
        while select.select([main], [], [], 60)[0] and (part := os.read(main, 4096)):
            text += part
    except OSError:  # the terminal's end
        pass
    os.close(main)
    return process.wait(60), text.decode()


def test_it_asks_shows_and_removes(store: Path) -> None:
    assert "--yes" in kedge("rm", "climate/heat@20", expect=2).stderr
    shown = kedge_json("rm", "climate/heat", "--dry-run")
    assert obstacles(shown) == {30: "", 20: ""} and not shown["removed"] and shown["bytes"] == 2 * 195
    assert "nothing was changed" in kedge("rm", "climate", "--dry-run").stdout
    assert 'no job is called "heat"; a checkpoint is: say climate/heat' in " ".join(kedge("rm", "heat", "--yes", expect=1).stderr.split())
    assert 'no checkpoint is called "climate"; a job is: say climate/heat' in " ".join(kedge("inspect", "climate", expect=1).stderr.split())
    code, text = at_a_terminal("n", "rm", "climate/heat@20")
    assert code == 1 and "Remove 1 version, 195 B of climate/heat@20 for good?" in text
    assert versions() == [("heat", 30), ("heat", 20), ("other", 1)], "nothing has changed so far"
    code, text = at_a_terminal("y", "rm", "climate/heat@20")
    assert code == 0 and "removed 1 version" in text
    assert versions() == [("heat", 30), ("other", 1)]
    kedge("verify")


def test_a_version_needs_no_job_and_all_of_a_name_does(store: Path) -> None:
    assert '"heat"' in kedge("rm", "heat", "--yes", expect=1).stderr
    code, text = at_a_terminal("n", "rm", "heat@20")
    assert code == 1 and "Remove 1 version, 195 B of climate/heat@20 for good?" in text, "of the only job that has the name"
    assert "climate/heat@25" in kedge("rm", "climate/heat@25", "--yes", expect=1).stderr
    kedge("rm", "climate/heat@x", "--yes", expect=2)
    kedge("rm", "heat@20", "--job", "climate", "--yes")
    assert versions("heat") == [("heat", 30)]
    kedge("rm", "heat@30", "--yes")
    assert versions() == [("other", 1)]


def test_of_a_job_and_its_checkpoint_of_one_name_the_option_means_the_checkpoint() -> None:
    array = np.zeros(4)
    with Context("pic") as context:
        context.protect(0, array)
        for name in ("pic", "other"):
            context.checkpoint(name, 1)
            context.wait(name, 1, Level.STORE)
    assert [entry["name"] for entry in kedge_json("rm", "pic", "--dry-run")["versions"]] == ["other", "pic"]
    kedge("rm", "pic", "--job", "pic", "--yes")
    assert versions() == [("other", 1)]


def test_pinned_versions_stay_unless_they_are_meant(store: Path) -> None:
    kedge("pin", "climate/heat@20")
    said = kedge("rm", "climate", "--yes", expect=1)
    assert "pinned" in said.stdout and "nothing was removed" in said.stderr
    assert len(versions()) == 3
    assert kedge_json("rm", "climate", "--yes", "--pinned")["removed"]
    assert versions() == [] and not data_in(store)


def test_a_live_job_keeps_its_newest_unless_it_is_meant() -> None:
    state = np.zeros(100)
    with Context("alive") as context:
        context.protect(0, state)
        for version in (1, 2):
            context.checkpoint("h", version)
            context.wait("h", version, Level.STORE)
        shown = obstacles(kedge_json("rm", "alive", "--dry-run", expect=1))
        assert not shown[1] and f"attempt 1 (process {os.getpid()} on" in shown[2]
        assert "alive" in kedge("rm", "alive", "--yes", expect=1).stdout
        kedge("rm", "alive/h@1", "--yes")
        assert versions() == [("h", 2)]
        kedge("rm", "alive/h@2", "--yes", "--live")
        assert versions() == []
        context.checkpoint("h", 3)
        context.wait("h", 3, Level.STORE)
    assert versions() == [("h", 3)]
    kedge("rm", "alive", "--yes")  # the job has ended
    assert versions() == []


def test_what_nobody_finishes_any_more_goes_when_its_job_is_silent(store: Path) -> None:
    half = store / "jobs" / "climate" / "names" / "heat" / "99-1-9" / "data"
    half.mkdir(parents=True)
    (half / "r0").write_bytes(b"never finished")
    kedge("rm", "climate/heat@99", "--yes")
    assert not half.exists() and versions("heat") == [("heat", 30), ("heat", 20)]


@pytest.mark.parametrize("agent_dies", [False, True])
def test_agents_that_hold_copies_do_not_send_them_again(store: Path, run_folder: Path, agent_dies: bool) -> None:
    held = [version["version"] for job in kedge_json("status")["jobs"] for version in job["versions"]]
    assert 30 in held, "the node has a copy"
    kedge("rm", "climate", "--yes")
    assert versions() == [] and not data_in(store)
    kedge("gc", "--yes")
    if agent_dies:
        os.kill(kedge_json("status")["pid"], signal.SIGKILL)
        until(lambda: subprocess.run([KEDGE, "status"], capture_output=True).returncode == 3)
        kedge("wait")  # a successor takes the copies over
        held = [version["version"] for job in kedge_json("status")["jobs"] for version in job["versions"]]
        assert 30 in held
    kedge("agent", "--stop")
    assert not run_folder.exists(), "nothing that it held was an only copy"
    assert versions() == [] and not data_in(store)


def test_no_restart_goes_on_from_a_copy_of_what_was_removed(store: Path) -> None:
    def restart() -> int:
        temperature, flags = np.asfortranarray(np.zeros((2, 3, 4))), np.zeros(3, dtype=bool)
        with Context("climate", settings={"job.lease": "1s"}) as context:
            context.protect(0, temperature, "temperature")
            context.protect(1, flags, "flags")
            return context.restart("heat")

    def foretold() -> int:
        names = kedge_json("rebuild", "climate", "--look")["names"]
        return next(int(name["version"]) for name in names if name["name"] == "heat")

    assert restart() == foretold() == 30
    kedge("rm", "climate/heat@30", "--yes")
    assert restart() == foretold() == 20
    kedge("rm", "climate/heat", "--yes")
    assert foretold() == -1
    with pytest.raises(NotFoundError):  # as at a first launch: nothing is lost
        restart()
    state = np.zeros(10)
    with Context("climate") as context:
        context.protect(0, state)
        context.checkpoint("heat", 30)
        context.wait("heat", 30, Level.STORE)
    assert versions("heat") == [("heat", 30)]

    def marks() -> list[Path]:
        return [path for mark in ("*-*-*/removed", "withdrawn-*") for path in store.glob(f"jobs/climate/names/heat/{mark}")]

    until(lambda: not marks())  # they go with the first that is complete again, after that has level STORE


@pytest.mark.parametrize("keep_local", [1, 2])
def test_all_ranks_pass_over_what_was_removed(keep_local: int) -> None:
    """Also where the nodes have only that, and the store is asked for what is older."""

    def live(body: Callable[[int, Context], None]) -> None:
        def life(rank: int, communicator: ThreadedCommunicator) -> None:
            with Context("two", communicator=communicator, settings={"job.lease": "1s", "keep.local": keep_local}) as context:
                body(rank, context)

        run_ranks(2, life)

    states = [np.zeros(100), np.zeros(100)]

    def take(rank: int, context: Context) -> None:
        context.protect(0, states[rank])
        for version in (1, 2):
            states[rank][:] = version
            context.checkpoint("h", version)
            context.wait("h", version, Level.STORE)

    def restart(rank: int, context: Context) -> None:
        context.protect(0, states[rank])
        assert context.restart("h") == 1 and states[rank][0] == 1
        assert context.load("h", 1)[0][0] == 1
        with pytest.raises(NotFoundError):
            context.load("h", 2)

    live(take)
    kedge("rm", "two/h@2", "--yes")
    live(restart)


def test_a_removed_version_is_named_as_such(store: Path) -> None:
    kedge("rm", "climate/heat@30", "--yes")
    states = {entry["version"]: entry["state"] for entry in kedge_json("ls", "climate/heat", "--all")["versions"]}
    assert states == {30: "removed", 20: "complete"}
    kedge("inspect", "climate/heat@30", expect=1)
    assert kedge_json("inspect", "climate/heat")["version"] == 20
