"""The pages of ``kedge report`` in a real browser: a laptop's and a phone's window, light and dark."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from browser import FAULTS, PALE, Browser
from kedge import Context, Level
from kedge.report.life import ATTEMPTS_MAX, GROUPS_MAX, VERSIONS_MAX
from kedge.report.model import Job
from kedge.report.page import page
from report_jobs import bare_job, job_of, run_of_supervisor
from tool import KEDGE
from waiting import until

WINDOWS = [(1366, 768, "light"), (1366, 768, "dark"), (390, 844, "light"), (390, 844, "dark")]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as browser:
        yield browser


def show(browser: Browser, folder: Path, job: Job, window: tuple[int, int, str]) -> None:
    """Keeps a picture where KEDGE_TEST_PICTURES names a folder."""
    path = folder / "page.html"
    path.write_text(page(job), encoding="utf-8")
    browser.window(*window)
    browser.open(path.as_uri())
    if pictures := os.environ.get("KEDGE_TEST_PICTURES"):
        browser.picture(Path(pictures) / f"{job.job[:8].strip('<>/')}-{window[0]}-{window[2]}.png")


def check(browser: Browser) -> None:
    assert browser.value(FAULTS) == []
    assert browser.value(PALE) == []
    assert browser.requests == [] and browser.messages == []


def counted(browser: Browser, selector: str) -> int:
    return int(browser.value(f"document.querySelectorAll({selector!r}).length"))


@pytest.mark.parametrize("window", WINDOWS, ids=lambda window: f"{window[0]}-{window[2]}")
def test_a_usual_job(browser: Browser, tmp_path: Path, window: tuple[int, int, str]) -> None:
    job = run_of_supervisor(job_of("climate-42", 16, 4, 24, 3))
    show(browser, tmp_path, job, window)
    check(browser)
    assert counted(browser, "#attempts .bar") == len(job.attempts)
    counts = browser.value("[...document.querySelectorAll('#attempts .mark:not(.back)')].map(one => Number(one.dataset.count))")
    assert sum(counts) == len(job.versions) >= len(counts) > len(job.versions) / 2
    assert counted(browser, "#attempts .mark.back") == len(job.restores)
    assert counted(browser, "#attempts .cap") == sum(attempt.state == "died" for attempt in job.attempts)
    shown = job.versions[:VERSIONS_MAX]
    assert counted(browser, "#versions .bar") == len(shown)
    for level in ("local", "node", "buffer", "store"):
        assert counted(browser, f"#versions .mark.{level}") == sum(level in version.reached for version in shown)
    newest = job.versions[0]
    ranks = f"#ranks-{newest.version}-{newest.attempt}-{newest.take}"
    assert counted(browser, f"{ranks} .bar") == newest.ranks
    assert counted(browser, "#throughput .bar") == 3 and counted(browser, "#node-space .bar") == 2 * len(job.nodes)
    assert counted(browser, "#store-space .bar") == sum(version.stored_bytes is not None for version in job.versions)
    assert counted(browser, "#levels tbody tr") == len(job.versions)
    # A bar is as long as what it stands for: the axis is the same for all rows.
    lengths = browser.value("[...document.querySelectorAll('#versions .bar')].map(one => one.getBoundingClientRect().width)")
    spans = [(version.captured.at_ns - version.begin.at_ns) / 1e9 for version in shown if version.captured and version.begin]
    scale = lengths[0] / spans[0]
    assert lengths == [pytest.approx(scale * seconds, abs=1.0) for seconds in spans]
    schemes = browser.value("[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]")
    light = [sum(map(int, colour.strip("rgb()").split(","))) for colour in schemes]
    assert (light[0] > light[1]) == (window[2] == "light")


@pytest.mark.parametrize("window", [WINDOWS[0], WINDOWS[3], (360, 640, "light"), (1920, 1080, "dark")], ids=lambda window: f"{window[0]}-{window[2]}")
def test_a_large_job_with_long_names(browser: Browser, tmp_path: Path, window: tuple[int, int, str]) -> None:
    job = job_of("<script>alert(1)</script>" + "x" * 80, 2048, 64, 120, 40, checkpoint="long/" + "name" * 30 + "@7")
    show(browser, tmp_path, job, window)
    check(browser)
    assert counted(browser, "#attempts .bar") == ATTEMPTS_MAX and counted(browser, "#attempts .earlier") == len(job.attempts) - ATTEMPTS_MAX
    assert counted(browser, "#versions .bar") == VERSIONS_MAX
    assert 0 < counted(browser, "[id^=ranks-] .chart .bar") <= GROUPS_MAX


@pytest.mark.parametrize("window", [WINDOWS[0], WINDOWS[2]], ids=lambda window: f"{window[0]}-{window[2]}")
def test_a_job_that_has_just_begun(browser: Browser, tmp_path: Path, window: tuple[int, int, str]) -> None:
    show(browser, tmp_path, bare_job(), window)
    check(browser)
    assert counted(browser, "#attempts .bar") == 1


def test_every_table_opens_and_stays_in_its_card(browser: Browser, tmp_path: Path) -> None:
    show(browser, tmp_path, run_of_supervisor(job_of("climate-42", 16, 4, 24, 3)), (390, 844, "light"))
    assert browser.value("document.querySelectorAll('details').forEach(one => one.open = true), document.querySelectorAll('details').length") >= 8
    assert browser.value(FAULTS) == []


def test_the_live_page_renews_itself_and_keeps_what_is_open(browser: Browser, run_folder: Path) -> None:
    array = np.zeros(1000)
    with Context("live", settings={"job.lease": "1s"}) as context:
        context.protect(0, array)
        context.checkpoint("h", 1)
        context.wait("h", 1, Level.STORE)
        with subprocess.Popen([KEDGE, "top", "--web", "-n", "0.2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as top:
            try:
                assert top.stdout
                browser.window(1366, 768, "light")
                browser.open(top.stdout.readline().strip())
                browser.value("document.querySelector('#levels details').open = true")
                assert "h@2.1" not in browser.value("document.body.textContent")
                context.checkpoint("h", 2)
                context.wait("h", 2, Level.STORE)
                until(lambda: "h@2.1" in browser.value("document.body.textContent"))
                assert browser.value("document.querySelector('#levels details').open") and browser.messages == []
                assert browser.value(FAULTS) == []
                top.terminate()
                top.wait(60)
                until(lambda: browser.value("!document.getElementById('lost').hidden"))
            finally:
                top.kill()


def test_the_checks_find_what_they_look_for(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(
        "<!DOCTYPE html><body style='margin: 0; background: white'><p style='position: absolute; top: 0'>one</p><p style='position: absolute; top: 4px'>two</p>"
        "<p style='margin-top: 90px; font-size: 9px'>small</p><section style='width: 40px'><p style='white-space: nowrap'>out of its card</p></section>"
        "<div style='width: 3000px; text-align: right'>wide</div><p style='color: #bbb'>pale</p><svg><rect class='bar' width='9' height='9' fill='#ddd'/></svg>"
        "<img src='http://127.0.0.1:9/nothing.png'>"
    )
    browser.window(390, 844, "light")
    browser.open(path.as_uri())
    found = "\n".join(browser.value(FAULTS))
    for fault in ('"one" and "two" overlap', '"small" is 9 px high', '"out of its card" ends outside of its card', '"wide" ends outside', "the page is 3000 px wide"):
        assert fault in found
    assert len(browser.value(PALE)) == 2
    until(lambda: browser.value("true") and browser.requests == ["http://127.0.0.1:9/nothing.png"] and browser.messages)
