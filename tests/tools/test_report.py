"""What ``kedge report`` tells of a job that real processes had: against the other commands, and against what looks saw."""

from __future__ import annotations

import html.parser
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kedge import Context, Level
from kedge.report.looks import Looks
from kedge.report.model import Job, Moment
from kedge.report.page import page
from report_jobs import bare_job, job_of, run_of_supervisor
from threaded_communicator import ThreadedCommunicator, run_ranks
from tool import KEDGE, kedge, kedge_json
from waiting import until

LEASE = {"job.lease": "1s"}


def take(name: str, versions: tuple[int, ...], *, restores: int = -1, checkpoint: str = "heat", ranks: int = 2) -> None:
    """One life of a job of some ranks."""

    def rank(number: int, communicator: ThreadedCommunicator) -> None:
        array = np.zeros(1000 + 1000 * number)
        with Context(name, communicator=communicator, settings=LEASE) as context:
            context.protect(0, array, "field")
            if restores >= 0:
                assert context.restart(checkpoint, at_most=restores) == restores
            for version in versions:
                array[:] = version
                context.checkpoint(checkpoint, version)
                context.wait(checkpoint, version, Level.STORE)

    run_ranks(ranks, rank)


@pytest.fixture
def two_lives(run_folder: Path) -> None:
    """A job that took 10, 20 and 30, and went back to 20 for 25."""
    take("climate", (10, 20, 30))
    take("climate", (25,), restores=20)


def account(*arguments: str) -> Any:
    return json.loads(kedge("report", *arguments, "--json").stdout)


def test_the_report_tells_what_the_other_commands_tell(two_lives: None, tmp_path: Path) -> None:
    told = account("climate")
    listed = kedge_json("ls", "climate", "--all", "--attempts")
    assert {(of["version"], of["attempt"], of["state"], of["bytes"], of["ranks"]) for of in told["versions"] if of["state"]} == {
        (of["version"], of["attempt"], of["state"], of["bytes"], of["ranks"]) for of in listed["versions"]
    }
    assert {of["version"]: of["state"] for of in told["versions"]} | {10: ""} == {30: "abandoned", 25: "complete", 20: "complete", 10: ""}
    stored = {of["version"]: of["wall_time_ns"] for of in listed["versions"] if of["complete"]}
    for of in told["versions"]:
        if of["version"] in stored:
            assert of["reached"]["store"] == {"at_ns": stored[of["version"]], "within_ns": 0}
            images = kedge_json("inspect", f"climate/heat@{of['version']}.{of['attempt']}", "--all-ranks")["images"]
            assert [(image["rank"], image["bytes"], image["captured"]["at_ns"]) for image in of["images"]] == [
                (image["rank"], image["bytes"], image["wall_time_ns"]) for image in images
            ]
            assert [image["stored_bytes"] for image in of["images"]] == [image["stored_bytes"] for image in images]
            assert of["captured"]["at_ns"] == max(image["wall_time_ns"] for image in images) <= stored[of["version"]]
    assert [(of["number"], of["state"], of["ranks"]) for of in told["attempts"]] == [(1, "ended", 2), (2, "ended", 2)]
    assert all(of["began_ns"] < of["last_sign_ns"] for of in told["attempts"])
    (restore,) = told["restores"]
    assert (restore["attempt"], restore["name"], restore["origin_version"], restore["origin_attempt"]) == (2, "heat", 20, 1)
    (node,) = told["nodes"]
    assert node["name"] == os.environ["KEDGE_NODE"] == account("climate", "--node", os.environ["KEDGE_NODE"])["nodes"][0]["name"]
    status = next(job for job in kedge_json("status")["jobs"] if job["job"] == "climate")
    assert node["blocked"] == {"seconds": pytest.approx(status["blocked"]["sum"]), "count": status["blocked"]["count"]}
    assert node["restarts"]["local"]["count"] == status["levels"]["local"]["restarts"]["count"]


@pytest.mark.usefixtures("run_folder")
def test_a_dead_attempt_lasted_until_the_next_began_at_most(tmp_path: Path) -> None:
    """It died before it gave a second sign of life."""
    subprocess.run([sys.executable, "-c", "import kedge, os; context = kedge.Context('dead'); os._exit(1)"], check=False, timeout=60)
    time.sleep(1)
    with Context("dead"):
        pass
    died, ended = account("dead")["attempts"]
    assert died["state"] == "died" and died["gone_ns"] == ended["began_ns"] > died["last_sign_ns"] and ended["gone_ns"] == 0
    kedge("report", "dead", "-o", str(tmp_path / "page.html"))
    assert re.search(r"died, &lt;\u00a0[0-9.]+\u00a0s", (tmp_path / "page.html").read_text())


def test_ls_lists_attempts_and_inspect_lists_images_briefly(two_lives: None) -> None:
    listed = kedge_json("ls", "climate", "--attempts")
    assert [(of["attempt"], of["state"]) for of in listed["attempts"]] == [(1, "ended"), (2, "ended")]
    assert [of["origin"] for of in listed["restored"]] == [{"version": 20, "attempt": 1, "take": 2}]
    lines = kedge("ls", "climate", "--attempts").stdout.split("\n\n")[1].splitlines()
    assert "CONTINUED FROM" in lines[0] and "heat@20.1" in lines[2]
    assert "attempts" not in kedge_json("ls", "climate")
    brief = kedge_json("inspect", "climate/heat@25", "--brief")
    assert [image["rank"] for image in brief["images"]] == [0, 1] and "extents" not in brief["images"][0]
    assert len(kedge("inspect", "climate/heat@25", "--brief").stdout.splitlines()) == 3
    assert "excludes" in kedge("inspect", "heat", "--brief", "--rank", "1", expect=2).stderr


@pytest.mark.usefixtures("run_folder")
def test_a_word_means_the_job_where_attempts_are_asked_for_and_no_removed_one_where_there_are_others() -> None:
    take("gone", (1,), checkpoint="field")
    take("kept", (1,), checkpoint="gone")
    assert {version["job"] for version in kedge_json("ls", "gone")["versions"]} == {"gone", "kept"}
    listed = kedge_json("ls", "gone", "--attempts")
    assert {of["job"] for of in [*listed["versions"], *listed["attempts"]]} == {"gone"}
    assert "name one of the jobs: gone, kept" in kedge("report", "--json", expect=2).stderr
    kedge("rm", "--yes", "gone")
    assert json.loads(kedge("report", "--json").stdout)["job"] == "kept"
    gone = account("gone")
    assert {version["state"] for version in gone["versions"]} <= {"removed"} and len(gone["attempts"]) == 1


def test_an_attempt_that_was_killed_has_died(run_folder: Path, tmp_path: Path) -> None:
    program = (
        "import numpy as np, os, signal\nfrom kedge import Context, Level\n"
        "context = Context('killed')\ncontext.protect(0, np.zeros(9))\ncontext.checkpoint('c', 1)\ncontext.wait('c', 1, Level.STORE)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    environment = os.environ | {"PYTHONPATH": str(KEDGE.parents[1] / "python")}
    died = subprocess.run([sys.executable, "-c", program], timeout=120, env=environment)
    assert died.returncode == -signal.SIGKILL
    told = account("killed")
    assert [of["state"] for of in told["attempts"]] == ["died"] and "is gone" in told["attempts"][0]["why"]
    assert any("attempt 1 died" in trouble["what"] for trouble in told["troubles"])
    listed = kedge_json("ls", "killed", "--attempts")
    (version,), (attempt,) = listed["versions"], listed["attempts"]
    assert attempt["last_sign_wall_time_ns"] >= version["wall_time_ns"], "it lived until then at least"


def test_looks_that_were_kept_tell_when_levels_were_reached(run_folder: Path, tmp_path: Path) -> None:
    kept = tmp_path / "looks.jsonl"
    with kept.open("w") as output:
        array = np.zeros(1000)
        with Context("looked", settings=LEASE) as context:
            context.protect(0, array)
            context.checkpoint("h", 1)
            context.wait("h", 1, Level.STORE)
            top = subprocess.Popen([KEDGE, "top", "--json", "-n", "0.1"], stdin=subprocess.PIPE, stdout=output)
            try:
                until(lambda: kept.read_text().count("\n") >= 2)
                for version in (2, 3, 4):
                    context.checkpoint("h", version)
                    context.wait("h", version, Level.STORE)
                looks = kept.read_text().count("\n")
                until(lambda: kept.read_text().count("\n") >= looks + 2)
            finally:
                top.kill()
                top.communicate()
    kept.write_text(kept.read_text().rpartition("\n")[0])  # the last line may be half of one
    told = account("looked", "--looks", str(kept))
    versions = {of["version"]: of for of in told["versions"]}
    assert versions[4]["started"]["at_ns"] - versions[4]["started"]["within_ns"] <= versions[4]["captured"]["at_ns"]
    local = versions[4]["reached"]["local"]
    assert local["within_ns"] > 0 and local["at_ns"] - local["within_ns"] <= versions[4]["reached"]["store"]["at_ns"]
    assert versions[4]["images"][0]["node"] == os.environ["KEDGE_NODE"] and versions[4]["images"][0]["stored"]
    assert versions[4]["reached"]["store"]["within_ns"] == 0, "the store's own record is exact"
    first = [of for of in told["versions"] if of["version"] == 1]
    assert all(not of["started"] and "local" in of["reached_unseen"] for of in first), "it was there at the first look"
    (node,) = told["nodes"]
    assert len(node["samples"]) == node["looks"] >= 4
    assert not any("When versions were begun" in sentence for sentence in told["missing"])
    assert "two looks" in (tmp_path / kedge("report", "looked", "--looks", str(kept)).stdout.strip()).read_text()


def test_without_agent_and_looks_the_page_says_what_is_not_recorded(two_lives: None) -> None:
    told = account("climate", "--no-agent")
    assert not told["nodes"] and any("no agent was looked at" in sentence for sentence in told["missing"])
    assert all(not of["started"] and not of["reached"].keys() - {"store"} for of in told["versions"])


def test_whoever_reads_no_further_hears_no_complaint(two_lives: None) -> None:
    report = subprocess.Popen([KEDGE, "report", "climate", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert report.stdout is not None and report.stderr is not None
    report.stdout.close()
    assert report.stderr.read() == "" and report.wait(60) == 0


def test_no_job_no_store_and_wrong_files(two_lives: None, tmp_path: Path) -> None:
    assert "nothing that is called" in kedge("report", "nosuch", expect=1).stderr
    assert "no Kedge store" in kedge("report", "--no-agent", "--store", str(tmp_path / "nowhere"), expect=1).stderr
    (tmp_path / "looks").write_text("{}\n")
    assert "an older kedge" in kedge("report", "climate", "--looks", str(tmp_path / "looks"), expect=2).stderr
    (tmp_path / "looks").write_text('{"wall_time_ns": 1}\n')
    assert "kedge status --json" in kedge("report", "climate", "--looks", str(tmp_path / "looks"), expect=2).stderr
    (tmp_path / "looks").write_text("what\n")
    assert "line 1: no JSON" in kedge("report", "climate", "--looks", str(tmp_path / "looks"), expect=2).stderr
    take("other", (1,))
    assert "name one of the jobs: climate, other" in kedge("report", expect=2).stderr


class Elements(html.parser.HTMLParser):
    """The elements of a page, which must be closed in order."""

    VOID = ("meta", "link", "br", "hr")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


JOBS = [bare_job(), run_of_supervisor(job_of("usual", 16, 4, 24, 3)), job_of("large", 4096, 64, 60, 40, looks=5), Job("", 1)]


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.job or "none")
def test_the_page_refers_to_nothing_outside(job: Job) -> None:
    text = page(job)
    found = Elements(text)
    for name, attributes in found.elements:
        assert name not in ("script", "link", "img", "iframe", "object", "embed", "base", "form")
        assert not {"src", "href", "srcset", "action", "data", "style", "onload"} & attributes.keys(), (name, attributes)
    assert not re.search(r"https?:|//[a-z]|url\(|@import|xlink", text)
    assert any((attributes.get("content") or "").startswith("default-src 'none'") for _, attributes in found.elements)


def test_names_are_text_whatever_they_are() -> None:
    evil = "<script>alert(1)</script>\"'&\u202e\0"
    made = job_of(evil, 2, 1, 2, 2, looks=3, checkpoint=evil)
    made.attempts[0].host, made.versions[0].reason, made.store = evil, evil, evil
    made.nodes[0].name, made.nodes[0].tiers[0].name = evil, evil
    made.troubles[0].what = made.missing[0] = evil
    found = Elements(page(made))
    assert not any(name in ("script", "alert") for name, _ in found.elements)
    shown = evil.replace("\u202e", "\ufffd").replace("\0", "\ufffd")
    assert shown in found.texts and any(shown in text for text in found.texts if "@" in text)


def test_a_job_with_such_a_name_has_a_page(run_folder: Path, tmp_path: Path) -> None:
    name = "<script>alert('&')</script>"
    take(name, (1,), checkpoint="a/b@7", ranks=1)
    path = tmp_path / kedge("report").stdout.strip()
    assert path.name == "kedge-_script_alert_______script_.html" and not list(tmp_path.glob("*.part"))
    found = Elements(path.read_text())
    assert name in found.texts and "a/b@7@1.1" in found.texts
    assert not any(tag == "script" for tag, _ in found.elements)


def test_a_look_of_another_agent_counts_anew() -> None:
    def look(at: int, pid: int, failures: int, level: bool) -> dict[str, Any]:
        version = {"name": "h", "version": 1, "attempt": 1, "take": 1, "skipped": False, "abandoned": False, "images": [],
                   "levels": [{"level": "node", "reached": level}]}  # fmt: skip
        spent = {"sum": 0.0, "count": 0}
        job = {"job": "j", "store_id": "1", "blocked": spent, "scheme": "none", "schedule": {}, "levels": {}, "versions": [version]}
        return {
            "wall_time_ns": at, "node": "n", "pid": pid, "up_seconds": 1.0, "tiers": [], "jobs": [job], "flush": {"bytes_per_second": 0, "bytes_pending": 0},
            "memory": {"backed_bytes": 0, "spare_bytes": 0, "ceiling_bytes": 0},
            "counters": {"captured_bytes": 0, "flushed_bytes": 0, "flush_failures": failures},
        }  # fmt: skip

    looks = Looks("j")
    for at, pid, failures, level in ((10, 1, 2, False), (20, 1, 3, False), (30, 2, 1, True), (30, 2, 1, True)):
        looks.take(look(at, pid, failures, level))
    assert [(trouble.at_ns, "times" in trouble.what) for trouble in looks.troubles] == [(None, True), (20, False), (None, False)]
    (version,) = looks.versions()
    assert version.reached == {"node": Moment(30, 10)} and looks.nodes()[0].looks == 3
    with pytest.raises(ValueError, match="missing or wrong"):
        looks.take({"wall_time_ns": 40})


def test_level_buffer_has_its_place_where_versions_reach_it() -> None:
    job = job_of("climate", 4, 2, 6, 1)
    found = Elements(page(job))
    assert "Buffer" in found.texts and "reached level buffer" in found.texts
    newest = job.versions[0]
    assert newest.captured
    newest.reached = {level: newest.captured for level in ("local", "node", "buffer")}
    assert newest.level == "buffer", "it is safer than on nodes, and not in the store yet"
    del newest.reached["buffer"]
    newest.reached_unseen = ["buffer"]
    assert newest.level == "buffer" and "Buffer" in Elements(page(job)).texts
    for version in job.versions:
        version.reached.pop("buffer", None)
    newest.reached_unseen = []
    bare = Elements(page(job)).texts
    assert newest.level == "node" and "Store" in bare and "Buffer" not in bare and not any("level buffer" in text for text in bare)


def fetch(url: str, host: str = "") -> tuple[int, str]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers={"Host": host} if host else {}), timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""


def test_top_serves_the_page_on_loopback_until_it_is_told_to_end(two_lives: None, tmp_path: Path) -> None:
    before = set(tmp_path.iterdir())
    top = subprocess.Popen([KEDGE, "top", "--web", "-n", "0.2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert top.stdout and select.select([top.stdout], [], [], 60)[0]
        url = top.stdout.readline().strip()
        port = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/[\w-]{20,}/", url)
        assert port, url
        code, text = fetch(url)
        assert code == 200 and "climate" in text and "heat@25.2" in text and "<script nonce=" in text
        listening = subprocess.run(["ss", "-Hltn", f"sport = :{port[1]}"], capture_output=True, text=True, timeout=60).stdout.split()
        assert listening[3] == f"127.0.0.1:{port[1]}"
        assert fetch(f"http://127.0.0.1:{port[1]}/")[0] == 404, "other users of the machine do not know the path"
        assert fetch(url, "evil.example:80")[0] == 404, "a name that stands for 127.0.0.1"
        array = np.zeros(9)
        with Context("later", settings=LEASE) as context:
            context.protect(0, array)
            context.checkpoint("x", 5)
            until(lambda: ">later<" in fetch(url)[1])
            assert any("x@5.1" in fetch(f"{url}?job={number}")[1] for number in range(2))
        top.send_signal(signal.SIGINT)
        assert top.wait(60) == 0
    finally:
        top.kill()
        top.communicate()
    assert set(tmp_path.iterdir()) - before <= {tmp_path / "store", tmp_path / "calibrations"}, "it leaves nothing"


def test_top_web_of_no_agent_and_a_taken_port(run_folder: Path) -> None:
    with subprocess.Popen([KEDGE, "top", "--web"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as top:
        assert top.stdout
        url = top.stdout.readline().strip()
        assert "no agent runs" in fetch(url)[1]
        port = url.split(":")[2].split("/")[0]
        assert "in use" in kedge("report", "--live", "--port", port, expect=2).stderr
        top.terminate()
        assert top.wait(60) == 0
