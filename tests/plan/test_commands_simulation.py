"""`kedge plan simulate` and `kedge plan fit` from the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kedge.plan.cli import main
from kedge.plan.model import evaluate
from kedge.plan.parallel import Progress, map_parallel
from kedge.plan.scenario import parse_scenario
from kedge.plan.simulate import simulate
from kedge.plan.system import load_system

SYSTEM = """\
work_seconds = 1e5
alpha = 0.05
nodes = 64
[[level]]
name = "xor"
overhead_seconds = 20
restart_seconds = 30
failure_rate_per_second = 2e-4
[[level]]
name = "store"
overhead_seconds = 20
latency_seconds = 620
restart_seconds = 300
failure_rate_per_second = 3e-5
asynchronous = true
"""


@pytest.fixture
def system(tmp_path: Path) -> str:
    path = tmp_path / "system.toml"
    path.write_text(SYSTEM)
    return str(path)


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert main(arguments) == 0
    parsed = json.loads(capsys.readouterr().out)
    assert isinstance(parsed, dict)
    return parsed


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


def test_simulate_a_given_choice(system: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "simulate", system, "--interval", "300", "--counts", "3", "--seed", "3", "--json")
    model = evaluate(load_system(system), 300.0, (3,))
    assert found["model_efficiency"] == model.efficiency
    assert found["transitions"] >= 300_000  # type: ignore[operator]
    low, value, high = (found[key] for key in ("efficiency_low", "efficiency", "efficiency_high"))
    assert 0 < low < value < high < 1  # type: ignore[operator]
    assert value == simulate(load_system(system), 300.0, (3,), seed=3).efficiency.value
    assert found["expected_seconds"] == pytest.approx(1e5 / value)  # type: ignore[operator]


def test_simulate_takes_the_optimum_for_what_is_left_out(system: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "simulate", system, "--transitions", "20000", "--counts", "3", "--json")
    assert found["counts"] == [3]
    best = found["model_efficiency"]
    for factor in (0.7, 1.4):
        interval = found["interval_seconds"] * factor  # type: ignore[operator]
        assert evaluate(load_system(system), interval, (3,)).efficiency < best  # type: ignore[operator]


def test_simulate_jobs_and_survival(system: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(
        capsys, "simulate", system, "--interval", "300", "--counts", "3", "--transitions", "20000", "--json",
        "--jobs", "50", "--survive-hours", "2", "--level", "xor",
    )  # fmt: skip
    jobs, survival = found["jobs"], found["survival"]
    assert isinstance(jobs, dict) and isinstance(survival, dict)
    assert jobs["runs"] == 50 and jobs["quantiles_seconds"]["0.05"] < jobs["mean_seconds"]
    assert survival["probability_low"] < 0.1909 < survival["probability_high"]  # exp(-2.3e-4 x 7200)


def test_simulate_replays_a_trace(system: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text(
        "time,nodes,level\n" + "".join(f"{5000 * k},,{'store' if k % 7 == 0 else 'xor'}\n" for k in range(1, 50))
    )
    found = answer(
        capsys, "simulate", system, "--interval", "300", "--counts", "3", "--trace", str(trace), "--transitions", "100000", "--json"
    )  # fmt: skip
    failures = found["failures"]
    assert isinstance(failures, dict)
    assert failures["store"] / failures["xor"] == pytest.approx(1 / 6, abs=0.02)


def test_simulate_prints_text(system: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", system, "--interval", "300", "--counts", "3", "--transitions", "20000"]) == 0
    text = capsys.readouterr().out
    assert "efficiency" in text and "the model says" in text and "restarts" in text


def test_pictures_and_pages_hold_the_numbers(system: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    png, page = tmp_path / "jobs.png", tmp_path / "answer.html"
    arguments = ["--interval", "300", "--counts", "3", "--transitions", "2000", "--jobs", "20"]
    found = answer(capsys, "simulate", system, *arguments, "--png", str(png), "--html", str(page), "--json")
    assert png.read_bytes().startswith(b"\x89PNG")
    text = page.read_text()
    assert f"{found['efficiency']:.5g}" in text and "shares: useful" in text and text.count("data:image/png") == 2
    log = tmp_path / "failures.csv"
    log.write_text("time,nodes\n" + "".join(f"{3600 * k * k},n1\n" for k in range(1, 21)))
    assert main(["fit", str(log), "--png", str(png), "--html", str(page)]) == 0
    assert png.read_bytes().startswith(b"\x89PNG")
    assert "weibull, mean_seconds" in page.read_text()
    assert main(["simulate", system, *arguments, "--png", str(tmp_path / "none" / "x.png")]) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--interval", "-5"], "--interval = '-5': allowed is a number of seconds above 0"),
        (["--counts", "3,4"], "--counts = '3,4'"),
        (["--transitions", "3"], "transitions = 3: allowed is a whole number from 16"),
        (["--confidence", "2"], "--confidence = 2.0: allowed is a number from 0.5 to 0.999999"),
        (["--seed", "-1"], "--seed = -1"),
        (["--interval", "10"], "--interval = '10': allowed is at least 20 s, a checkpoint of level 'xor'"),
        (["--interval", "30", "--counts", "3"], "level[1].latency_seconds = 620.0: allowed is at most"),
        (["--distribution", "weibull"], "simulation.shape is not given"),
        (["--level", "disk", "--survive-hours", "2"], "--level = 'disk': allowed is the name of a level: xor, store"),
        (["--model-assumptions", "--shape", "0.7"], "--model-assumptions"),
        (["--trace", "/nonexistent"], "trace = '/nonexistent': allowed is a file that can be read"),
    ],
)
def test_simulate_errors(system: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    if "--transitions" not in arguments:
        arguments = [*arguments, "--transitions", "1000"]
    assert message in complaint(capsys, "simulate", system, *arguments)


def test_fit_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "failures.csv"
    log.write_text(
        "time,nodes\n" + "".join(f"{3600 * k * k},{'n1;n2' if k % 5 == 0 else 'n1'}\n" for k in range(1, 21))
    )
    found = answer(
        capsys, "fit", str(log), "--levels", "xor:1,store", "--span-hours", "500", "--nodes", "10", "--json"
    )  # fmt: skip
    levels = found["levels"]
    assert isinstance(levels, list)
    assert [(level["name"], level["count"]) for level in levels] == [("xor", 16), ("store", 4)]
    assert levels[0]["failure_rate_per_second"] == pytest.approx(16 / 1.8e6)
    assert levels[0]["failure_rate_per_node_second"] == pytest.approx(1.6 / 1.8e6)
    assert levels[0]["failure_rate_per_second_low"] < 16 / 1.8e6 < levels[0]["failure_rate_per_second_high"]
    assert found["total"]["trend_p_value"] < 0.05  # type: ignore[index]
    assert main(["fit", str(log)]) == 0
    assert "the time observed is not given" in capsys.readouterr().out
    assert "--levels = 'xor:one'" in complaint(capsys, "fit", str(log), "--levels", "xor:one")
    assert "--span-hours = -1.0" in complaint(capsys, "fit", str(log), "--span-hours", "-1")


def test_fit_with_a_systems_placement(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    system = tmp_path / "system.toml"
    system.write_text(
        SYSTEM
        + "[[simulation.protection]]\ngroup_nodes = 8\ntolerance = 1\nlayout = 'adjacent'\n[[simulation.protection]]\n"
    )
    log = tmp_path / "failures.csv"
    log.write_text("time,nodes\n100,n1\n200,n1;n9\n300,n1;n2\n")
    found = answer(capsys, "fit", str(log), "--system", str(system), "--span-hours", "1", "--json")
    levels = found["levels"]
    assert isinstance(levels, list)
    assert [(level["name"], level["count"]) for level in levels] == [("xor", 2), ("store", 1)]
    assert found["node_seconds"] == 64 * 3600.0


def test_the_number_of_processes_changes_nothing(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kedge.plan.simulate.BATCH_TRANSITIONS", 20_000)
    loaded = load_system(system)
    alone = simulate(loaded, 300.0, (3,), transitions=60_000, seed=9)
    both = simulate(loaded, 300.0, (3,), transitions=60_000, seed=9, processes=2)
    assert alone == both
    assert alone.runs > simulate(loaded, 300.0, (3,), transitions=20_000, seed=9).runs


def reciprocal(value: float) -> float:
    return 1.0 / value


def test_an_exception_in_a_worker_is_raised_here() -> None:
    with pytest.raises(ZeroDivisionError):
        map_parallel(reciprocal, [1.0, 0.0, 2.0], processes=2)


class Terminal:
    """Collects what is written and says that it is a terminal."""

    def __init__(self) -> None:
        self.written = ""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.written += text
        return len(text)

    def flush(self) -> None:
        pass


def test_progress_bar_ends_its_line() -> None:
    terminal = Terminal()
    map_parallel(reciprocal, [1.0, 2.0], progress=Progress("working", terminal))  # type: ignore[arg-type]
    assert terminal.written.endswith("2/2, 0 s left \n")
    assert "working [" in terminal.written


def test_help_names_every_option() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "kedge.plan", "simulate", "--help"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    for option in ("--interval", "--counts", "--transitions", "--seed", "--trace", "--json", "--jobs"):
        assert option in result.stdout


def test_the_example_of_the_planners_page_simulates(tmp_path: Path) -> None:
    """The page's own system: groups across failure domains beat neighbouring ones, as it says."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "planner.md").read_text()
    blocks = [part.split("```")[0] for part in page.split("```toml\n")[1:]]
    block = next(block for block in blocks if "[[simulation.protection]]" in block)
    efficiencies = []
    for layout in ("spread", "adjacent"):
        path = tmp_path / f"{layout}.toml"
        path.write_text(block.replace('"spread"', f'"{layout}"'))
        loaded = load_system(path)
        found = simulate(loaded, 3000.0, (3,), scenario=parse_scenario(loaded), transitions=100_000, confidence=0.999)
        efficiencies.append(found.efficiency)
    assert efficiencies[0].covers(0.9417) and efficiencies[1].covers(0.9227)
    assert efficiencies[0].low > efficiencies[1].high
