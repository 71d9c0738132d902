"""Under a real SLURM with four virtual nodes: MPICH over srun, a node that dies in mid-run, and the job script of docs/operations.md."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster import Cluster
from heat import HEAT_MPICH, assert_continued
from machine import KEDGE, Machine
from undrained import undrained
from waiting import until

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.needs("MPI", "MPICH")


@pytest.fixture
def cluster(machine: Machine) -> Iterator[Cluster]:
    folder = machine.folder / "slurm"
    folder.mkdir(mode=0o755)
    with Cluster(folder, machine.names) as cluster:
        yield cluster


def submit(cluster: Cluster, machine: Machine, script: str, *options: str) -> Path:
    """Queues a script in the machine's environment; the file that its output goes to."""
    exports = "".join(f"export {name}='{value}'\n" for name, value in machine.settings.items())
    path = machine.folder / "job.sh"
    directives = "".join(line + "\n" for line in script.splitlines() if line.startswith("#SBATCH"))
    path.write_text(f"#!/bin/bash\n{directives}{exports}export SLURM_CONF={cluster.folder}/slurm.conf PATH={KEDGE.parent}:$PATH\n{script}")
    output = machine.folder / "job.out"
    cluster.run("sbatch", f"--output={output}", *options, str(path))
    return output


def text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""


@pytest.mark.parametrize("told", [True, False], ids=["told", "untold"])
def test_a_node_that_dies_in_mid_run_is_replaced_by_a_spare(cluster: Cluster, machine: Machine, told: bool) -> None:
    """Nothing is in the store: what it had is rebuilt from the others. Whom SLURM has not told finds out by itself, before SLURM does."""
    machine.settings |= {"KEDGE_PROTECT_SCHEME": "xor", "KEDGE_SCHEDULE_STORE": "0"}
    heat = shlex.join(machine.endless(HEAT_MPICH, 24))
    script = (
        f"kedge run --json --virtual --nodes=3 --ranks=3 --heartbeat=2s --launch-options=--mpi=pmi2 -- {heat} > report.json\n"
        "echo kedge run is over: $?\n"
    )
    output = submit(cluster, machine, script, "--nodes=4", "--no-kill", f"--chdir={machine.folder}")
    machine.end_after(until(lambda: machine.protected(machine.names[0])))
    lost = machine.names[2]
    cluster.kill_node(lost, told=told)
    shutil.rmtree(machine.run_folders / lost, ignore_errors=True)
    until(lambda: "kedge run is over" in text(output), seconds=180)
    assert "kedge run is over: 0" in text(output), text(output) + cluster.logs()
    report = json.loads((machine.folder / "report.json").read_text())
    assert report["outcome"] == "finished" and len(report["launches"]) >= 2, text(output)
    assert lost in report["launches"][0]["nodes"]
    assert ("SLURM says that it is down" if told else "its slurmd does not run") in report["launches"][0]["dead"][lost]
    assert report["launches"][-1]["nodes"] == [machine.names[0], machine.names[1], machine.names[3]]
    assert_continued(machine, text(output), cells=24)


@pytest.mark.needs("PYTHON")
def test_nodes_go_back_to_the_cluster_when_staging_agents_have_what_they_had(cluster: Cluster, machine: Machine) -> None:
    machine.settings["KEDGE_FLUSH_RATE"] = "2MiB"
    script = (
        f"kedge run --virtual --ranks=3 --staging=1 --release-nodes -- {shlex.join(undrained(machine))}\n"
        "echo kedge run is over: $?\n"
    )
    output = submit(cluster, machine, script, "--nodes=4", f"--chdir={machine.folder}")
    until(lambda: cluster.run("squeue", "-h", "-o", "%D").split() == ["2"])
    assert "kedge run is over" not in text(output)
    until(lambda: "kedge run is over" in text(output))
    assert "kedge run is over: 0" in text(output), text(output) + cluster.logs()
    assert "3 of 3 nodes are free" in text(output) and "do not take" not in text(output), text(output)
    assert machine.versions()


def test_what_the_scheduler_refuses_is_not_tried_again(cluster: Cluster, machine: Machine) -> None:
    script = "kedge run --virtual --nodes=2 --ranks=2 --launch-options=--constraint=nonsense -- hostname\necho kedge run is over: $?\n"
    output = submit(cluster, machine, script, "--nodes=2", f"--chdir={machine.folder}")
    until(lambda: "kedge run is over" in text(output))
    assert "kedge run is over: 1" in text(output) and "launch 2" not in text(output), text(output) + cluster.logs()
    assert re.search(r"gave up: srun starts nothing: \S", text(output)), text(output)


def test_the_job_script_of_the_operations_page_ends_and_continues(cluster: Cluster, machine: Machine) -> None:
    """As it is printed, on smaller numbers: the scheduler's signal, the last checkpoint, the requeue, and the second run finishes."""
    page = (ROOT / "docs" / "operations.md").read_text()
    (script,) = re.findall(r"^```sh\n#!/bin/bash\n(.*?--signal.*?)^```$", page, re.MULTILINE | re.DOTALL)
    for printed, used in (
        ("--nodes=18 --time=24:00:00", "--nodes=3"), ("--nodes 16 --ranks 1024 --reserve 10min", "--virtual --nodes 2 --ranks 2 --launch-options=--mpi=pmi2"),
        ("./climate", f"{HEAT_MPICH} 24 $(cat {machine.folder}/steps) 0"), ("/scratch/$USER/kedge", str(machine.store)),
    ):
        assert printed in script, f"the page does not say {printed} any more"
        script = script.replace(printed, used)
    (machine.folder / "steps").write_text("10000000")
    output = submit(cluster, machine, script, f"--chdir={machine.folder}")
    until(machine.versions)
    job = cluster.run("squeue", "-h", "-o", "%i").split()[0]
    cluster.run("scancel", "--batch", "--signal=USR1", job)
    until(lambda: "out of time" in text(output))
    assert "heat3d: halted at step" in text(output), text(output)
    until(lambda: re.search(r"out of time: .*newest in the store: heat3d \d+\n", text(output)))
    last = int(re.findall(r"out of time: .*newest in the store: heat3d (\d+)\n", text(output))[-1])
    (machine.folder / "steps").write_text(str(last + 200))
    until(lambda: "PENDING" in cluster.run("squeue", "-h", "-o", "%T") or "finished:" in text(output))
    # A requeued job waits for two minutes in a real cluster. Here nobody has the time, but it must not begin in the second of the requeue:
    # slurmd takes its credential for the one that was revoked, and SLURM ends the job.
    cluster.run("scontrol", "update", f"jobid={job}", "starttime=now+3", check=False)
    until(lambda: "finished: the application finished" in text(output) or "FAILED" in cluster.run("scontrol", "show", "job", job), seconds=200)
    assert "finished: the application finished" in text(output), text(output) + cluster.logs()
    assert f"continuing from step {last}\n" in text(output) and f"step {last + 200}, checksum" in text(output)
