"""The example programs by themselves: the checksum that everything rests on; what the README and the tutorial show."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from processes import ranks_that_sleep

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("BUILD_FOLDER", ROOT / "build"))
sys.path.insert(0, str(ROOT / "examples" / "support"))

from applications import Application  # noqa: E402
from launch import Launcher  # noqa: E402
from node import Node  # noqa: E402


NUMBERS = itertools.count()


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name, value in ranks_that_sleep().items():
        monkeypatch.setenv(name, value)
    with Node(pool_bytes=64 << 20) as node:
        yield node


def run(node: Node, program: str, ranks: int, *arguments: int) -> str:
    """One launch of heat3d or quickstart as a job of its own; its output."""
    cells, steps, interval = arguments
    application = Application(program, program, cells, steps, interval)
    launcher = Launcher(BUILD, node, "openmpi", ranks, lambda text: None)
    return launcher.run(application, f"job-{next(NUMBERS)}", 0).output


@pytest.mark.needs("MPI")
@pytest.mark.parametrize("program", ["heat3d", pytest.param("heat3d-fortran", marks=pytest.mark.needs("FORTRAN"))])
def test_the_checksum_does_not_depend_on_ranks_or_language(node: Node, program: str) -> None:
    sums = {re.findall("checksum ([0-9A-F]{16})", run(node, program, ranks, 17, 30, 100))[0] for ranks in (1, 2, 3, 4)}
    sums |= set(re.findall("checksum ([0-9A-F]{16})", run(node, "heat3d", 1, 17, 31, 100)))
    assert len(sums) == 2, "one for 30 steps, whatever the ranks, and another for 31"
    assert set(re.findall("checksum ([0-9A-F]{16})", run(node, "heat3d", 4, 17, 30, 100))) < sums


@pytest.mark.needs("MPI")
@pytest.mark.parametrize("program", ["heat3d", pytest.param("heat3d-fortran", marks=pytest.mark.needs("FORTRAN"))])
def test_the_interval_can_be_left_to_kedge(node: Node, program: str) -> None:
    """auto: the agent's interval replaces the configured one; killed and launched again, the result is the same to the last bit."""
    environment = node.mpi_environment(f"auto-{program}")
    environment |= {"KEDGE_SCHEDULE_INTERVAL": "70ms", "KEDGE_SCHEDULE_MTBF_LOCAL": "24h"}
    launcher = next(filter(None, map(shutil.which, ("mpirun.openmpi", "mpirun"))))
    command = [launcher, "-n", "2", str(BUILD / "examples" / program), "16"]
    first = subprocess.Popen([*command, "100000000", "auto"], env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        until(lambda: adapted(environment), first)
    finally:
        os.killpg(first.pid, signal.SIGTERM)
        first.communicate(timeout=60)

    def go_on(steps: int) -> str:
        done = subprocess.run([*command, str(steps), "auto"], env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    (step,) = map(int, re.findall(r"continuing from step (\d+)", go_on(1)))
    assert step > 1
    last = go_on(step + 500)
    assert f"continuing from step {step}\n" in last
    assert re.findall(r"checkpoints taken when due: \d+, \d*\.\d+ s each; the interval is (?!0?\.000)\d*\.\d+ s by now", last)
    expected = re.findall("checksum ([0-9A-F]{16})", run(node, "heat3d", 2, 16, step + 500, step + 500))
    assert re.findall("checksum ([0-9A-F]{16})", last) == expected


@pytest.mark.needs("MPI")
@pytest.mark.parametrize("program", ["heat3d", pytest.param("heat3d-fortran", marks=pytest.mark.needs("FORTRAN"))])
def test_the_field_goes_on_on_another_number_of_ranks(node: Node, program: str) -> None:
    """Fewer, then more: the result is that of one rank to the last bit."""
    output = ""
    for number, (ranks, steps) in enumerate([(8, 40), (3, 80), (5, 120)]):
        launcher = Launcher(BUILD, node, "openmpi", ranks, lambda text: None)
        output = launcher.run(Application(program, program, 19, steps, 20), f"divided-{program}", number).output
        assert number == 0 or f"continuing from step {steps - 40}\n" in output, output
    assert re.findall("checksum ([0-9A-F]{16})", output) == re.findall("checksum ([0-9A-F]{16})", run(node, "heat3d", 1, 19, 120, 200))


def adapted(environment: dict[str, str]) -> bool:
    """Whether the agent's interval holds by now, and not the configured one; and a version is in the store."""
    done = subprocess.run([BUILD / "bin" / "kedge", "status", "--json"], env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        return False
    jobs = json.loads(done.stdout)["jobs"]
    if not jobs:
        return False  # an agent, and no rank has come yet
    job = jobs[0]
    schedule = job["schedule"]
    stored = job["levels"]["store"]["reached"]["count"] > 0
    proposal = schedule["proposal"]
    return stored and proposal is not None and schedule["interval_seconds"] == pytest.approx(proposal["interval_seconds"])


def until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Waits until `condition` holds; the process must live as long."""
    deadline = time.monotonic() + 60
    while not condition():
        assert process.poll() is None and time.monotonic() < deadline, "it has ended, or it takes too long"
        time.sleep(0.1)


@pytest.mark.needs("MPI")
def test_heat3d_refuses_a_wrong_usage(node: Node) -> None:
    command = [BUILD / "examples" / "heat3d", "0", "1", "1"]
    done = subprocess.run(command, capture_output=True, text=True, env=node.mpi_environment("usage"))
    assert done.returncode != 0
    assert "CELLS STEPS INTERVAL" in done.stderr


@pytest.mark.needs("MPI")
@pytest.mark.parametrize("program", ["quickstart", "quickstart-cpp", pytest.param("quickstart-fortran", marks=pytest.mark.needs("FORTRAN"))])
def test_the_quickstart_runs_and_continues(node: Node, program: str) -> None:
    application = Application(program, program, 1, 1, 1)
    launcher = Launcher(BUILD, node, "openmpi", 2, lambda text: None)
    first = launcher.run(application, program, 1).output
    assert "continuing" not in first
    assert len(re.findall(r"field.* = 2525", first)) == 2
    second = launcher.run(application, program, 2).output
    assert len(re.findall("continuing from step 100", second)) == 2
    assert len(re.findall(r"field.* = 2525", second)) == 2


@pytest.mark.needs("PYTHON")
def test_the_quickstart_runs_and_continues_in_python(node: Node) -> None:
    environment = node.environment("quickstart-python") | {"PYTHONPATH": str(BUILD / "python")}
    command = [sys.executable, str(ROOT / "examples" / "quickstart" / "quickstart.py")]
    outputs = [subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout for _ in range(2)]
    assert outputs == ["field[0] = 2525\n", "continuing from step 100\nfield[0] = 2525\n"]


def fenced(language: str) -> str:
    """What stands in the README's block of a language."""
    (block,) = re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    return str(block)


@pytest.mark.parametrize(
    ("language", "suffix", "started"),
    [
        pytest.param("c", "c", "mpirun -n 2 ./app", marks=pytest.mark.needs("MPI")),
        pytest.param("cpp", "cc", "mpirun -n 2 ./app", marks=pytest.mark.needs("MPI")),
        pytest.param("fortran", "f90", "mpirun -n 2 ./app", marks=pytest.mark.needs("MPI", "FORTRAN")),
        pytest.param("python", "py", "true", marks=pytest.mark.needs("PYTHON")),
    ],
)
def test_the_commands_of_the_readme_build_and_run_its_programs(node: Node, tmp_path: Path, language: str, suffix: str, started: str) -> None:
    folder = tmp_path / "kedge"
    programs = folder / "programs"  # where both MPI libraries are installed, these may belong to either
    programs.mkdir(parents=True)
    for program in ("mpicc", "mpicxx", "mpifort", "mpirun"):
        (programs / program).symlink_to(next(filter(None, map(shutil.which, (f"{program}.openmpi", program)))))
    for name, place in (("include", ROOT / "include"), ("build", BUILD), (".venv", Path(sys.prefix))):
        (folder / name).symlink_to(place)
    (folder / f"app.{suffix}").write_text(fenced(language))
    (command,) = [line for line in fenced("sh").splitlines() if re.search(rf" app\.{suffix}\b", line)]
    environment = node.mpi_environment(f"readme-{language}")
    environment["PATH"] = f"{programs}:{environment['PATH']}"
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(["bash", "-c", f"{command} && {started}"], cwd=folder, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("= 2525") == (1 if language == "python" else 2)


@pytest.mark.parametrize(("language", "file"), [("c", "quickstart.c"), ("cpp", "quickstart.cc"), ("fortran", "quickstart.f90"), ("python", "quickstart.py")])
def test_the_readme_shows_the_files_that_run_here(language: str, file: str) -> None:
    code = (ROOT / "examples" / "quickstart" / file).read_text()
    assert f"```{language}\n{code}```\n" in (ROOT / "README.md").read_text()


def test_the_commands_of_the_tutorial_work_in_their_order(node: Node, tmp_path: Path) -> None:
    """All of them but the build: the program is killed, goes on, and is at its end when it goes on from the store alone."""
    page = (ROOT / "docs" / "tutorial.md").read_text()
    folder = tmp_path / "kedge"
    folder.mkdir()
    (folder / "include").symlink_to(ROOT / "include")
    (folder / "build").symlink_to(BUILD)
    (program,) = re.findall(r"^```c\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (folder / "tutorial.c").write_text(program)
    commands = [block for block in re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL) if block != "make build\n"]
    assert any("kill -9" in command for command in commands)
    outputs = []
    for command in commands:
        done = subprocess.run(
            ["bash", "-ec", command], cwd=folder, env=node.environment("tutorial"), capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        outputs.append(done.stdout)
    text = "".join(outputs)
    assert "everything is durable\n" in text and re.search(r"^tutorial +state +\d+ +complete ", text, re.MULTILINE), text
    steps = [int(step) for step in re.findall(r"continuing from step (\d+)\n", text)]
    assert len(steps) == 2 and steps[0] in (5, 10, 15) and steps[1] == 40, text
    (result,) = re.findall(r"^```\n(step 40: .*?\n)```$", page, re.MULTILINE)
    assert text.count(result) == 2


class Storms:
    """Launches of storm, of one size."""

    def __init__(self, node: Node, side: int = 16, planes: int = 40) -> None:
        self._node, self._size = node, [str(side), str(planes)]
        self._launcher = next(filter(None, map(shutil.which, ("mpirun.openmpi", "mpirun"))))

    def start(self, job: str, ranks: int, steps: int, interval: int, **environment: str) -> subprocess.Popen[str]:
        command = [self._launcher, "-n", str(ranks), str(BUILD / "examples" / "storm"), *self._size, str(steps), str(interval)]
        return subprocess.Popen(command, env=self._node.mpi_environment(job) | environment, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, start_new_session=True)

    def run(self, job: str, ranks: int, steps: int, interval: int, **environment: str) -> str:
        return self.start(job, ranks, steps, interval, **environment).communicate(timeout=120)[0]

    def sums(self, output: str) -> list[str]:
        return re.findall("checksum ([0-9A-F]{16})", output)


@pytest.mark.needs("MPI")
def test_the_storm_does_not_depend_on_ranks(node: Node) -> None:
    storms = Storms(node)
    sums = [storms.sums(storms.run(f"storm-{ranks}", ranks, 60, 100)) for ranks in (1, 2, 3)]
    assert len(sums[0]) == 1 and sums[0] == sums[1] == sums[2]
    assert storms.sums(storms.run("storm-further", 2, 61, 100)) != sums[0], "it moves"


@pytest.mark.needs("MPI")
@pytest.mark.parametrize(("mode", "side"), [("copy", 16), ("cow", 128)])
def test_the_storm_goes_on_after_a_kill(node: Node, mode: str, side: int) -> None:
    """With cow, arrays are so large that they are captured later."""
    storms, job = Storms(node, side, 64), f"killed-{mode}"
    capture = {"KEDGE_CAPTURE_MODE": mode, "KEDGE_POOL_SIZE": "256MiB"}
    killed = storms.start(job, 2, 100_000_000, 20, **capture)
    until(lambda: "complete" in subprocess.run([BUILD / "bin" / "kedge", "ls"], env=node.environment(job), capture_output=True,
                                               text=True).stdout, killed)
    os.killpg(killed.pid, signal.SIGTERM)
    killed.communicate(timeout=60)
    (step,) = map(int, re.findall(r"continuing from step (\d+)", storms.run(job, 2, 1, 1, **capture)))
    assert step > 0 and step % 20 == 0
    last = storms.run(job, 2, step + 30, 100_000_000, **capture)
    assert f"continuing from step {step}\n" in last
    assert storms.sums(last) == storms.sums(storms.run(f"whole-{mode}", 1, step + 30, 100_000_000, **capture))


@pytest.mark.needs("MPI")
def test_a_storm_of_another_size_is_refused(node: Node) -> None:
    storms = Storms(node)
    storms.run("sized", 1, 1, 1)
    command = [str(BUILD / "examples" / "storm"), "17", "40", "1", "1"]
    done = subprocess.run(command, env=node.mpi_environment("sized"), capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "another size" in done.stderr


@pytest.mark.needs("MPI")
def test_a_tree_of_pointers_goes_on_after_a_kill(node: Node) -> None:
    launcher = next(filter(None, map(shutil.which, ("mpirun.openmpi", "mpirun"))))

    def start(job: str) -> subprocess.Popen[str]:
        command = [launcher, "-n", "2", str(BUILD / "examples" / "tree"), "400"]
        return subprocess.Popen(command, env=node.mpi_environment(job), stdout=subprocess.PIPE, text=True, start_new_session=True)

    def sums(output: str) -> list[str]:
        return sorted(re.findall(r"rank \d: \d+ words, checksum [0-9A-F]{16}", output))

    whole = sums(start("whole").communicate(timeout=120)[0])
    assert len(whole) == 2
    killed = start("killed")
    assert killed.stdout is not None
    while "checkpoint" not in killed.stdout.readline():
        assert killed.poll() is None
    os.killpg(killed.pid, signal.SIGTERM)
    killed.communicate(timeout=60)
    last = start("killed").communicate(timeout=120)[0]
    assert re.search(r"continuing from step \d+0 with \d+ words", last)
    assert sums(last) == whole
