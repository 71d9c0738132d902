"""``kedge run`` on virtual nodes of this machine: real agents, MPI libraries and applications, whose ranks and nodes die."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from heat import HEAT, HEAT_MPICH, assert_continued, endless_heat, heat, reference
from machine import KEDGE, Machine, result
from processes import kill, processes_with
from waiting import until

pytestmark = pytest.mark.needs("MPI")


def test_an_application_that_finishes(machine: Machine) -> None:
    report, log = machine.run("--launcher=openmpi", "--job=calm", *heat(300, 100))
    assert report["outcome"] == "finished" and report["job"] == "calm" and report["exit_code"] == 0
    assert report["versions"] == {"heat3d": 300} and len(report["launches"]) == 1
    assert report["launches"][0]["nodes"] == machine.names[:2] and not report["not_drained"]
    assert result(log) == reference(machine, 300)


def test_a_finished_run_leaves_nothing_but_its_store(machine: Machine) -> None:
    machine.settings["KEDGE_PROTECT_SCHEME"] = "partner"  # nodes hold each other's images, too
    report, log = machine.run("--launcher=openmpi", *heat(300, 100))
    assert report["versions"] == {"heat3d": 300} and "leaves its files there" not in log
    assert not [name for name in machine.names if (machine.run_folders / name).exists()]
    # Folders of other tests come and go meanwhile.
    there = [path for folder, folders, files in os.walk("/dev/shm") for path in (*folders, *files)]
    assert not [path for path in there if any(name in path for name in machine.names)]
    assert not processes_with([f"MACHINE_OF_TEST={machine.folder.name}".encode()])
    assert {path.name for path in machine.folder.iterdir() if path.suffix != ".log"} == {"store"}
    assert machine.versions()[0] == 300


def test_an_agent_that_ranks_have_started_leaves_as_well(machine: Machine) -> None:
    """The one of kedge run was killed, and they needed another."""
    run = machine.start("--launcher=openmpi", *endless_heat(machine))
    until(machine.versions)
    (agent,) = machine.ranks_on(machine.names[0], "kedge-agent")
    kill(agent)
    until(lambda: machine.sessions(machine.names[0]))
    machine.end_after(until(machine.versions))
    kill(machine.ranks_on(machine.names[1], "heat3d")[0])
    report, log = machine.finish(run)
    assert report["outcome"] == "finished" and "is gone; starting another" in log
    assert not machine.ranks_on(machine.names[0], "kedge-agent") and not (machine.run_folders / machine.names[0]).exists()


def test_a_run_whose_last_version_is_on_its_nodes_only_leaves_it_there(machine: Machine) -> None:
    machine.settings |= {"KEDGE_SCHEDULE_STORE": "0", "KEDGE_PROTECT_SCHEME": "partner"}
    _, log = machine.run("--launcher=openmpi", *heat(300, 100))
    for name in machine.names[:2]:
        told = re.search(rf"the agent of node {name} leaves its files there: (.*)", log)
        assert told and "version 300" in told[1] and f"kedge clean --node {name} --discard-only-copies frees it" in told[1]
        assert (machine.run_folders / name / "records").exists(), "nothing else has it"
        clean = [KEDGE, "clean", "--node", name]
        said = subprocess.run(clean, env=machine.environment(), capture_output=True, text=True, timeout=60)
        assert said.returncode == 1 and "version 300" in said.stdout and (machine.run_folders / name / "records").exists()
        subprocess.run([*clean, "--discard-only-copies"], env=machine.environment(), check=True, capture_output=True, timeout=60)
        assert not (machine.run_folders / name).exists()


@pytest.mark.parametrize(
    ("launcher", "program"), [("openmpi", HEAT), pytest.param("mpich", HEAT_MPICH, marks=pytest.mark.needs("MPICH"))], ids=["openmpi", "mpich"]
)
def test_a_killed_rank_costs_a_launch_and_nothing_else(machine: Machine, launcher: str, program: Path) -> None:
    run = machine.start(f"--launcher={launcher}", *endless_heat(machine, program))
    machine.end_after(until(machine.versions))
    kill(until(lambda: machine.ranks_on(machine.names[1], "heat3d"))[0])
    report, log = machine.finish(run)
    assert report["outcome"] == "finished" and len(report["launches"]) == 2
    assert report["launches"][0]["exit_code"] != 0 and report["launches"][0]["advanced"]
    assert report["launches"][1]["nodes"] == machine.names[:2]
    assert_continued(machine, log)


def test_the_report_of_a_run_has_its_launches(machine: Machine) -> None:
    run = machine.start("--launcher=openmpi", "--job=shown", *endless_heat(machine))
    machine.end_after(until(machine.versions))
    kill(until(lambda: machine.ranks_on(machine.names[1], "heat3d"))[0])
    report, _ = machine.finish(run)
    (machine.folder / "run.json").write_text(json.dumps(report))
    command = [KEDGE, "report", "shown", "--run", machine.folder / "run.json", "--json"]
    # A node without an agent: another test's may serve the default one.
    environment = machine.environment() | {"KEDGE_NODE": machine.names[-1]}
    told = json.loads(subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True).stdout)
    assert [launch["nodes"] for launch in told["launches"]] == [launch["nodes"] for launch in report["launches"]]
    assert told["outcome"].startswith("finished: ") and [attempt["state"] for attempt in told["attempts"]] == ["died", "ended"]
    assert told["restores"][0]["attempt"] == 2 and told["restores"][0]["name"] == "heat3d"
    assert max(version["version"] for version in told["versions"]) == report["versions"]["heat3d"]
    assert not told["nodes"] and any("Agents that have left" in sentence for sentence in told["missing"])


@pytest.mark.parametrize("source", ["store", "nodes"])
def test_a_dead_node_is_left_out_and_a_spare_takes_its_place(machine: Machine, source: str) -> None:
    """What the dead node had comes from the store, or from its group alone."""
    if source == "nodes":
        machine.settings |= {"KEDGE_PROTECT_SCHEME": "xor", "KEDGE_SCHEDULE_STORE": "0"}
    run = machine.start("--launcher=openmpi", f"--probe={machine.probe()}", *endless_heat(machine))
    machine.end_after(until(machine.versions if source == "store" else lambda: machine.protected(machine.names[0])))
    machine.lose(machine.names[2])  # a spare: it is looked at before it is taken
    machine.lose(machine.names[1])
    report, log = machine.finish(run)
    assert report["outcome"] == "finished" and len(report["launches"]) == 2
    assert report["launches"][1]["nodes"] == [machine.names[0], machine.names[3]]
    assert re.search(rf"nodes? .*\b{machine.names[1]}\b.* left out: its health probe failed", log)
    assert report["launches"][1]["before"]["nodes are asked what a launch finds"] < 4, "the dead one was waited for"
    assert_continued(machine, log)


def test_a_node_that_comes_back_empty_is_hardly_waited_for(machine: Machine) -> None:
    """The other looks for its agent where it was."""
    run = machine.start("--launcher=openmpi", *endless_heat(machine))
    machine.end_after(until(machine.versions))
    machine.reboot(machine.names[1])
    report, log = machine.finish(run)
    again = report["launches"][1]
    assert again["nodes"] == machine.names[:2] and again["before"]["nodes are asked what a launch finds"] < 3, log
    assert_continued(machine, log)


def test_a_virtual_node_is_killed_as_the_page_says(machine: Machine) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "operations.md").read_text()
    (shown,) = re.findall(r"^```sh\n(node=b\n.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (probe,) = re.findall(r"`--probe '([^']*)'`", page)
    run = machine.start("--launcher=openmpi", f"--probe={probe}", *endless_heat(machine))
    machine.end_after(until(machine.versions))
    dead = machine.names[1]
    try:
        subprocess.run(["bash", "-c", shown.replace("node=b", f"node={dead}")], check=True, timeout=60)
        assert not (machine.run_folders / dead).exists()
        report, log = machine.finish(run)
    finally:
        Path(f"/tmp/dead.{dead}").unlink(missing_ok=True)
    assert f"node {dead} is left out: its health probe failed" in log
    assert report["outcome"] == "finished" and dead not in report["launches"][-1]["nodes"]


def test_agents_log_where_operators_look(machine: Machine) -> None:
    run = machine.start("--launcher=openmpi", *endless_heat(machine))
    machine.end_after(until(machine.versions))
    log = machine.run_folders / machine.names[0] / "agent.log"
    until(lambda: log.exists() and "is complete in the store" in log.read_text())
    kill(until(lambda: machine.ranks_on(machine.names[1], "heat3d"))[0])
    machine.finish(run)


def test_an_application_that_hangs_on_a_dead_node_is_ended(machine: Machine) -> None:
    """Its ranks do not notice; the heartbeat does."""
    script = f"test -e {machine.folder}/second && exit 0; touch {machine.folder}/first; sleep 300"
    run = machine.start("--launcher=openmpi", f"--probe={machine.probe()}", "--ranks=2", "--nodes=2", "--", "sh", "-c", script)
    until((machine.folder / "first").exists)
    (machine.folder / "second").touch()
    (machine.folder / f"dead.{machine.names[0]}").touch()
    report, _ = machine.finish(run)
    assert report["outcome"] == "finished"
    assert list(report["launches"][0]["dead"]) == [machine.names[0]]
    assert report["launches"][1]["nodes"] == [machine.names[2], machine.names[1]]
    assert not any("pause" in stage for stage in report["launches"][1]["before"]), "there is nothing to wait for"


def test_a_launch_that_had_to_be_ended_is_not_finished(machine: Machine) -> None:
    """Whatever its exit code says: a program may end with 0 when it is told to stop."""
    script = f"trap 'exit 0' TERM; touch {machine.folder}/first; while :; do sleep 0.1; done"
    run = machine.start("--launcher=openmpi", f"--probe={machine.probe()}", "--nodes=1", "--restarts=0", "--", "sh", "-c", script)
    until((machine.folder / "first").exists)
    (machine.folder / f"dead.{machine.names[0]}").touch()
    report, log = machine.finish(run, expect=1)
    assert report["outcome"] == "gave up" and report["launches"][0]["ended"]
    assert f"launch 1 had to be ended (dead: {machine.names[0]})" in log


def test_too_few_nodes_leave_what_survives_in_the_store(machine: Machine) -> None:
    machine.settings |= {"KEDGE_PROTECT_SCHEME": "xor", "KEDGE_SCHEDULE_STORE": "0"}
    run = machine.start("--launcher=openmpi", "--ranks=4", "--nodes=4", f"--probe={machine.probe()}", "--", *machine.endless(HEAT, 32))
    protected = until(lambda: machine.protected(machine.names[0]))
    machine.lose(machine.names[1])
    report, _ = machine.finish(run, expect=3)
    assert report["outcome"] == "too few nodes" and report["versions"]["heat3d"] >= max(protected)


def test_too_few_nodes_end_the_job_and_name_the_dead(machine: Machine) -> None:
    for name in machine.names[1:]:
        (machine.folder / f"dead.{name}").touch()
    report, log = machine.run("--launcher=openmpi", f"--probe={machine.probe()}", *heat(10), expect=3)
    assert report["outcome"] == "too few nodes" and not report["launches"]
    assert all(name in report["reason"] for name in machine.names[1:]) and "2 are needed" in log


def test_fewer_nodes_carry_more_ranks_where_that_is_allowed(machine: Machine) -> None:
    for name in machine.names[1:]:
        (machine.folder / f"dead.{name}").touch()
    report, log = machine.run("--launcher=openmpi", "--nodes-min=1", f"--probe={machine.probe()}", *heat(200, 100))
    assert report["launches"][0]["nodes"] == machine.names[:1] and result(log) == reference(machine, 200)


def test_without_hosts_it_runs_on_this_machine(machine: Machine) -> None:
    machine.settings["KEDGE_NODE"] = machine.names[0]
    machine.where, machine.hosts = [], []
    report, log = machine.run("--launcher=openmpi", "--ranks=2", "--", *heat(300, 100)[-4:])
    assert report["outcome"] == "finished" and report["versions"] == {"heat3d": 300}
    assert report["launches"][0]["nodes"] == machine.names[:1] and result(log) == reference(machine, 300)


def test_virtual_nodes_without_names(machine: Machine) -> None:
    machine.settings["KEDGE_NODE"] = machine.names[0]
    machine.hosts = []
    report, _ = machine.run("--launcher=openmpi", "--nodes=2", "--", *heat(300, 100)[-4:])
    assert report["launches"][0]["nodes"] == [f"{machine.names[0]}-0", f"{machine.names[0]}-1"]


@pytest.mark.parametrize(("program", "why"), [("kill -ILL $$", "instructions"), ("exit 126", "cannot be run")])
def test_what_would_end_in_the_same_way_again_is_not_tried_again(machine: Machine, program: str, why: str) -> None:
    report, log = machine.run("--launcher=openmpi", "--nodes=1", "--", "sh", "-c", program, expect=1)
    assert len(report["launches"]) == 1 and why in report["reason"], log


def test_a_store_that_cannot_be_made_is_not_tried_again(machine: Machine) -> None:
    machine.settings["KEDGE_STORE_PATH"] = str(machine.folder / "unmounted" / "store")
    report, log = machine.run("--launcher=openmpi", *heat(300, 100), expect=1)
    assert len(report["launches"]) == 1 and f"there is no store: {machine.folder}/unmounted: is not there" in report["reason"], log


def test_what_the_launcher_refuses_is_not_tried_again(machine: Machine) -> None:
    report, log = machine.run("--launcher=openmpi", "--nodes=1", "--launch-options=--nonsense", "--", "true", expect=1)
    assert len(report["launches"]) == 1 and 'openmpi starts nothing: unknown option "--nonsense"' in report["reason"], log
    assert 'Error: unknown option "--nonsense"' in log, "its own words come through"


def test_wrong_calls_are_refused(machine: Machine) -> None:
    def refuse(*arguments: str) -> str:
        environment = machine.environment()
        done = subprocess.run([KEDGE, "run", *arguments], env=environment, cwd=machine.folder, capture_output=True, text=True, timeout=60)
        assert done.returncode == 2, done.stdout + done.stderr
        return done.stderr

    assert "name the hosts" in refuse("--nodes=2", "--", "true")
    assert "no such program" in refuse("--virtual", "--", "./missing")
    assert "no COMMAND" in refuse("--hosts=a")
    assert "there are 1 hosts" in refuse("--hosts=a", "--nodes=2", "--", "true")
    assert "twice" in refuse("--hosts=a,a", "--", "true")
    assert "has a blank or a colon" in refuse("--hosts=a", "--ssh=ssh -i 'a key'", "--", "true")
    assert "for hosts that ssh reaches" in refuse("--hosts=a", "--virtual", "--ssh=ssh -v", "--", "true")
    assert "less than one a node" in refuse("--hosts=a,b", "--ranks=1", "--", "true")
    assert "is no time" in refuse("--hosts=a", "--until=soon", "--", "true")
    assert "is no whole number" in refuse("--hosts=a", "--restarts=-1", "--", "true")
    machine.settings["KEDGE_NODE_RUN_FOLDER"] = "/dev/shm/one"
    assert "/dev/shm/one/%n" in refuse("--virtual", "--nodes=2", "--", "true")
    del machine.settings["KEDGE_NODE_RUN_FOLDER"]
    (machine.folder / "log").symlink_to(machine.folder / "other")
    assert "--agent-log log: " in refuse("--hosts=a", "--agent-log=log", "--", "true") and not (machine.folder / "other").exists()
    machine.settings["KEDGE_POOL_SIZE"] = "large"
    told = refuse("--hosts=a", "--job=named", "--", "true")
    assert told.startswith("kedge run: KEDGE_POOL_SIZE: pool.size: "), "and no node is called dead for it"
