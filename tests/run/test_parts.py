"""The parts of ``kedge run`` that need no process: command lines, lists of hosts, times, progress, who takes whose place."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from kedge.run.agents import Agents
from kedge.run.allocation import parse_slurm_time
from kedge.run.cli import seconds, with_joined_options
from kedge.run.launch_errors import LaunchErrors
from kedge.run.launchers import Launcher, spread
from kedge.run.nodes import Health, Nodes, TooFewNodesError, expand_hosts
from kedge.run.progress import Generation, Newest, Prospects, has_advanced, newest_of, newest_versions
from kedge.run.shells import SshShell, VirtualShell, run_on
from kedge.run.stages import Stages, show_stages
from kedge.run.supervisor import Launch, describe, describe_exit, describe_start, show_missing
from waiting import until


@pytest.mark.parametrize(("ranks", "nodes", "counts"), [(4, 2, [2, 2]), (5, 3, [2, 2, 1]), (3, 3, [1, 1, 1])])
def test_ranks_are_spread_in_blocks(ranks: int, nodes: int, counts: list[int]) -> None:
    assert spread(ranks, nodes) == counts


def test_command_lines_of_the_launchers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KEDGE_STORE_PATH", "KEDGE_NODE"):
        monkeypatch.setenv(name, "x")
    for name in ("KEDGE_NODE_RUN_FOLDER", "KEDGE_POOL_SIZE"):
        monkeypatch.delenv(name, raising=False)
    openmpi = Launcher("openmpi", "mpirun", False, ["--bind-to", "none"]).command(["a", "b"], 3, ["app", "1"])
    assert openmpi[:3] == ["mpirun", "--bind-to", "none"] and openmpi[-6:] == ["--host", "a:2,b:1", "-np", "3", "app", "1"]
    virtual = Launcher("openmpi", "mpirun", True).command(["a", "b"], 2, ["app"])
    assert virtual.count("app") == 2 and ":" in virtual and "KEDGE_NODE=a" in virtual and "KEDGE_NODE" not in virtual
    assert "--oversubscribe" in virtual and "--oversubscribe" not in openmpi
    mpich = Launcher("mpich", "mpiexec").command(["a", "b"], 4, ["app"])
    assert mpich[-5:] == ["-hosts", "a:2,b:2", "-n", "4", "app"] and "KEDGE_STORE_PATH" in mpich[mpich.index("-genvlist") + 1]
    # How hosts are reached, in each one's own words.
    assert Launcher("openmpi", "mpirun", ssh=["ssh", "-F", "f"]).command(["a"], 1, ["app"])[1:4] == ["--mca", "plm_rsh_agent", "ssh -F f"]
    through = Launcher("mpich", "mpiexec", ssh=["ssh", "-F", "f"])
    assert through.command(["a"], 1, ["app"])[1:5] == ["-launcher", "ssh", "-launcher-exec", "ssh"]
    assert through.environment()["HYDRA_LAUNCHER_EXTRA_ARGS"] == "-F f"
    srun = Launcher("srun", "srun").command(["a", "b"], 4, ["app"])
    assert {"--nodelist=a,b", "--ntasks=4", "--ntasks-per-node=2", "--overlap"} < set(srun) and srun[-1] == "app"


def test_a_command_on_a_host_runs_in_the_same_folder_where_there_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ssh hands to the login shell, run by a shell in another folder and with another environment, as on another host."""
    here = tmp_path / "it's here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("KEDGE_STORE_PATH", "a folder/store")
    line = SshShell(["ssh"]).command("host", ["sh", "-c", 'pwd; echo "$KEDGE_STORE_PATH" "$1"; exit 3', "-", "two words"])[-1]

    def run() -> tuple[int, list[str]]:
        done = subprocess.run(["sh", "-c", line], cwd="/", env={"PATH": os.environ["PATH"]}, capture_output=True, text=True)
        return done.returncode, done.stdout.splitlines()

    assert run() == (3, [str(here), "a folder/store two words"])
    monkeypatch.chdir("/")
    here.rmdir()
    assert run() == (3, ["/", "a folder/store two words"])


def test_a_step_on_a_host_ends_when_it_is_told_and_not_with_the_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As above; the end of a connection is that of the standard input."""
    monkeypatch.chdir(tmp_path)
    shell = SshShell(["ssh"])
    for told in (True, False):
        line = shell.step("host", ["sh", "-c", "echo began; until test -e end; do sleep 0.05; done; exit 3"])[-1]
        with subprocess.Popen(["sh", "-c", line], bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdin is not None and process.stdout is not None
            assert process.stdout.readline() == b"began\n"
            if told:
                shell.end_step(process)
            else:
                process.stdin.close()
                with pytest.raises(subprocess.TimeoutExpired):
                    process.wait(0.5)
                (tmp_path / "end").touch()
            assert process.wait(30) == (128 + signal.SIGTERM if told else 3)
            assert process.stdout.read() == b"", "nothing that it has started holds the connection open"


def test_a_node_that_is_not_reached_is_asked_again_for_a_while(tmp_path: Path) -> None:
    """The way to ask is a program here, which says on what turn ssh gets through."""
    way = tmp_path / "ssh"
    way.write_text(f"#!/bin/sh\necho x >> {tmp_path}/turns; test $(wc -l < {tmp_path}/turns) -ge $TURN || {{ echo no route; exit 255; }}; exit $CODE\n")
    way.chmod(0o755)

    def dead(turn: int, code: int, patience: float) -> tuple[dict[str, str], int]:
        (tmp_path / "turns").write_text("")
        health = Health(SshShell(["env", f"TURN={turn}", f"CODE={code}", str(way)]), "kedge", ["probe"], False, patience)
        return health.failing_probe(["a"]), len((tmp_path / "turns").read_text().splitlines())

    assert dead(turn=2, code=0, patience=30) == ({}, 2)
    assert dead(turn=1, code=3, patience=30) == ({"a": "its health probe failed: exit code 3"}, 1), "what it says itself is believed"
    assert dead(turn=100, code=0, patience=0.5) == ({"a": "its health probe failed: no route"}, 1)


def test_stages_are_timed_and_none_is_silent() -> None:
    said: list[str] = []
    stages = Stages(said.append, quiet_seconds=0.05)
    for _ in range(2):
        with stages.stage("sleeping"):
            time.sleep(0.15)
    with stages.stage("nothing"):
        pass
    assert said and all(re.fullmatch(r"since \d s: sleeping", line) for line in said), said
    spent = stages.take()
    assert 0.3 <= spent["sleeping"] < 30 and show_stages(spent).startswith("sleeping ") and "nothing" not in show_stages(spent)
    assert stages.take() == {}
    said.clear()
    with stages.stage("asking", lambda: ["n1", "n2"]):
        time.sleep(0.15)
    assert said and all(re.fullmatch(r"since \d s: asking; no answer yet from n1, n2", line) for line in said), said


def test_an_agent_that_another_one_preceded_and_left_is_started_again(tmp_path: Path) -> None:
    """The first to be started finds another one that serves, which is gone before anybody asks it."""
    tool = tmp_path / "kedge"
    tool.write_text(
        "#!/bin/sh\ncd $(dirname $0)\n"
        "case $1 in\n"
        "agent) mkdir first 2>/dev/null && exit; touch serves; exec sleep 60;;\n"
        "status) test -e serves && echo '{}' || exit 3;;\n"
        "esac\n"
    )
    tool.chmod(0o755)
    agents = Agents(VirtualShell(), str(tool), None)
    begin = time.monotonic()
    agents.start(["n1"])
    try:
        assert time.monotonic() - begin < 10 and agents.running(["n1"]) == ["n1"] and agents.unanswered() == []
    finally:
        agents.end()


def test_the_start_of_agents_tells_who_has_not_answered_yet(tmp_path: Path) -> None:
    tool = tmp_path / "kedge"
    tool.write_text("#!/bin/sh\n[ $1 = agent ] && exec sleep 60\n[ $KEDGE_NODE = n1 ] || [ -e $0.goes ] || exit 3\necho '{}'\n")
    tool.chmod(0o755)
    agents = Agents(VirtualShell(), str(tool), None)
    start = threading.Thread(target=agents.start, args=(["n1", "n2"],))
    start.start()
    try:
        until(lambda: agents.unanswered() == ["n2"])
        (tmp_path / "kedge.goes").touch()
        start.join()
        assert agents.unanswered() == []
    finally:
        agents.end()


def test_a_look_ahead_tells_who_has_not_answered_yet(tmp_path: Path) -> None:
    tool = tmp_path / "kedge"
    tool.write_text('#!/bin/sh\n[ $KEDGE_NODE = n1 ] || sleep 2\necho \'{"node": "", "knows_job": true, "silent_nodes": ["n3"], "names": []}\'\n')
    tool.chmod(0o755)
    agents = Agents(VirtualShell(), str(tool), None, start=False)
    look = threading.Thread(target=agents.look_ahead, args=(["n1", "n2"], "j", 0.0))
    look.start()
    until(lambda: agents.unanswered() == ["n2"])
    look.join()
    assert agents.unanswered() == ["n3"], "whom the next look waits for"


def test_what_is_missing_is_said_in_a_line() -> None:
    why = "job/a version 2 (attempt 1, take 1): ranks 1 and 2: set 0 of group 0\nrank 3: its node n3\n"
    assert show_missing({"a": why}, "job") == "'a': version 2 (attempt 1, take 1): ranks 1 and 2: set 0 of group 0; rank 3: its node n3"


def test_options_of_the_launcher_may_begin_with_dashes() -> None:
    joined = with_joined_options(["--ranks", "2", "--launch-options", "--mpi=pmi2", "--", "app", "--launch-options", "-x"])
    assert joined == ["--ranks", "2", "--launch-options=--mpi=pmi2", "--", "app", "--launch-options", "-x"]
    assert with_joined_options(["--launch-options", "--", "app"]) == ["--launch-options", "--", "app"]


def test_signals_to_the_group_do_not_reach_what_asks_a_node() -> None:
    code, group = run_on(VirtualShell(), "a", [sys.executable, "-c", "import os; print(os.getpgrp())"], 30.0)
    assert code == 0 and int(group) != os.getpgrp()


def test_what_asks_a_node_ends_in_time_with_all_that_it_has_started() -> None:
    began = time.monotonic()
    assert run_on(VirtualShell(), "a", ["sh", "-c", "sleep 30 & sleep 31"], 0.5) == (None, "no answer within 0.5 s")
    assert time.monotonic() - began < 15


def test_lists_of_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert expand_hosts("a, b,c") == ["a", "b", "c"]
    (tmp_path / "hosts").write_text("# ours\na:4\n\nb slots=2\n")
    assert expand_hosts(str(tmp_path / "hosts")) == ["a", "b"]
    monkeypatch.chdir(tmp_path)
    assert expand_hosts("hosts") == ["a", "b"] and expand_hosts("other") == ["other"]
    for wrong in (",", "a,a"):
        with pytest.raises(ValueError, match="host"):
            expand_hosts(wrong)


def test_spares_take_the_places_of_the_dead() -> None:
    nodes = Nodes(["a", "b", "c"], ["d", "e"], 3)
    nodes.bury({"b": "gone", "d": "gone, too"})
    assert nodes.in_use == ["a", "e", "c"] and nodes.spares == []
    with pytest.raises(TooFewNodesError, match=r"2 nodes are left and 3 are needed .*b: gone.*a: burnt"):
        nodes.bury({"a": "burnt"})


@pytest.mark.parametrize(
    ("text", "expected"), [("1:30", 90), ("59", 59), ("2:00:01", 7201), ("1-02:03:04", 93784), ("UNLIMITED", None), ("INVALID", None)]
)
def test_slurms_times(text: str, expected: float | None) -> None:
    assert parse_slurm_time(text) == expected


def test_times_of_options() -> None:
    assert [seconds(text) for text in ("90", "1.5s", "10min", "2h")] == [90, 1.5, 600, 7200]


def taken(attempt: int, **versions: int) -> Newest:
    """By one attempt, each as its first one."""
    return {name: Generation(attempt, 1, version) for name, version in versions.items()}


def test_progress_is_a_newer_version_of_any_name() -> None:
    before = taken(1, a=3)
    assert has_advanced(None, taken(1, a=0)) and has_advanced(before, before | taken(1, b=0)) and has_advanced(before, taken(2, a=4))
    assert not has_advanced(before, before) and not has_advanced(before, None) and not has_advanced(before, {})


def test_who_goes_back_makes_progress_and_who_runs_in_circles_does_not() -> None:
    before = taken(2, a=50)
    assert has_advanced(before, taken(3, a=42)) and has_advanced(taken(3, a=42), taken(4, a=44))
    assert not has_advanced(before, taken(1, a=40)), "it went back, and got no further"
    assert not has_advanced(before, taken(3, a=50)), "it took the same again"


def test_the_newest_is_what_a_restart_finds(tmp_path: Path) -> None:
    """Kedge is a program here, which says what the store and an agent have."""

    def entry(attempt: int, version: int, state: str, **more: object) -> dict[str, object]:
        told = {"name": "a", "attempt": attempt, "take": 1, "version": version, "state": state, "complete": True}
        return told | {"abandoned": state == "abandoned"} | more

    def protected(attempt: int, version: int, state: str = "complete", reached: bool = True) -> dict[str, object]:
        return entry(attempt, version, state, levels=[{"level": "node", "reached": reached}])

    def newest(stored: list[dict[str, object]], on_nodes: list[dict[str, object]]) -> Newest | None:
        (tmp_path / "ls").write_text(json.dumps({"versions": stored}))
        (tmp_path / "status").write_text(json.dumps({"jobs": [{"job": "j", "scheme": "xor", "versions": on_nodes}]}))
        answers = Health(VirtualShell(), str(tool), [], False, 0.0).ask(["n"])
        return newest_of(newest_versions(str(tool), "j"), Agents.protected(answers.values(), "j")[1])

    tool = tmp_path / "tool"
    tool.write_text(f'#!/bin/sh\ncat "{tmp_path}/$1"\n')
    tool.chmod(0o755)
    gone_back = [entry(1, 50, "abandoned"), entry(1, 40, "complete")]
    assert newest([], []) == {}
    assert newest(gone_back, []) == taken(1, a=40)
    assert newest([*gone_back, entry(2, 42, "complete")], []) == taken(2, a=42)
    assert newest([], [protected(1, 50, "abandoned"), protected(1, 40), protected(1, 60, reached=False)]) == taken(1, a=40)
    assert newest(gone_back, [protected(2, 42)]) == taken(2, a=42)
    assert newest([entry(2, 42, "complete")], [protected(1, 50)]) == taken(2, a=42), "an agent that has not heard of it"


def entry(name: str, version: int, lost: str = "", attempt: int = 1, take: int = 1, silent: str = "") -> dict[str, object]:
    """Of a checkpoint name, as `kedge rebuild --look --json` lists it."""
    told = {"name": name, "version": version, "attempt": attempt, "take": take, "on_nodes": True, "in_store": False, "lost": lost}
    return told | {"silent_nodes_may_have": silent}


def answer(*names: dict[str, object], node: str = "n0", knows_job: bool = True, silent: tuple[str, ...] = ()) -> dict[str, object]:
    """What it says on a node."""
    return {"node": node, "knows_job": knows_job, "silent_nodes": list(silent), "names": list(names)}


def test_what_a_launch_finds_is_what_those_say_who_know() -> None:
    def versions(*answers: dict[str, object]) -> dict[str, int]:
        return Prospects.of(list(answers)).versions

    overwritten = answer(entry("a", 5, attempt=2))
    assert versions(answer(entry("a", 50), knows_job=False), overwritten) == {"a": 5}, "a spare knows only the store"
    assert versions(answer(entry("a", 50), silent=("n1",)), overwritten) == {"a": 5}, "one that is cut off"
    assert versions(answer(entry("a", 50), knows_job=False)) == {"a": 50}
    assert versions(overwritten, answer(entry("a", 50))) == {"a": 5}, "one that has not heard of the later taking"

    lost = entry("b", -1, "two nodes")
    found = Prospects.of([answer(entry("a", -1, "lost")), answer(entry("a", 7), lost, entry("c", -1)), answer(lost)])
    assert found.versions == {"a": 7} and found.lost == {"b": "two nodes"}
    assert describe_start(found) == "newest found to continue from: a 7; lost, so it begins anew: b"
    assert describe_start(Prospects({}, {})) == "nothing to continue from"


def test_what_silent_nodes_of_the_launch_may_have_is_unknown() -> None:
    """And what those may have that it is without, dead or not among its hosts, is lost."""

    def parted(node: str, *silent: str) -> dict[str, object]:
        return answer(entry("a", -1, silent="two nodes"), node=node, silent=silent)

    found = Prospects.of([parted("n0", "n1", "n2"), parted("n1", "n0", "n2"), answer(node="n3", knows_job=False)])
    assert (found.unknown, found.lost, found.silent) == ({"a": "two nodes"}, {}, ["n0", "n1"]), "n2 is dead"
    spare = answer(entry("a", -1, "was safe"), node="n3", knows_job=False)
    found = Prospects.of([parted("n0", "n1", "n2"), spare])
    assert (found.unknown, found.lost, found.silent) == ({}, {"a": "two nodes"}, [])
    found = Prospects.of([parted("n0", "n1", "n2"), spare], ["host1"])
    assert (found.unknown, found.lost, found.silent) == ({"a": "two nodes"}, {}, ["host1"]), "an agent that stands still"
    found = Prospects.of([spare], ["host0", "host1"])
    assert (found.unknown, found.lost, found.silent) == ({"a": "was safe"}, {}, ["host0", "host1"])
    found = Prospects.of([answer(entry("a", -1, "two nodes")), spare], ["host4"])
    assert (found.unknown, found.lost, found.silent) == ({}, {"a": "two nodes"}, []), "all nodes of the job have answered"
    found = Prospects.of([parted("n0", "n1", "n2"), answer(entry("a", 7), node="n1", silent=("n0",)), answer(entry("a", 7), node="n2", silent=("n0",))])
    assert (found.unknown, found.lost, found.versions) == ({}, {}, {"a": 7}), "without n0 there is one"


def test_what_nodes_of_the_launch_had_that_come_back_empty_is_lost() -> None:
    """Those that know the job do not reach their agents, which have never heard of it: who asks them gets an answer."""
    left = answer(entry("a", -1, silent="two nodes"), node="n0", silent=("n1", "n2"))
    empty = [answer(entry("a", -1, "was safe"), node=node, knows_job=False) for node in ("n1", "n2")]
    found = Prospects.of([left, *empty])
    assert (found.unknown, found.lost, found.silent) == ({}, {"a": "two nodes"}, [])
    found = Prospects.of([left, empty[0]], ["n2"])
    assert (found.unknown, found.lost, found.silent) == ({"a": "two nodes"}, {}, ["n2"]), "the agent of n2 stands still"
    cut_off = answer(entry("a", -1, silent="two nodes"), node="n2", silent=("n0", "n1"))
    found = Prospects.of([left, empty[0], cut_off])
    assert (found.unknown, found.lost, found.silent) == ({"a": "two nodes"}, {}, ["n0", "n2"])
    found = Prospects.of([answer(entry("a", -1, "was safe"), node=node, knows_job=False) for node in ("n0", "n1")])
    assert (found.unknown, found.lost, found.silent) == ({}, {"a": "was safe"}, []), "all of them"


def test_why_a_node_has_not_carried_all_to_the_store_is_what_the_tool_says(tmp_path: Path) -> None:
    """Kedge is a program here. Its summary, and what it warns of, are no reasons."""
    tool = tmp_path / "tool"
    tool.write_text(f'#!/bin/sh\ncat "{tmp_path}/said" >&2; echo 0 versions survive; exit 1\n')
    tool.chmod(0o755)

    def why(*said: str) -> dict[str, str]:
        (tmp_path / "said").write_text("".join(f"{line}\n" for line in said))
        return Agents(VirtualShell(), str(tool), None, start=False).rescue(["n"], "j", 10.0)

    lost = ["kedge: lost: j/a version 60: rank 1: two nodes", "rank 2: two nodes"]
    assert why("kedge: warning: slow", *lost) == {"n": "lost: j/a version 60: rank 1: two nodes"}
    assert why(*lost, "kedge: no answer from b") == {"n": "lost: j/a version 60: rank 1: two nodes; no answer from b"}
    assert why("srun: error: no such node") == {"n": "0 versions survive"}, "the last line where the tool says nothing of its own"


@pytest.mark.parametrize("planted", ["a link", "a pipe", "of another user"])
def test_a_log_that_others_have_prepared_is_not_written(tmp_path: Path, planted: str) -> None:
    log, victim = tmp_path / "agents.log", tmp_path / "victim"
    victim.write_text("mine\n")
    if planted == "a link":
        log.symlink_to(victim)
    elif planted == "a pipe":
        os.mkfifo(log)
    else:
        log.write_text("")
        if os.getuid() != 0:
            pytest.skip("only root gives a file away")
        os.chown(log, 65534, 65534)
    with pytest.raises(ValueError, match=r"--agent-log .*agents\.log"):
        Agents(VirtualShell(), "true", log)
    assert victim.read_text() == "mine\n"


def test_the_log_of_the_agents_is_made_for_this_user_alone_and_goes_on(tmp_path: Path) -> None:
    log, tool = tmp_path / "agents.log", tmp_path / "tool"
    # An agent answers only once it has written.
    tool.write_text(
        f'#!/bin/sh\ncd {tmp_path}\nif test "$1" = agent; then echo an agent of $KEDGE_NODE; touch $KEDGE_NODE; '
        "else test -e $KEDGE_NODE && echo {}; fi\n"
    )
    tool.chmod(0o755)
    for node in ("a", "b"):
        agents = Agents(VirtualShell(), str(tool), log)
        agents.start([node])
        agents.end()
    assert log.read_text() == "an agent of a\nan agent of b\n" and log.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("kind", "line", "refusal"),
    [
        ("srun", "srun: error: Unable to create step for job 7: Requested node configuration is not available", "Unable to create step for"),
        ("srun", "srun: error: Task launch for StepId=7.0 failed on node n1: Invalid job credential", ""),
        ("srun", "srun: error: n1: task 0: Killed", ""),
        ("openmpi", "There are not enough slots available in the system to satisfy the 64", "There are not enough slots"),
        ("openmpi", "mpirun was unable to launch the specified application as it could not access", "unable to launch the specified"),
        ("mpich", "[mpiexec@n1] match_arg (utils/args/args.c:163): unrecognized argument nonsense", "unrecognized argument nonsense"),
        ("mpich", "[proxy:0:0@n1] HYDU_create_process (utils/launch/launch.c:73): execvp error on file /missing", "execvp error on file"),
        ("mpich", "n1: out of memory", ""),
    ],
)
def test_a_launcher_that_refuses_is_understood(tmp_path: Path, kind: str, line: str, refusal: str) -> None:
    said = f"before\n{'x' * 100_000}\n{line}\nafter, without an end".encode()
    with open(tmp_path / "passed-on", "wb") as passed_on:
        errors = LaunchErrors(Launcher(kind, kind).refusals(), passed_on.fileno())
        process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, stdout=errors.write_end)
        errors.begin()
        process.communicate(said)
        assert errors.refusal().startswith(refusal) and bool(errors.refusal()) == bool(refusal)
    assert (tmp_path / "passed-on").read_bytes() == said


def test_exit_codes_for_people() -> None:
    assert describe_exit(-9) == "SIGKILL" and describe_exit(1) == "exit code 1"
    # A shell's way to say SIGKILL; mpirun's way to say that there is no such program is in that range, too.
    assert describe_exit(137) == "exit code 137 (as after SIGKILL)" and describe_exit(255) == "exit code 255"
    assert describe(Launch(1, ["a"], exit_code=7)) == "ended with exit code 7"
    assert describe(Launch(1, ["a"], exit_code=0, ended=True, dead={"a": "burnt"})) == "had to be ended (dead: a)"
