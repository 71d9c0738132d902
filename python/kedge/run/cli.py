"""The command line of ``kedge run`` (installed as ``kedge-run``)."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from kedge.run.agents import Agents, why_it_failed
from kedge.run.allocation import Allocation, slurm_job, slurm_nodes
from kedge.run.buffers import Buffers, store_behind
from kedge.run.launchers import LAUNCHERS, Launcher, find_launcher
from kedge.run.more_nodes import MoreNodes
from kedge.run.nodes import PROBE_SECONDS, Health, Nodes, TooFewNodesError, expand_hosts
from kedge.run.servers import Servers
from kedge.run.shells import Shell, SlurmShell, SshShell, VirtualShell, run_on
from kedge.run.staging import Staging
from kedge.run.supervisor import ExitCode, Limits, Report, Supervisor, say_on_stderr
from kedge.tool import find_tool

DESCRIPTION = """\
Launches COMMAND on some of the nodes there are and keeps it running until it
is finished: after a failure the dead nodes are left out, spares take their
places, and the next launch continues from the newest checkpoint that survives.
"""
EPILOG = """\
Exit codes:
  0   the application finished
  1   it was given up, and the reason printed
  2   the call was wrong
  3   too few nodes are left
  4   all checkpoints are lost, and it begins anew only with --if-lost=begin
  5   nodes that may have a checkpoint do not answer, and nobody else has one
  75  the allocation is over, and there is a checkpoint: queue the job again
  76  somebody halted it
Whatever else it ends with than 0 and 2, the newest version that survives on
the nodes is in the store first. The application has no standard input: a
second launch could not read it again.
Examples:
  kedge run --ranks 4 -- ./app
  kedge run --nodes 16 --ranks 64 -- ./app
  kedge run --hosts hosts.txt --nodes 8 --ranks 64 --probe true -- ./app
"""
_UNITS = {"": 1.0, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def seconds(text: str) -> float:
    """A time: 90, 90s, 10min, 2h."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|min|h|d|)", text.strip())
    if not found:
        raise argparse.ArgumentTypeError(f"'{text}' is no time; write 90s, 10min or 2h")
    return float(found[1]) * _UNITS[found[2]]


def positive(text: str) -> int:
    """A whole number above zero."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no whole number above 0")
    return int(text)


def not_negative(text: str) -> int:
    """A whole number."""
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"'{text}' is no whole number")
    return int(text)


def build_parser() -> argparse.ArgumentParser:
    """All options; the defaults stand in Limits."""
    limits = Limits()
    parser = argparse.ArgumentParser(
        prog="kedge run", description=DESCRIPTION, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="kedge run [OPTIONS] [--] COMMAND [ARGUMENTS]",
    )
    what = parser.add_argument_group("what to run, and where")
    what.add_argument("--ranks", type=positive, metavar="N", help="ranks in all (default: one a node)")
    what.add_argument("--nodes", type=positive, metavar="N", help="nodes to use at once; the others are spares (default: all)")
    what.add_argument("--nodes-min", type=positive, metavar="N", help="go on with fewer nodes and more ranks on each (default: --nodes)")
    what.add_argument("--hosts", metavar="LIST", help="n1,n2,... or a file with one host a line (default: the SLURM allocation, else this machine)")
    what.add_argument("--ssh", metavar="COMMAND", default="", help="how hosts are reached, for the launcher too: \"ssh -F FILE\" (default: ssh, and the launcher's own way)")
    what.add_argument("--virtual", action="store_true", help="the hosts are virtual nodes on one machine (KEDGE_NODE)")
    what.add_argument("--launcher", choices=["auto", *LAUNCHERS], default="auto", help="program that starts the ranks (default: auto)")
    what.add_argument("--fmi", action="store_true", help="COMMAND is a program of FMI, which goes on when ranks or nodes die: fmirun launches it")
    what.add_argument("--launch-options", metavar="TEXT", default="", help="more options for the launcher, as in a shell")
    what.add_argument("--job", metavar="NAME", help="the job's name (default: KEDGE_JOB_NAME, job.name, the program's name)")
    what.add_argument("--protect-heap", action="store_true", help="checkpoints have what the program itself allocates with malloc or new from heap.malloc_from bytes on")
    what.add_argument("--no-agents", action="store_true", help="start no agents: the application's ranks do, within its step")
    what.add_argument("--buffers", type=not_negative, metavar="N", default=0, help="the last N hosts have burst buffers, buffer0 and so on, and no ranks (default: 0)")
    what.add_argument("--buffer-path", metavar="FOLDER", help="where they keep their files: fast storage of their nodes (default: /tmp/kedge-buffer-UID-JOB)")
    what.add_argument("--staging", type=not_negative, metavar="N", default=0, help="the last N hosts, before those of --buffers, write the others' checkpoints to the store, and have no ranks (default: 0)")
    failures = parser.add_argument_group("after a failure")
    failures.add_argument("--restarts", type=not_negative, metavar="N", default=limits.restarts_max, help=f"launch again at most so often (default: {limits.restarts_max})")
    failures.add_argument(
        "--no-progress", type=positive, metavar="N", default=limits.launches_without_progress_max,
        help=f"give up after so many launches in a row without a newer complete version (default: {limits.launches_without_progress_max})",
    )
    failures.add_argument("--if-lost", choices=["stop", "begin"], help="where there were checkpoints and none is left: stop, or begin anew (default: restart.if_lost, stop)")
    failures.add_argument("--back-off", type=seconds, metavar="TIME", default=limits.back_off, help="pause after the first of those, doubled each time (default: 5s)")
    failures.add_argument("--probe", metavar="COMMAND", help="run by a shell on each node; another exit code than 0 says that it is dead")
    failures.add_argument("--heartbeat", type=seconds, metavar="TIME", default=limits.heartbeat, help="how often the nodes are looked at (default: 10s)")
    failures.add_argument("--more", type=not_negative, metavar="N", default=0, help="with --fmi in SLURM: where a node has died and no spare is left, ask for another one, N at most (default: 0)")
    failures.add_argument("--patience", type=seconds, metavar="TIME", default=limits.patience, help="a node that is not reached is asked again for so long before it counts as dead (default: 15s)")
    end = parser.add_argument_group("the end of the allocation")
    end.add_argument("--until", type=seconds, metavar="TIME", help="so much time is there (default: SLURM's limit, else no end)")
    end.add_argument("--reserve", type=seconds, metavar="TIME", default=limits.reserve, help="ask for the last checkpoint so long before the end (default: 300s)")
    end.add_argument("--drain-timeout", type=seconds, metavar="TIME", default=limits.drain, help="wait so long for the store at the end (default: 600s)")
    end.add_argument("--release-nodes", action="store_true", help="give the application's nodes back to SLURM as soon as staging agents have what they had")
    end.add_argument("--requeue-code", type=int, metavar="N", default=limits.requeue_code, help="exit code for `queue this again` (default: 75)")
    parser.add_argument("--agent-log", type=Path, metavar="FILE", help="output and log of the agents' steps (default: agent.log in each run folder)")
    parser.add_argument("--json", action="store_true", help="print a report as JSON at the end; the application then prints to stderr")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND", help="the application and its arguments")
    return parser


def configuration(tool: str) -> dict[str, str]:
    """The values of all keys. ValueError: the configuration is wrong."""
    told = subprocess.run([tool, "config", "--json"], capture_output=True, text=True, timeout=60)
    if told.returncode != 0:
        raise ValueError(why_it_failed(told.stderr))
    return {entry["key"]: str(entry["value"]) for entry in json.loads(told.stdout)["keys"]}


def name_of_this_node(configured: str) -> str:
    """As an agent here would call itself."""
    named = os.environ.get("KEDGE_NODE") or (configured if configured != "auto" else "")
    return named or re.sub(r"[^A-Za-z0-9.-]", "_", socket.gethostname())


def choose_nodes(options: argparse.Namespace, this_node: str) -> tuple[Nodes, list[str], list[str]]:
    """Those to begin with and the spares, those that stage, and those for burst buffers; without a list and outside SLURM this machine.

    ValueError: too few.
    """
    apart: int = options.staging + options.buffers
    if options.hosts:
        hosts = expand_hosts(options.hosts)
    elif slurm_job():
        hosts = slurm_nodes()
    elif options.virtual:
        hosts = [f"{this_node}-{number}" for number in range((options.nodes or 1) + apart)]
    elif (options.nodes or 1) > 1:
        raise ValueError(f"--nodes {options.nodes}: name the hosts with --hosts; or --virtual makes so many nodes of this machine")
    else:
        hosts = [this_node] * (1 + apart)
    if apart >= len(hosts):
        asked = [f"--{name} {count}" for name, count in (("staging", options.staging), ("buffers", options.buffers)) if count]
        raise ValueError(f"{', '.join(asked)}: there are {len(hosts)} hosts, and none is left for ranks")
    if options.staging and len(set(hosts)) < len(hosts):
        raise ValueError(f"--staging {options.staging}: name the hosts with --hosts; or --virtual makes nodes of this machine")
    hosts, others = hosts[: len(hosts) - apart], hosts[len(hosts) - apart :]
    wanted = options.nodes or len(hosts)
    nodes_min = options.nodes_min or wanted
    if wanted > len(hosts):
        raise ValueError(f"--nodes {wanted}: there are {len(hosts)} hosts")
    if nodes_min > wanted:
        raise ValueError(f"--nodes-min {nodes_min} is more than --nodes {wanted}")
    return Nodes(hosts[:wanted], hosts[wanted:], nodes_min), others[: options.staging], others[options.staging :]


def folder_of(servers: type[Servers], option: str, configured: dict[str, str], part: str) -> Path:
    """Where servers of a run say where they are. ValueError: no folder is known that all nodes see."""
    key = f"{servers.suffix}.folder"
    shared, store = configured[key], store_behind(configured["store.path"]) or configured["store.path"]
    if not shared and "://" in store:
        raise ValueError(f"--{option}: set {key} to a folder that all nodes see, where each {servers.kind} says where it is")
    return (Path(shared) / part if shared else Path(f"{store.rstrip('/')}-{option}-{part}")).absolute()


def make_buffers(options: argparse.Namespace, configured: dict[str, str], shell: Shell, tool: str, nodes: list[str], part: str) -> Buffers:
    files = f"{os.path.abspath(options.buffer_path)}/{part}" if options.buffer_path else f"/tmp/kedge-buffer-{os.getuid()}-{part}"
    network = ["--provider", configured["net.provider"]]
    if interface := configured["net.interface"]:
        network += ["--interface", interface]
    folder = folder_of(Buffers, "buffers", configured, part)
    return Buffers(shell, Path(tool).with_name("kedge-buffer"), nodes, network, files, folder, store_behind(configured["store.path"]), say_on_stderr)


def make_fmirun(
    options: argparse.Namespace, configured: dict[str, str], shell: Shell, tool: str, virtual: bool, nodes: int, part: str, more: MoreNodes | None
) -> Launcher:
    """What launches an FMI program, with so many nodes at once. ValueError: it is not there, or cannot be told its address."""
    program = Path(tool).with_name("fmirun")
    if not program.exists():
        raise ValueError(f"--fmi: there is no {program}")
    words = shlex.split(options.launch_options)
    if (interface := configured["net.interface"]) and shell.opening():
        try:
            words = ["--interface", socket.gethostbyname(interface), *words]
        except OSError as error:
            raise ValueError(f"net.interface = {interface}: {error.strerror}") from None
    # Each run has its own: what another one has left is not this one's to end.
    reach = more.reach() if more else shell.opening()
    return Launcher("fmi", str(program), virtual, words, reach, nodes, state=f"{part}-{os.getpid()}", more=more.command() if more else "")


def check_program(shell: Shell, node: str, program: str) -> None:
    """ValueError: the node was asked, and the program is not there. Launches would end in a way of their launcher's own."""
    code, _ = run_on(shell, node, ["sh", "-c", 'command -v -- "$0" >/dev/null', program], PROBE_SECONDS)
    if code not in (0, None):
        raise ValueError(f"{program}: on node {node} there is no such program, or it cannot be run")


def with_protected_heap(tool: str, application: list[str]) -> list[str]:
    """What starts it under libkedge-malloc.so. ValueError: that is not installed."""
    prefix = Path(tool).resolve().parent.parent
    found = [*prefix.glob("lib*/kedge/libkedge-malloc.so"), *prefix.glob("lib/*/kedge/libkedge-malloc.so")]
    if not found:
        raise ValueError(f"--protect-heap: there is no libkedge-malloc.so under {prefix}")
    libraries = [str(found[0]), *filter(None, [os.environ.get("LD_PRELOAD")])]
    return ["env", f"LD_PRELOAD={':'.join(libraries)}", *application]


def check_run_folder(configured: str) -> None:
    """ValueError: virtual nodes would have one agent between them."""
    if configured != "auto" and "%n" not in configured:
        raise ValueError(f'node.run_folder = "{configured}" is one folder for all virtual nodes: let %n stand where each has its name, as in {configured}/%n')


def supervise(options: argparse.Namespace, behind: contextlib.ExitStack) -> Report:
    """Everything that is decided before the first launch, and the job. ValueError and OSError: the call was wrong.

    `behind`: what is to be done when it has ended, however.
    """
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        raise ValueError("there is no COMMAND to run")
    tool = find_tool()
    configured = configuration(tool)  # also where all is given here: a wrong configuration is no dead node
    job = options.job or (configured["job.name"] if configured["job.name"] != "auto" else Path(command[0]).name)
    if_lost = options.if_lost or configured["restart.if_lost"]
    os.environ |= {"KEDGE_JOB_NAME": job, "KEDGE_RESTART_IF_LOST": if_lost}
    in_slurm = slurm_job() is not None and not options.hosts
    is_here = options.virtual or (not in_slurm and not options.hosts)  # all nodes are names for this machine, or a step's machine
    ssh = shlex.split(options.ssh)
    if ssh and (in_slurm or is_here):
        raise ValueError("--ssh is for hosts that ssh reaches (--hosts without --virtual)")
    if options.release_nodes and not (in_slurm and options.staging):
        raise ValueError("--release-nodes is for a job in SLURM that has staging agents (--staging)")
    shell: Shell = SlurmShell(options.virtual) if in_slurm else VirtualShell() if is_here else SshShell(ssh or ["ssh"])
    nodes, staging_nodes, buffer_nodes = choose_nodes(options, name_of_this_node(configured["node.name"]))
    if options.virtual and len({*nodes.in_use, *nodes.spares, *staging_nodes}) > 1:
        check_run_folder(configured["node.run_folder"])
    ranks = options.ranks or len(nodes.in_use)
    if ranks < len(nodes.in_use):
        raise ValueError(f"--ranks {ranks} is less than one a node ({len(nodes.in_use)})")
    check_program(shell, nodes.in_use[0], command[0])
    if options.protect_heap:
        if options.fmi:
            raise ValueError("--protect-heap is for a program that calls kedge_init, which one of FMI (--fmi) does not")
        command = with_protected_heap(tool, command)
    part = re.sub(r"[^A-Za-z0-9.-]", "_", job)  # of the names of folders
    buffers = make_buffers(options, configured, shell, tool, buffer_nodes, part) if buffer_nodes else None
    if buffers:
        os.environ |= buffers.variables()
    staging = None
    if staging_nodes:
        staging = Staging(shell, tool, staging_nodes, folder_of(Staging, "staging", configured, part), say_on_stderr)
        os.environ |= staging.variables()
    more = None
    if options.more:
        if not (options.fmi and isinstance(shell, SlurmShell)):
            raise ValueError("--more is for a program of FMI (--fmi) in a SLURM allocation")
        more = MoreNodes(shell, slurm_job() or "", options.more, say_on_stderr)
        behind.callback(more.end)
    if options.fmi:
        launcher = make_fmirun(options, configured, shell, tool, is_here, len(nodes.in_use), part, more)
        nodes = Nodes([*nodes.in_use, *nodes.spares], [], nodes.nodes_min)
    else:
        launcher = find_launcher(options.launcher, in_slurm, is_here, shlex.split(options.launch_options), ssh)
    allocation = Allocation(options.until, slurm_job() if in_slurm else None)
    allocation.watch_signals()
    supervisor = Supervisor(
        tool=tool, job=job, ranks=ranks, application=command, nodes=nodes, launcher=launcher,
        agents=Agents(shell, tool, options.agent_log, start=not options.no_agents), buffers=buffers, staging=staging, more=more,
        health=Health(shell, tool, ["sh", "-c", options.probe] if options.probe else [], in_slurm, options.patience), allocation=allocation,
        limits=Limits(
            restarts_max=options.restarts, launches_without_progress_max=options.no_progress, back_off=options.back_off,
            heartbeat=options.heartbeat, patience=options.patience, reserve=options.reserve, drain=options.drain_timeout, requeue_code=options.requeue_code,
            release_nodes=options.release_nodes, begin_if_lost=if_lost == "begin",
        ),
        output=sys.stderr.buffer if options.json else None, say=say_on_stderr,
    )
    return supervisor.run()


def with_joined_options(arguments: Sequence[str]) -> list[str]:
    """The same with ``--launch-options --mpi=pmi2`` as one word: argparse takes a value that begins with dashes for an option."""
    words = list(arguments)
    own = words.index("--") if "--" in words else len(words)
    if "--launch-options" in words[: own - 1]:
        at = words.index("--launch-options")
        words[at : at + 2] = ["=".join(words[at : at + 2])]
    return words


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    options = build_parser().parse_args(with_joined_options(sys.argv[1:] if arguments is None else arguments))
    try:
        with contextlib.ExitStack() as behind:
            report = supervise(options, behind)
    except (ValueError, OSError, subprocess.SubprocessError, TooFewNodesError) as error:
        say_on_stderr(str(error))
        return int(ExitCode.USAGE)
    if options.json:
        print(json.dumps(report.as_json()), flush=True)
    return report.exit_code
