"""``kedge run`` on virtual nodes of this machine: real agents, MPI libraries and applications, which are killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from machine import BUILD, KEDGE, Machine, kill, result
from waiting import until

HEAT = BUILD / "examples" / "heat3d"
HEAT_MPICH = BUILD / "examples" / "heat3d-mpich"
pytestmark = pytest.mark.needs("MPI")


def heat(steps: int, interval: int = 0) -> list[str]:
    return ["--ranks=2", "--nodes=2", "--", str(HEAT), "32", str(steps), str(interval)]


def endless_heat(machine: Machine, program: Path = HEAT) -> list[str]:
    """For a test that disturbs it in mid-run, however fast this machine is."""
    return ["--ranks=2", "--nodes=2", "--", *machine.endless(program, 32)]


def reference(machine: Machine, steps: int, cells: int = 32) -> tuple[int, str]:
    """The result of a run that nobody disturbed, without Kedge's help."""
    done = subprocess.run([HEAT, str(cells), str(steps), "1000000"], capture_output=True, text=True, timeout=300, check=True,
                          env=machine.environment() | {"KEDGE_JOB_NAME": "reference", "KEDGE_JOB_MODE": "sync", "KEDGE_PROTECT_SCHEME": "none"})
    return result(done.stdout)


def assert_continued(machine: Machine, log: str, cells: int = 32) -> None:
    """It went on from a checkpoint, and its result is that of a run which nobody disturbed."""
    assert "continuing from step" in log
    steps, checksum = result(log)
    assert reference(machine, steps, cells) == (steps, checksum)


def test_an_application_that_finishes(machine: Machine) -> None:
    report, log = machine.run("--launcher=openmpi", "--job=calm", *heat(300, 100))
    assert report["outcome"] == "finished" and report["job"] == "calm" and report["exit_code"] == 0
    assert report["versions"] == {"heat3d": 300} and len(report["attempts"]) == 1
    assert report["attempts"][0]["nodes"] == machine.names[:2] and not report["not_drained"]
    assert result(log) == reference(machine, 300)


@pytest.mark.parametrize(
    ("launcher", "program"), [("openmpi", HEAT), pytest.param("mpich", HEAT_MPICH, marks=pytest.mark.needs("MPICH"))], ids=["openmpi", "mpich"]
)
def test_a_killed_rank_costs_an_attempt_and_nothing_else(machine: Machine, launcher: str, program: Path) -> None:
    run = machine.start(f"--launcher={launcher}", *endless_heat(machine, program))
    machine.end_after(until(machine.versions))
    kill(until(lambda: machine.ranks_on(machine.names[1], "heat3d"))[0])
    report, log = machine.finish(run)
    assert report["outcome"] == "finished" and len(report["attempts"]) == 2
    assert report["attempts"][0]["exit_code"] != 0 and report["attempts"][0]["advanced"]
    assert report["attempts"][1]["nodes"] == machine.names[:2]
    assert_continued(machine, log)


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
    assert report["outcome"] == "finished" and len(report["attempts"]) == 2
    assert report["attempts"][1]["nodes"] == [machine.names[0], machine.names[3]]
    assert f"node {machine.names[1]} is left out: its health probe failed" in log
    assert_continued(machine, log)


def lose_two_nodes_of_a_group(machine: Machine, *options: str) -> subprocess.Popen[str]:
    """What survives the loss of one node of a group, and lies on the nodes alone, after the loss of two."""
    machine.settings |= {"KEDGE_PROTECT_SCHEME": "xor", "KEDGE_SCHEDULE_STORE": "0"}
    rest = ["--ranks=3", "--nodes=3", "--nodes-min=1", "--", *machine.endless(HEAT, 32)]
    run = machine.start("--launcher=openmpi", f"--probe={machine.probe()}", *options, *rest)
    machine.end_after(until(lambda: machine.protected(machine.names[0])))
    for name in machine.names[1:3]:
        machine.lose(name)
    return run


def test_checkpoints_that_are_lost_are_not_taken_for_a_first_launch(machine: Machine) -> None:
    report, log = machine.finish(lose_two_nodes_of_a_group(machine), expect=4)
    assert report["outcome"] == "lost" and "'heat3d'" in report["reason"] and "--if-lost=begin" in report["reason"]
    assert len(report["attempts"]) == 1 and "checksum" not in log


def test_it_begins_anew_where_it_is_told_to(machine: Machine) -> None:
    report, log = machine.finish(lose_two_nodes_of_a_group(machine, "--if-lost=begin"))
    assert report["outcome"] == "finished" and "lost, so it begins anew: heat3d" in log
    assert "'heat3d' is lost" in log and "continuing from step" not in log
    steps, checksum = result(log)
    assert reference(machine, steps) == (steps, checksum)


@pytest.mark.parametrize("scheme", ["xor", "none"])
def test_what_nodes_had_that_come_back_empty_is_lost(machine: Machine, scheme: str) -> None:
    """They have lost their memory, as after a reboot, and are nodes of the next launch: their agents answer, and know nothing."""
    machine.settings |= {"KEDGE_PROTECT_SCHEME": scheme, "KEDGE_SCHEDULE_STORE": "0"}
    nodes = machine.names[: 3 if scheme == "xor" else 2]
    arguments = ["--launcher=openmpi", "--patience=1s", "--restarts=0", f"--ranks={len(nodes)}", f"--nodes={len(nodes)}"]
    run = machine.start(*arguments, "--", *machine.endless(HEAT, 32))
    machine.end_after(until(lambda: machine.reached(nodes[0], "node" if scheme == "xor" else "local")))
    for name in nodes[1:]:
        machine.reboot(name)
    _, log = machine.finish(run, expect=1)
    if scheme == "xor":
        assert "safe until then: heat3d " in log, "before its nodes were gone"
        assert re.search(f"not everything of node {nodes[0]} is in the store: .*no answer from {nodes[1]}, {nodes[2]}", log), log
    report, log = machine.run(*arguments, "--", *machine.endless(HEAT, 32), expect=4)
    assert report["outcome"] == "lost" and "'heat3d'" in report["reason"] and not report["attempts"], log
    report, log = machine.run(*arguments, "--if-lost=begin", "--", *machine.endless(HEAT, 32))
    assert report["outcome"] == "finished" and "lost, so it begins anew: heat3d" in log and "continuing from step" not in log


def test_what_nodes_may_have_whose_agents_stand_still_is_not_called_lost(machine: Machine) -> None:
    """They are left out, and keep what they hold: the next call finds it, with agents that answer."""
    machine.settings |= {"KEDGE_PROTECT_SCHEME": "xor", "KEDGE_SCHEDULE_STORE": "0"}
    arguments = ["--launcher=openmpi", "--patience=1s", "--if-lost=begin", "--ranks=3", "--nodes=3", "--nodes-min=1", "--", *machine.endless(HEAT, 32)]
    run = machine.start(*arguments)
    machine.end_after(until(lambda: machine.protected(machine.names[0])))
    for name in machine.names[1:3]:
        os.kill(machine.ranks_on(name, "kedge-agent")[0], signal.SIGSTOP)
    kill(machine.ranks_on(machine.names[1], "heat3d")[0])
    report, log = machine.finish(run, expect=5)
    assert report["outcome"] == "silent nodes" and len(report["attempts"]) == 1, log
    assert f"no answer from {machine.names[1]}, {machine.names[2]}, which may have a checkpoint" in report["reason"]
    _, log = machine.run(*arguments)
    assert_continued(machine, log)


def test_an_application_that_meets_lost_checkpoints_is_told_so(machine: Machine) -> None:
    """Without kedge run's look ahead: the same launch by hand."""
    machine.finish(lose_two_nodes_of_a_group(machine), expect=4)
    ranks = [["-x", f"KEDGE_NODE={node}", "-np", "1", str(HEAT), "32", "100", "0"] for node in (machine.names[0], machine.names[3])]
    environment = machine.environment() | {"KEDGE_JOB_NAME": "sh"}
    done = subprocess.run(["mpirun.openmpi", "--oversubscribe", *ranks[0], ":", *ranks[1]], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0 and "is lost" in done.stdout + done.stderr and "checksum" not in done.stdout


def test_what_is_announced_is_what_is_restored(machine: Machine) -> None:
    machine.settings |= {"KEDGE_PROTECT_SCHEME": "xor", "KEDGE_SCHEDULE_STORE": "3"}
    run = machine.start("--launcher=openmpi", "--restarts=4", *endless_heat(machine))
    until(machine.versions)
    for attempt in range(3):
        if attempt == 2:
            machine.end_after(until(machine.versions))
        before = machine.log(run).count("continuing from step")
        kill(until(lambda: machine.ranks_on(machine.names[1], "heat3d"))[0])
        until(lambda before=before: machine.log(run).count("continuing from step") > before)  # type: ignore[misc]
    _, log = machine.finish(run)
    announced = re.findall(r"newest found to continue from: heat3d (\d+)", log)
    assert announced and announced == re.findall(r"continuing from step (\d+)", log)


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
    assert list(report["attempts"][0]["dead"]) == [machine.names[0]]
    assert report["attempts"][1]["nodes"] == [machine.names[2], machine.names[1]]


def test_a_launch_that_had_to_be_ended_is_not_finished(machine: Machine) -> None:
    """Whatever its exit code says: a program may end with 0 when it is told to stop."""
    script = f"trap 'exit 0' TERM; touch {machine.folder}/first; while :; do sleep 0.1; done"
    run = machine.start("--launcher=openmpi", f"--probe={machine.probe()}", "--nodes=1", "--restarts=0", "--", "sh", "-c", script)
    until((machine.folder / "first").exists)
    (machine.folder / f"dead.{machine.names[0]}").touch()
    report, log = machine.finish(run, expect=1)
    assert report["outcome"] == "gave up" and report["attempts"][0]["ended"]
    assert f"attempt 1 had to be ended (dead: {machine.names[0]})" in log


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
    assert report["outcome"] == "too few nodes" and not report["attempts"]
    assert all(name in report["reason"] for name in machine.names[1:]) and "2 are needed" in log


def test_fewer_nodes_carry_more_ranks_where_that_is_allowed(machine: Machine) -> None:
    for name in machine.names[1:]:
        (machine.folder / f"dead.{name}").touch()
    report, log = machine.run("--launcher=openmpi", "--nodes-min=1", f"--probe={machine.probe()}", *heat(200, 100))
    assert report["attempts"][0]["nodes"] == machine.names[:1] and result(log) == reference(machine, 200)


def test_attempts_without_progress_end_the_job_with_the_reason(machine: Machine) -> None:
    report, log = machine.run("--launcher=openmpi", "--no-progress=2", "--ranks=2", "--nodes=2", "--", "sh", "-c", "exit 7", expect=1)
    assert report["outcome"] == "gave up" and len(report["attempts"]) == 2
    assert "2 attempts in a row ended without a newer complete version" in report["reason"] and "exit code 7" in report["reason"]
    assert "the next attempt begins in" in log


def test_restarts_are_limited_though_there_is_progress(machine: Machine) -> None:
    report, _ = machine.run(
        "--launcher=openmpi", "--restarts=1", "--nodes=1", "--", "sh", "-c",
        f"n=$(cat {machine.folder}/n 2>/dev/null || echo 0); echo $((n+100)) > {machine.folder}/n; {HEAT} 8 $((n+100)) 100; exit 9", expect=1,
    )
    assert report["outcome"] == "gave up" and "failed 2 times" in report["reason"]
    assert [attempt["advanced"] for attempt in report["attempts"]] == [True, True]


def test_a_job_that_is_given_up_leaves_what_its_nodes_protected(machine: Machine) -> None:
    """Nothing was meant for the store, and one of the two nodes is gone: the other has the partner's copy."""
    machine.settings |= {"KEDGE_PROTECT_SCHEME": "partner", "KEDGE_SCHEDULE_STORE": "0"}
    run = machine.start("--launcher=openmpi", "--restarts=0", f"--probe={machine.probe()}", *heat(10_000_000))
    until(lambda: machine.protected(machine.names[0]))
    machine.lose(machine.names[1])
    report, _ = machine.finish(run, expect=1)
    assert report["outcome"] == "gave up" and report["versions"]["heat3d"] > 0
    assert list(report["not_drained"]) == [machine.names[1]], report["not_drained"]


def test_versions_that_survive_a_node_are_progress(machine: Machine) -> None:
    machine.settings |= {"KEDGE_PROTECT_SCHEME": "partner", "KEDGE_SCHEDULE_STORE": "0"}
    run = machine.start("--launcher=openmpi", "--no-progress=1", *endless_heat(machine))
    machine.end_after(until(lambda: machine.protected(machine.names[0])))
    kill(until(lambda: machine.ranks_on(machine.names[1], "heat3d"))[0])
    report, log = machine.finish(run)
    assert report["attempts"][0]["advanced"] and len(report["attempts"]) == 2
    assert_continued(machine, log)


GOES_BACK = """
import os, sys
import numpy, kedge

rank, ranks = (int(os.environ[f"OMPI_COMM_WORLD_{what}"]) for what in ("RANK", "SIZE"))
with open(f"launches-{rank}", "a") as launches:
    launches.write("x")
launch, level = os.path.getsize(f"launches-{rank}"), kedge.Level[sys.argv[1]]
array = numpy.zeros(4)
with kedge.Context(communicator=kedge.Rendezvous(f"launch-{launch}", rank, ranks)) as context:
    context.protect(0, array)
    if launch == 2:
        assert context.restart("sim", at_most=40) == 40
    for version in {1: (40, 50), 2: (42,)}.get(launch, ()):
        context.checkpoint("sim", version)
        context.wait("sim", version, level)
        if version == 40 and level == kedge.Level.STORE and rank == 0:
            context.pin("sim", 40)
sys.exit(1)
"""


@pytest.mark.needs("PYTHON")
@pytest.mark.parametrize(("level", "keep"), [("STORE", 2), ("STORE", 1), ("NODE", 2)])
def test_a_job_that_goes_back_makes_progress_from_there(machine: Machine, level: str, keep: int) -> None:
    """The second attempt goes on from 40, though there is a 50, which goes where one version is kept. The third does nothing."""
    machine.settings |= {"KEDGE_KEEP_VERSIONS": str(keep), "KEDGE_KEEP_LOCAL": "2"}
    if level == "NODE":
        machine.settings |= {"KEDGE_PROTECT_SCHEME": "partner", "KEDGE_SCHEDULE_STORE": "0"}
    machine.settings["PYTHONPATH"] = str(BUILD / "python")
    program = machine.folder / "goes-back.py"
    program.write_text(GOES_BACK)
    application = ["--ranks=2", "--nodes=2", "--", sys.executable, str(program), level]
    report, log = machine.run("--launcher=openmpi", "--no-progress=1", *application, expect=1)
    assert [attempt["advanced"] for attempt in report["attempts"]] == [True, True, False]
    assert "safe until then: sim 50" in log and "safe until then: sim 42" in log
    assert report["versions"] == {"sim": 42} and "newest complete: sim 42" in log


# The time that the allocation has, or the scheduler's signal.
@pytest.mark.parametrize("how", ["until", "signal"])
def test_the_end_of_the_allocation_leaves_a_checkpoint_to_continue_from(machine: Machine, how: str) -> None:
    machine.settings |= {"KEDGE_SCHEDULE_INTERVAL": "1h"}
    limits = ["--until=34s", "--reserve=30s"] if how == "until" else []
    run = machine.start("--launcher=openmpi", *limits, *heat(10_000_000))
    if how == "signal":
        until(lambda: machine.sessions(machine.names[0]))
        run.send_signal(signal.SIGUSR1)
    report, log = machine.finish(run, expect=75)
    assert report["outcome"] == "out of time" and "heat3d: halted at step" in log
    last = report["versions"]["heat3d"]
    assert last > 0 and machine.versions() == [last], "the last checkpoint is in the store, and it was the only one"
    again = machine.start("--launcher=openmpi", *heat(10_000_000))
    until(lambda: f"continuing from step {last}\n" in machine.log(again))
    again.send_signal(signal.SIGTERM)
    machine.finish(again, expect=75)


def test_ranks_that_begin_after_the_end_was_announced_hear_of_it(machine: Machine) -> None:
    machine.settings |= {"KEDGE_SCHEDULE_INTERVAL": "1h"}
    begin_late = f"until test -e {machine.folder}/begin; do sleep 0.1; done; exec {HEAT} 32 10000000 0"
    run = machine.start("--launcher=openmpi", "--reserve=60s", "--ranks=2", "--nodes=2", "--", "sh", "-c", begin_late)
    until(lambda: machine.ranks_on(machine.names[0], "sh"))
    run.send_signal(signal.SIGUSR1)
    until(lambda: "no agent knows of the job's rank 0 yet" in machine.log(run))
    (machine.folder / "begin").touch()
    report, log = machine.finish(run, expect=75)
    assert report["outcome"] == "out of time" and "heat3d: halted at step" in log
    assert machine.versions() == [report["versions"]["heat3d"]]


def test_a_second_signal_ends_what_does_not_listen(machine: Machine) -> None:
    run = machine.start("--launcher=openmpi", "--nodes=1", "--", "sleep", "300")
    until(lambda: machine.ranks_on(machine.names[0], "sleep"))
    run.send_signal(signal.SIGTERM)
    until(lambda: "asking for a last checkpoint" in machine.log(run))
    run.send_signal(signal.SIGTERM)
    report, _ = machine.finish(run, expect=1)
    assert report["outcome"] == "out of time" and "no checkpoint to continue from" in report["reason"]
    assert report["attempts"][0]["ended"]


@pytest.mark.parametrize("end", [0, 3])
def test_a_job_that_an_operator_halts_is_not_launched_again(machine: Machine, end: int) -> None:
    application = ["sh", "-c", f"{HEAT} 32 10000000 0 && exit {end}"]
    run = machine.start("--launcher=openmpi", "--job=stopped", "--ranks=2", "--nodes=2", "--", *application)
    until(machine.versions)
    halt = [KEDGE, "halt", "stopped", "--set", f"node.name={machine.names[0]}"]
    subprocess.run(halt, env=machine.environment(), check=True, timeout=60, capture_output=True)
    report, log = machine.finish(run, expect=76)
    assert report["outcome"] == "halted" and len(report["attempts"]) == 1 and "heat3d: halted at step" in log
    assert report["attempts"][0]["exit_code"] == end


def test_a_job_that_is_halted_leaves_its_last_checkpoint_in_the_store(machine: Machine) -> None:
    """Though its checkpoints are for the nodes only."""
    machine.settings |= {"KEDGE_PROTECT_SCHEME": "partner", "KEDGE_SCHEDULE_STORE": "0"}
    run = machine.start("--launcher=openmpi", "--job=stopped", *heat(10_000_000))
    until(lambda: machine.protected(machine.names[0]))
    halt = [KEDGE, "halt", "stopped", "--now", "--set", f"node.name={machine.names[0]}"]
    subprocess.run(halt, env=machine.environment(), check=True, timeout=60, capture_output=True)
    report, log = machine.finish(run, expect=76)
    (saved,) = re.findall(r"heat3d: halted at step \d+ of \d+, saved at step (\d+)", log)
    assert report["versions"]["heat3d"] == int(saved)


def test_wrong_calls_are_refused(machine: Machine) -> None:
    def refuse(*arguments: str) -> str:
        environment = machine.environment()
        done = subprocess.run([KEDGE, "run", *arguments], env=environment, cwd=machine.folder, capture_output=True, text=True, timeout=60)
        assert done.returncode == 2, done.stdout + done.stderr
        return done.stderr

    assert "name the hosts" in refuse("--", "true")
    assert "no COMMAND" in refuse("--hosts=a")
    assert "there are 1 hosts" in refuse("--hosts=a", "--nodes=2", "--", "true")
    assert "twice" in refuse("--hosts=a,a", "--", "true")
    assert "has a blank or a colon" in refuse("--hosts=a", "--ssh=ssh -i 'a key'", "--", "true")
    assert "for hosts that ssh reaches" in refuse("--hosts=a", "--virtual", "--ssh=ssh -v", "--", "true")
    assert "less than one a node" in refuse("--hosts=a,b", "--ranks=1", "--", "true")
    assert "is no time" in refuse("--hosts=a", "--until=soon", "--", "true")
    assert "is no whole number" in refuse("--hosts=a", "--restarts=-1", "--", "true")
    (machine.folder / "log").symlink_to(machine.folder / "other")
    assert "--agent-log log: " in refuse("--hosts=a", "--agent-log=log", "--", "true") and not (machine.folder / "other").exists()
    machine.settings["KEDGE_POOL_SIZE"] = "large"
    assert "pool.size" in refuse("--hosts=a", "--job=named", "--", "true"), "and no node is called dead for it"
