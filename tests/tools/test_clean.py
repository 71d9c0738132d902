"""kedge clean: what it frees, and what it must not touch."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kedge import Context, Level
from tool import KEDGE, kedge, kedge_json
from waiting import until

pytestmark = pytest.mark.usefixtures("run_folder")

# Takes a version as soon as it is told a number.
APPLICATION = """
import sys
import numpy
from kedge import Context, Level
context = Context("climate", settings={"agent.idle_timeout": "1h"})
state = numpy.zeros(1000)
context.protect(0, state)
for line in sys.stdin:
    context.checkpoint("heat", int(line))
    if len(sys.argv) > 1:
        context.wait("heat", int(line), Level.STORE)
        sys.argv.pop()
    print("taken", flush=True)
"""


def clean(*arguments: str, expect: int = 0) -> list[Any]:
    """Of this test's node alone: others on this machine are not ours."""
    nodes: list[Any] = kedge_json("clean", "--node", os.environ["KEDGE_NODE"], *arguments, expect=expect)["nodes"]
    return nodes


def kill_agent() -> None:
    os.kill(kedge_json("status")["pid"], signal.SIGKILL)
    until(lambda: subprocess.run([KEDGE, "status"], capture_output=True).returncode == 3)


def take(job: str, version: int, level: Level = Level.STORE, **settings: object) -> None:
    state = np.full(1000, float(version))
    with Context(job, settings={key.replace("_", "."): value for key, value in settings.items()}) as context:
        context.protect(0, state)
        context.checkpoint("heat", version)
        context.wait("heat", version, level)


def test_an_agent_that_is_told_to_stop_names_what_no_store_has(run_folder: Path) -> None:
    take("climate", 5, Level.LOCAL, schedule_store=0)
    node = os.environ["KEDGE_NODE"]
    told = kedge("agent", "--stop").stderr
    assert "version 5" in told and f"in {run_folder} stays what no store has" in told
    (command,) = re.findall(r"kedge (clean .*) frees it", told)
    kedge(*command.split())
    assert node in command and not run_folder.exists()


def test_a_live_agent_keeps_what_it_has(store: Path, run_folder: Path) -> None:
    (node,) = clean()
    assert node["state"] == "in use" and "live agent" in node["why"] and f"kedge agent --stop --node {node['node']} lets" in node["why"]
    assert kedge_json("status")["jobs"] and run_folder.exists()
    for job in ("climate", "another"):  # which of them it has the agent knows
        assert clean(job)[0]["state"] == "in use" and "kedge status says what it has" in clean(job)[0]["why"]


def test_what_a_dead_agent_left_is_freed(store: Path, run_folder: Path) -> None:
    kill_agent()
    (node,) = clean("--dry-run")
    assert node["state"] == "freed" and node["jobs"] == ["climate"] and node["bytes"] > 0 and not node["only_copies"]
    assert (run_folder / "pool" / "pool").exists(), "it was only shown"
    assert "would be freed" in kedge("clean", "--node", os.environ["KEDGE_NODE"], "--dry-run").stdout
    assert clean("other") == [] and (run_folder / "pool" / "pool").exists()
    (node,) = clean("climate")
    assert node["state"] == "freed" and not run_folder.exists()
    assert clean() == []
    kedge("verify")
    take("climate", 40)
    assert kedge_json("ls", "climate/heat")["versions"][0]["version"] == 40


def test_tiers_and_scratches_go_with_it(tmp_path: Path, run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEDGE_TIER", f'[{{name="ssd", path="{tmp_path / "ssd"}", capacity="64MiB"}}]')
    own = f"kedge-{os.geteuid()}-{os.environ['KEDGE_NODE']}"
    take("scratched", 1, job_scratch=str(tmp_path / "scratch"))
    (tmp_path / "ssd" / "kedge-0-another").mkdir(parents=True)
    assert (tmp_path / "scratch" / own).exists() and (tmp_path / "ssd" / own).exists()
    kill_agent()
    monkeypatch.delenv("KEDGE_TIER")
    (node,) = clean("--set", f'tier=[{{name="ssd", path="{tmp_path / "ssd"}", capacity="64MiB"}}]')
    assert {Path(folder) for folder in node["folders"]} == {tmp_path / "scratch" / own, tmp_path / "ssd" / own}
    assert not (tmp_path / "scratch" / own).exists() and not (tmp_path / "ssd" / own).exists() and not run_folder.exists()
    assert (tmp_path / "ssd" / "kedge-0-another").exists(), "another node's"


def test_an_only_copy_goes_only_where_that_is_meant(run_folder: Path) -> None:
    take("here", 1, Level.LOCAL, schedule_store=0)
    kill_agent()
    (node,) = clean(expect=1)
    assert node["state"] == "only copies" and "here/heat version 1" in node["only_copies"][0] and "--discard-only-copies" in node["why"]
    state = np.zeros(1000)
    with Context("here", settings={"schedule.store": 0}) as context:
        context.protect(0, state)
        assert context.restart("heat") == 1 and state[0] == 1, "it is still there"
    kill_agent()
    (node,) = clean("--discard-only-copies")
    assert node["state"] == "freed" and not run_folder.exists()


def test_an_only_copy_gets_to_the_store_as_it_is_said(run_folder: Path) -> None:
    take("here", 1, Level.LOCAL, schedule_store=0)
    kill_agent()
    (node,) = clean(expect=1)
    (command,) = re.findall(r"kedge (drain .*) carries them to the store", node["why"])
    kedge(*command.split())
    kill_agent()
    assert clean()[0]["state"] == "freed" and kedge_json("ls")["versions"][0]["version"] == 1


# On a /dev/shm of its own: notes of other launches are not ours. After a chroot "/" is no mount point.
NOTES = """
mount --make-rprivate / 2>/dev/null || mount --make-private /dev/shm || exit
mount -t tmpfs none /dev/shm
notes=/dev/shm/kedge-$(id -u)
mkdir -m 700 $notes
touch $notes/jobs-gone $notes/refusal-gone $notes/jobs-gone.4711 $notes/jobs-live $notes/else
KEDGE_RUN_LAUNCH=live sleep 60 & launch=$!
"$0" clean --dry-run
"$0" clean --node another
ls $notes
"$0" clean --json
ls $notes
kill $launch
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root mounts")
def test_notes_of_a_killed_run_are_freed() -> None:
    command = ["unshare", "--mount", "--propagation", "unchanged", "bash", "-c", NOTES, str(KEDGE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    shown, kept, rest = done.stdout.partition("nothing is left here\n")
    assert shown.count("of a launch of kedge run that has ended: would be freed") == 3 and kept
    before, told, after = rest.partition('{"')
    assert before.split() == ["else", "jobs-gone", "jobs-gone.4711", "jobs-live", "refusal-gone"]
    assert told and after.splitlines()[1:] == ["else", "jobs-live"], done.stdout


def test_what_no_store_confirms_is_an_only_copy(store: Path, run_folder: Path) -> None:
    kill_agent()
    store.rename(store.with_name("away"))
    (node,) = clean(expect=1)
    assert node["state"] == "only copies" and all("holds no Kedge store" in only for only in node["only_copies"])
    store.with_name("away").rename(store)
    removed = store / "jobs" / "climate" / "names" / "heat"
    removed.rename(store / "lost")
    (node,) = clean(expect=1)
    assert any("climate/heat version 30" in only and "any more" in only for only in node["only_copies"])
    (store / "lost").rename(removed)
    kedge("rm", "climate/heat@30", "--yes")  # which somebody wants to be gone
    assert clean()[0]["state"] == "freed" and not run_folder.exists()


def test_a_job_alone_is_freed_where_it_is_alone(run_folder: Path) -> None:
    take("one", 1)
    take("two", 1)
    kill_agent()
    (node,) = clean("one", expect=1)
    assert node["state"] == "stays" and "one, two" in node["why"] and run_folder.exists()
    assert clean()[0]["state"] == "freed"


@pytest.fixture
def application() -> Iterator[subprocess.Popen[str]]:
    environment = os.environ | {"PYTHONPATH": str(Path(os.environ["BUILD_FOLDER"]) / "python")}
    command = [sys.executable, "-c", APPLICATION, "waits"]
    process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.communicate()


def test_what_a_process_handed_over_is_not_lost(application: subprocess.Popen[str], run_folder: Path) -> None:
    """Its agent was killed before it took the second image, and the process lives; then it does not."""

    def tell(version: int) -> None:
        assert application.stdin and application.stdout
        application.stdin.write(f"{version}\n")
        application.stdin.flush()
        assert application.stdout.readline() == "taken\n"

    tell(1)
    agent = kedge_json("status")["pid"]
    os.kill(agent, signal.SIGSTOP)
    tell(2)
    application.send_signal(signal.SIGSTOP)
    os.kill(agent, signal.SIGKILL)
    until(lambda: subprocess.run([KEDGE, "status"], capture_output=True).returncode == 3)
    (node,) = clean()
    assert node["state"] == "in use" and f"process {application.pid}" in node["why"]
    application.kill()
    application.wait(30)
    (node,) = clean(expect=1)
    assert node["only_copies"] == [f"an image of process {application.pid}, which no agent has taken"]
    kedge("wait")  # a successor takes it, and carries it to the store
    assert [version["version"] for version in kedge_json("ls")["versions"]] == [2, 1]
    kill_agent()
    assert clean()[0]["state"] == "freed" and not run_folder.exists()
