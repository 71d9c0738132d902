"""plan watch: reading what a job reports, correcting the system by it, and proposing only what is worth it."""

from __future__ import annotations

import json
import socket
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kedge.plan.cli import main
from kedge.plan.errors import PlanError
from kedge.plan.online import corrected_rate, corrected_system, propose
from kedge.plan.runtime_metrics import JobMeasurement, Mean, parse_prometheus, parse_status, read_socket
from kedge.plan.system import Level, System

METRICS = """\
# HELP kedge_checkpoint_blocked_seconds time the application was blocked
# TYPE kedge_checkpoint_blocked_seconds summary
kedge_checkpoint_blocked_seconds_sum{job="solver"} 50
kedge_checkpoint_blocked_seconds_count{job="solver"} 10
kedge_level_seconds_sum{job="solver",level="xor"} 90 1700000000
kedge_level_seconds_count{job="solver",level="xor"} 10
kedge_level_seconds_sum{job="solver",level="store"} 1200
kedge_level_seconds_count{job="solver",level="store"} 2
kedge_restart_seconds_sum{job="solver",level="xor"} 12
kedge_restart_seconds_count{job="solver",level="xor"} 1
kedge_failures_total{job="solver",level="xor"} 3
kedge_job_seconds{job="solver"} 86400
kedge_tier_bytes{tier="memory"} 123
process_start_time_seconds 5e9
"""

STATUS = {
    "jobs": [
        {
            "job": "solver",
            "observed_seconds": 86400,
            "blocked": {"sum": 50, "count": 10},
            "levels": {
                "xor": {"reached": {"sum": 90, "count": 10}, "restarts": {"sum": 12, "count": 1}, "failures": 3},
                "store": {"reached": {"sum": 1200, "count": 2}},
            },
        }
    ]
}

SYSTEM_TOML = """
work_seconds = 1e6
[[level]]
name = "xor"
overhead_seconds = 30
restart_seconds = 30
failure_rate_per_second = 1e-5
[[level]]
name = "store"
asynchronous = true
overhead_seconds = 30
latency_seconds = 2000
restart_seconds = 1500
failure_rate_per_second = 1e-6
"""


def given_system() -> System:
    """What was believed before the job ran."""
    return System(
        1e6, 0.0, (Level("xor", 30.0, 30.0, 30.0, 1e-5, False), Level("store", 30.0, 2000.0, 1500.0, 1e-6, True))
    )


def test_both_sources_say_the_same() -> None:
    assert parse_prometheus(METRICS) == parse_status(json.dumps(STATUS))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kedge_failures_total{job=solver", "metrics line 1"),
        ('kedge_failures_total{job="a",level="xor"} -1', "at least 0"),
        ('\nkedge_failures_total{job="a",level="xor"} NaN', "metrics line 2"),
    ],
)
def test_broken_metrics_are_refused(text: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        parse_prometheus(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "JSON"),
        ("[]", "status.jobs"),
        ('{"jobs": [{}]}', r"status.jobs\[0\]"),
        ('{"jobs": [{"job": "a", "observed_seconds": -1}]}', "observed_seconds = -1"),
        ('{"jobs": [{"job": "a", "blocked": 3}]}', "sum and count"),
        ('{"jobs": [{"job": "a", "levels": {"xor": {"failures": "many"}}}]}', "levels.xor.failures = 'many'"),
    ],
)
def test_broken_status_is_refused(text: str, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        parse_status(text)


def test_measured_times_replace_the_given_ones() -> None:
    corrected = corrected_system(given_system(), parse_prometheus(METRICS)["solver"])
    xor, store = corrected.levels
    assert (xor.overhead_seconds, xor.latency_seconds, xor.restart_seconds) == (5.0, 9.0, 12.0)
    assert xor.asynchronous
    assert (store.overhead_seconds, store.latency_seconds, store.restart_seconds) == (5.0, 600.0, 1500.0)


def test_nothing_measured_changes_nothing() -> None:
    assert corrected_system(given_system(), JobMeasurement("solver")) == given_system()


def test_rates_move_from_the_given_to_the_observed() -> None:
    assert corrected_rate(1e-5, 0.0, 0.0, 2.0) == pytest.approx(1e-5)
    assert corrected_rate(1e-5, 0.0, 1e4, 2.0) == pytest.approx(2.0 / 2.1e5)
    assert corrected_rate(1e-5, 300.0, 1e6, 2.0) == pytest.approx(3e-4, rel=0.2)
    assert corrected_rate(0.0, 3.0, 1e5, 2.0) == pytest.approx(3e-5)
    assert corrected_rate(0.0, 0.0, 0.0, 2.0) == 0.0


def test_a_change_is_proposed_only_when_it_gains_enough() -> None:
    measured = JobMeasurement("solver", blocked=Mean(50.0, 10.0))
    best = propose(given_system(), measured).best
    kept = propose(given_system(), measured, interval_seconds=best.interval_seconds * 1.05, counts=best.counts)
    assert not kept.change and kept.present_efficiency is not None
    far = propose(given_system(), measured, interval_seconds=best.interval_seconds * 20.0, counts=best.counts)
    assert far.change and "to gain" in far.reason
    short = propose(given_system(), measured, interval_seconds=10.0, counts=(1,))
    assert short.change and "does not fit" in short.reason


def test_a_level_that_the_system_does_not_have_is_named() -> None:
    job = parse_prometheus(METRICS.replace('level="store"', 'level="tape"'))["solver"]
    with pytest.raises(PlanError, match="measured level = 'tape'.*xor, store"):
        corrected_system(given_system(), job)


@pytest.fixture
def system(tmp_path: Path) -> str:
    """The system as a file."""
    path = tmp_path / "system.toml"
    path.write_text(SYSTEM_TOML)
    return str(path)


def test_watch_reads_files_and_sets_the_schedule(
    system: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    metrics, target = tmp_path / "metrics.txt", tmp_path / "schedule.toml"
    metrics.write_text(METRICS)
    assert main(["watch", system, "--metrics", str(metrics), "--once", "--set", str(target)]) == 0
    assert "change to interval" in capsys.readouterr().out
    schedule = tomllib.loads(target.read_text())["schedule"]
    interval = schedule["interval"].removesuffix("s")
    status = tmp_path / "status.json"
    status.write_text(json.dumps(STATUS))
    counts = str(schedule["store"] - 1)
    words = ["watch", system, "--status", str(status), "--once", "--json", "--interval", interval, "--counts", counts]
    assert main(words) == 0
    result: Any = json.loads(capsys.readouterr().out)
    assert result["change"] is False and result["job"] == "solver"
    assert result["levels"][0]["failures"] == 3.0 and result["levels"][0]["measured"]
    assert [path.name for path in tmp_path.glob(".*")] == []


@pytest.fixture(params=["plain", "http"])
def metrics_socket(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A unix socket that serves METRICS once, with or without HTTP around it."""
    path = str(tmp_path / "m.sock")
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(path)
    server.listen()
    head = "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n" if request.param == "http" else ""

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(1000)
            connection.sendall((head + METRICS).encode())

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield path
    server.close()
    thread.join(5.0)


def test_watch_reads_the_metrics_socket(
    system: str, metrics_socket: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["watch", system, "--socket", metrics_socket, "--once", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["observed_seconds"] == 86400.0


def test_jobs_of_one_name_in_two_stores_are_told_apart() -> None:
    text = 'kedge_job_seconds{job="a\\"b",store_id="1"} 5\nkedge_job_seconds{job="a\\"b",store_id="2"} 7\n'
    jobs = parse_prometheus(text)
    assert {name: job.observed_seconds for name, job in jobs.items()} == {'a"b@1': 5.0, 'a"b@2': 7.0}
    status = {"jobs": [{"job": "s", "store_id": "1"}, {"job": "s", "store_id": "2"}, {"job": "t", "store_id": "1"}]}
    assert sorted(parse_status(json.dumps(status))) == ["s@1", "s@2", "t"]


def test_the_present_schedule_is_the_jobs_own(system: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = METRICS + 'kedge_checkpoint_interval_seconds{job="solver"} 700\nkedge_schedule_store_every{job="solver"} 3\n'
    metrics = tmp_path / "metrics.txt"
    metrics.write_text(text)
    words = ["watch", system, "--metrics", str(metrics), "--once", "--json"]
    assert main(words) == 0
    own = json.loads(capsys.readouterr().out)
    assert main([*words, "--interval", "700", "--counts", "2"]) == 0
    assert json.loads(capsys.readouterr().out) == own and own["present_efficiency"] is not None
    metrics.write_text(METRICS)
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out)["present_efficiency"] is None


def test_a_level_without_observations_is_no_matter() -> None:
    text = METRICS + 'kedge_failures_total{job="solver",level="tape"} 0\n'
    assert len(corrected_system(given_system(), parse_prometheus(text)["solver"]).levels) == 2


def test_watch_says_what_is_missing(system: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(PlanError, match="metrics socket of a running agent"):
        read_socket(tmp_path / "none.sock")
    metrics = tmp_path / "metrics.txt"
    metrics.write_text(METRICS + METRICS.replace("solver", "other"))
    assert main(["watch", system, "--metrics", str(metrics), "--once"]) == 2
    assert "--job is not given: allowed is one of the jobs that report: other, solver" in capsys.readouterr().err
    assert main(["watch", system, "--metrics", str(metrics), "--once", "--job", "other"]) == 0
    assert main(["watch", system, "--metrics", str(tmp_path / "none"), "--once"]) == 2
    assert main(["watch", system, "--metrics", str(metrics), "--every", "0", "--job", "other"]) == 2
    assert main(["watch", system, "--port", "70000", "--once"]) == 2
    assert main(["watch", system, "--port", "1", "--once"]) == 2


def test_levels_are_matched_by_what_the_runtime_calls_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A job that protects by xor reports level node; a system without local has its lowest level answer those failures."""
    text = METRICS.replace('level="xor"', 'level="node"') + 'kedge_failures_total{job="solver",level="local"} 4\n'
    job = parse_prometheus(text)["solver"]
    corrected = corrected_system(given_system(), job)
    assert corrected.levels[0].latency_seconds == 9.0 and corrected.levels[1].latency_seconds == 600.0
    assert corrected.levels[0].failure_rate_per_second == pytest.approx(corrected_rate(1e-5, 7.0, 86400.0, 2.0))
    path, metrics = tmp_path / "three.toml", tmp_path / "metrics.txt"
    path.write_text(SYSTEM_TOML.replace("[[level]]", '[[level]]\nname = "local"\noverhead_seconds = 30\n'
                    "restart_seconds = 1\nfailure_rate_per_second = 1e-4\n[[level]]", 1))
    schedule = 'kedge_checkpoint_interval_seconds{job="solver"} 700\nkedge_schedule_node_every{job="solver"} 2\n'
    words = ["watch", str(path), "--metrics", str(metrics), "--once", "--json"]
    for store_every, counts in ((6, "1,2"), (7, "1,3"), (1, None)):
        metrics.write_text(text + schedule + f'kedge_schedule_store_every{{job="solver"}} {store_every}\n')
        assert main(words) == 0
        own = json.loads(capsys.readouterr().out)
        assert (own["present_efficiency"] is not None) == (counts is not None)
        if counts is not None:
            assert main([*words, "--interval", "700", "--counts", counts]) == 0
            assert json.loads(capsys.readouterr().out) == own
        assert [level["failures"] for level in own["levels"]] == [4.0, 3.0, 0.0]
