"""The page: one account of a job as HTML that needs nothing beside it. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from kedge.report.life import attempts_picture, lasted, ranks_picture, seconds_between, versions_picture, versions_with_ranks
from kedge.report.markup import Content, Markup, tag
from kedge.report.measures import blocked_picture, space_picture, throughput_picture
from kedge.report.model import LEVELS, Job
from kedge.report.strips import table, when
from kedge.report.style import STYLE
from kedge.report.units import count, instant, short, size, span

_TROUBLES_SHOWN = 6  # the newest; the others can be opened
_TROUBLES_MAX = 500
_OPEN_MAX = 10  # rows of a table that is open from the beginning
# Nothing may be loaded, and no script but the page's own may run.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


@dataclasses.dataclass(frozen=True)
class Live:
    """What makes a page one that renews itself."""

    interval_seconds: float
    jobs: Sequence[str] = ()  # others that the page can be about
    nonce: str = ""


_SCRIPT = """
(async () => {
  const pause = %d;
  for (;;) {
    await new Promise(done => setTimeout(done, pause));
    if (document.hidden) continue;
    const lost = document.getElementById("lost");
    try {
      const text = await (await fetch(location.href, {cache: "no-store"})).text();
      const fresh = new DOMParser().parseFromString(text, "text/html");
      const open = [...document.querySelectorAll("details")].map(one => one.open);
      for (const part of ["header", "main", "footer"]) document.querySelector(part).replaceWith(fresh.querySelector(part));
      document.querySelectorAll("details").forEach((one, at) => { one.open = open[at] === true; });
      document.title = fresh.title;
    } catch (error) {
      if (lost) lost.hidden = false;
    }
  }
})();
"""


def page(job: Job, live: Live | None = None) -> str:
    """The whole page."""
    title = f"{job.job} – Kedge" if job.job else "Kedge"
    policy = _POLICY + (f"; script-src 'nonce-{live.nonce}'; connect-src 'self'" if live else "")
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("style", Markup(STYLE)),
    ]
    script = tag("script", Markup(_SCRIPT % round(1000 * live.interval_seconds)), nonce=live.nonce) if live else ""
    body = tag("body", _header(job, live), tag("main", _sections(job)), _footer(job), script)
    return "<!DOCTYPE html>\n" + tag("html", tag("head", head), body, lang="en") + "\n"


def _header(job: Job, live: Live | None) -> Markup:
    about = f"Store {job.store}" if job.store else "No store was read"
    lost = tag("p", "The page is not renewed any more: kedge has ended, or cannot be reached.", id="lost", hidden="hidden") if live else ""
    links = [tag("a", tag("bdi", name), href=f"?job={number}") for number, name in enumerate(live.jobs)] if live and len(live.jobs) > 1 else []
    title = tag("h1", tag("bdi", job.job) if job.job else "Agents of this machine")
    tiles = tag("dl", [_tile(*tile) for tile in _tiles(job)], class_="tiles")
    return tag("header", title, tag("p", about, class_="quiet"), tag("nav", links) if links else "", lost, tiles)


def _tile(name: str, value: Content, more: Content = "", class_: str = "") -> Markup:
    return tag("div", tag("dt", name), tag("dd", value, tag("small", more) if more else ""), class_=f"tile {class_}".strip())


def _tiles(job: Job) -> list[tuple[str, Content, Content, str]]:
    tiles: list[tuple[str, Content, Content, str]] = []
    if job.attempts:
        last = job.attempts[-1]
        words = {"lives": ("runs", "good"), "ended": ("ended", ""), "died": ("died", "bad"), "silent": ("silent", "bad")}
        state, class_ = words[last.state]
        tiles.append(("Last attempt", state, f"number {last.number}, {lasted(last)}", class_))
        died = sum(attempt.state == "died" for attempt in job.attempts)
        tiles.append(("Attempts", str(len(job.attempts)), f"{died} died" if died else "none died", "bad" if died else ""))
    if job.newest_safe:
        newest = max(job.newest_safe.values(), key=lambda version: (version.attempt, version.take))
        reached = newest.reached.get(newest.level)
        age = f", {span(seconds_between(reached.at_ns, job.made_ns))} ago" if reached else ""
        named = [tag("bdi", short(newest.name, 14)), f" {newest.version}"]
        tiles.append(("Newest safe version", named, f"attempt {newest.attempt}, level {newest.level}{age}", ""))
    elif job.versions or job.store_is_read:
        tiles.append(("Newest safe version", "none", "", "bad" if job.versions else ""))
    blocked = job.spent("blocked")
    if blocked.mean is not None:
        tiles.append(("A call blocks", span(blocked.mean), f"mean of {blocked.count:,}", ""))
    stored = [version.stored_bytes for version in job.versions if version.stored_bytes is not None]
    if stored:
        tiles.append(("In the store", size(sum(stored)), count(len(stored), "version"), ""))
    if job.nodes:
        used = sum(tier.used_bytes for node in job.nodes for tier in node.tiers)
        tiles.append(("Agents", str(len(job.nodes)), f"{size(used)} in use", ""))
    if job.troubles:
        tiles.append(("Went wrong", str(len(job.troubles)), "see below", "bad"))
    return tiles


def _section(name: str, title: str, *content: Content) -> Markup:
    return tag("section", tag("h2", title, id=f"{name}-title"), *content, id=name, aria_labelledby=f"{name}-title")


def _sections(job: Job) -> list[Markup]:
    sections = []
    if job.troubles:
        sections.append(_section("troubles", "What went wrong", _troubles(job)))
    if job.attempts:
        sections.append(_section("life", "Attempts", attempts_picture(job)))
    if job.restores:
        sections.append(_section("restores", "Continued from", _restores(job)))
    if job.versions:
        sections.append(_section("levels", "Versions", versions_picture(job)))
    for version in versions_with_ranks(job):
        sections.append(_section("ranks-" + version.name.encode().hex(), "Ranks", ranks_picture(version)))
    speed = _section("blocking", "Blocked time", blocked_picture(job)), _section("speed", "Throughput", throughput_picture(job))
    sections.append(tag("div", speed, class_="pair"))
    sections.append(_section("space", "Space", space_picture(job)))
    if job.launches:
        sections.append(_section("launches", "Launches of kedge run", _launches(job)))
    if job.missing:
        sections.append(_section("missing", "Not recorded", tag("ul", [tag("li", sentence) for sentence in job.missing], class_="plain")))
    return sections


def _troubles(job: Job) -> list[Content]:
    newest_first = list(reversed(job.troubles[-_TROUBLES_MAX:]))
    listed = [
        tag("li", when(trouble.at_ns) if trouble.at_ns else tag("time", "time not recorded"), tag("div", trouble.what, " ", tag("span", trouble.where)))
        for trouble in newest_first
    ]
    shown, earlier = listed[:_TROUBLES_SHOWN], listed[_TROUBLES_SHOWN:]
    more = tag("details", tag("summary", f"{len(job.troubles) - len(shown):,} earlier"), tag("ul", earlier, class_="trouble")) if earlier else ""
    return [tag("ul", shown, class_="trouble"), more]


def _restores(job: Job) -> list[Content]:
    """The records of the store, and by levels what agents counted."""
    counted = [(level, job.spent("restarts", level)) for level in LEVELS]
    told = [f"{spent.count:,} from level {level}, {span(spent.mean)} each" for level, spent in counted if spent.mean is not None]
    sentence = "Restarts of ranks, as agents have counted them: " + "; ".join(told) + "." if told else ""
    rows: list[list[Content]] = [[when(of.at_ns), str(of.attempt), tag("bdi", of.name), str(of.origin_version), str(of.origin_attempt)] for of in job.restores]
    listed = table(
        ["When", "Attempt", "Checkpoint", "Version", "Taken in attempt"], rows, (1, 3, 4), count(len(rows), "restart"), is_open=len(rows) <= _OPEN_MAX
    )
    return [tag("p", sentence, class_="quiet") if sentence else "", listed]


def _launches(job: Job) -> list[Content]:
    rows: list[list[Content]] = []
    for launch in job.launches:
        before = ", ".join(f"{stage} {span(seconds)}" for stage, seconds in launch.before.items() if seconds >= 0.05)
        nodes = ", ".join(launch.nodes[:6]) + (f" and {len(launch.nodes) - 6} more" if len(launch.nodes) > 6 else "")
        how = "was ended" if launch.was_ended else f"exit code {launch.exit_code}"
        dead = "; ".join(f"{node}: {why}" for node, why in launch.dead.items())
        advanced = "yes" if launch.advanced else "no"
        rows.append([str(launch.number), nodes, span(launch.seconds), how, advanced, dead, before])
    head = ["Launch", "Nodes", "Lasted", "End", "A newer version", "Nodes left out", "Beforehand"]
    listed = table(head, rows, (0, 2), count(len(rows), "launch", "launches"), is_open=len(rows) <= _OPEN_MAX)
    return [tag("p", job.outcome, class_="quiet"), listed]


def _footer(job: Job) -> Markup:
    looks = [f"{node.name} ({count(node.looks, 'look')})" for node in job.nodes[:12]]
    agents = f" Agents: {', '.join(looks)}{' and others' if len(job.nodes) > 12 else ''}." if looks else ""
    return tag("footer", f"Made {instant(job.made_ns)} by kedge report.{agents}")
