"""The pictures of time: the job's attempts, how each version got from level to level, and the ranks of one version."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from kedge.report.markup import Content, Markup, tag
from kedge.report.model import LEVELS, Attempt, Image, Job, Moment, Version
from kedge.report.strips import Axis, axis_of_instants, axis_of_spans, axis_row, bar, end_cap, figure, key, mark, row, table, when
from kedge.report.units import NO_BREAK, count, day, exact, short, size, span

ATTEMPTS_MAX = 24  # that have a row; the others have one together
VERSIONS_MAX = 16  # that have a row
GROUPS_MAX = 24  # of ranks, that have a row
MARKS_MAX = 48  # in the width of a row: what lies closer is put together
TABLE_MAX = 4096  # rows of a table
_WORDS = {"lives": "lives", "ended": "ended in order", "died": "died", "silent": "gives no sign of life"}
_FILLS = {"lives": "lives", "ended": "begun", "died": "begun", "silent": "begun range"}


def seconds_between(begin_ns: int, end_ns: int) -> float:
    return (end_ns - begin_ns) / 1e9


def told(moment: Moment | None, unseen: bool = False) -> list[Content]:
    """A moment in a table."""
    if not moment:
        return ["before the first look" if unseen else "not recorded"]
    return [when(moment.at_ns), f" (within {span(moment.within_ns / 1e9)})" if moment.within_ns else ""]


# ---- Attempts ----

def attempts_picture(job: Job) -> list[Content]:
    """A row for each attempt: its life, the versions that it took, and where it went on from."""
    begin_ns, end_ns = _extent_of(job)
    axis = axis_of_instants(begin_ns, end_ns)
    shown, earlier = job.attempts[-ATTEMPTS_MAX:], job.attempts[:-ATTEMPTS_MAX]
    rows: list[Content] = []
    if earlier:
        bars = [bar(axis, of.began_ns / 1e9, of.last_sign_ns / 1e9, _FILLS[of.state] + " range", _sentence(of), kind="earlier") for of in earlier]
        rows.append(row(count(len(earlier), "earlier attempt"), axis, bars))
    rows += [_attempt_row(job, attempt, axis) for attempt in shown]
    states = {attempt.state for attempt in job.attempts}
    keys = [("bar lives", "lives")] if "lives" in states else []
    keys += [("bar begun", "is over")] if states - {"lives", "silent"} else []
    keys += [("bar begun range", _WORDS["silent"])] if "silent" in states else []
    keys += [("bar bad", "died")] if "died" in states else []
    levels = [level for level in LEVELS if any(version.level == level for version in job.versions)]
    keys += [(level, f"a version, safe at level {level}") for level in levels]
    if any(not version.level for version in job.versions):
        keys.append(("begun", "a version, not known to be safe"))
    if job.restores:
        keys.append(("back", "continued from a version"))
    description = f"{count(len(job.attempts), 'attempt')} of the job, and the versions that each took. Times are UTC, from {day(begin_ns)} on."
    table_rows = [[str(of.number), _WORDS[of.state], str(of.ranks), tag("bdi", of.host), when(of.began_ns), when(of.last_sign_ns),
                   lasted(of), of.why] for of in job.attempts]  # fmt: skip
    return [
        figure("attempts", description, [*rows, axis_row(axis)], key(*keys)),
        table(["Attempt", "State", "Ranks", "Host of rank 0", "Began", "End or last sign", "Lasted", "Known from"], table_rows, (0, 2, 6)),
    ]


def _extent_of(job: Job) -> tuple[int, int]:
    moments = [moment.at_ns for version in job.versions for moment in version.moments] + [restore.at_ns for restore in job.restores]
    begins = [attempt.began_ns for attempt in job.attempts] + moments
    ends = [attempt.last_sign_ns for attempt in job.attempts] + moments
    return (min(begins), max(ends)) if begins else (job.made_ns - 10**9, job.made_ns)


def lasted(attempt: Attempt) -> str:
    """As far as it is known: one that died may have lived on after its last sign, which it may have given at its beginning."""
    known, most = seconds_between(attempt.began_ns, attempt.last_sign_ns), seconds_between(attempt.began_ns, attempt.gone_ns)
    if known >= most:
        return span(known)
    return f"{span(known)} to {span(most)}" if known > most / 10 else f"< {span(most)}"


def _sentence(attempt: Attempt) -> str:
    return f"attempt {attempt.number} {_WORDS[attempt.state]}: {lasted(attempt)} from {exact(attempt.began_ns)}; {attempt.why}"


def _attempt_row(job: Job, attempt: Attempt, axis: Axis) -> Markup:
    restores = [restore for restore in job.restores if restore.attempt == attempt.number]
    drawn: list[Content] = [bar(axis, attempt.began_ns / 1e9, attempt.last_sign_ns / 1e9, _FILLS[attempt.state], _sentence(attempt), top=14, height=8)]
    if attempt.state == "died":
        drawn.append(end_cap(axis, attempt.last_sign_ns / 1e9, "bad", _sentence(attempt)))
    drawn += version_marks([version for version in job.versions if version.attempt == attempt.number], axis)
    drawn += [mark(axis, of.at_ns / 1e9, "back", f"continued from {of.origin} at {exact(of.at_ns)}", middle=18, radius=6) for of in restores]
    label = [f"attempt {attempt.number}", tag("small", f"{count(attempt.ranks, 'rank')}, ", tag("bdi", short(attempt.host, 24)))]
    origins = ", ".join(short(restore.origin, 24) for restore in restores)
    value = [f"{_WORDS[attempt.state]}, {lasted(attempt).replace(' ', NO_BREAK)}", tag("small", f"from {origins}") if origins else ""]
    return row(label, axis, drawn, value)


def version_marks(versions: Sequence[Version], axis: Axis) -> list[Markup]:
    """Each at the time of its highest level; those that would lie on each other have one mark, that of the newest."""
    bins: dict[int, list[tuple[Version, int]]] = {}
    for version in versions:
        if (place := _place_of(version)) is not None:
            bins.setdefault(int(axis.at(place / 1e9) * MARKS_MAX / 100.01), []).append((version, place))
    marks = []
    for _, group in sorted(bins.items()):
        newest = max((version for version, _ in group), key=lambda version: (version.take, version.version))
        middle = sum(place for _, place in group) / len(group)
        title = _mark_title(newest) if len(group) == 1 else f"{count(len(group), 'version')} until {_mark_title(newest)}"
        marks.append(mark(axis, middle / 1e9, newest.level or "begun", title, middle=7, radius=4.5, stands_for=len(group)))
    return marks


def _place_of(version: Version) -> int | None:
    reached = version.reached.get(version.level)
    moment = reached or version.captured or version.begin
    return moment.at_ns if moment else None


def _mark_title(version: Version) -> str:
    reached = version.reached.get(version.level)
    at = f" at {exact(reached.at_ns)}" if reached else ""
    return f"{version.title}: {f'safe at level {version.level}' if version.level else 'not known to be safe'}{at}"


# ---- Versions ----

def versions_picture(job: Job) -> list[Content]:
    """A row for each of the newest versions: from its beginning to the levels that it reached."""
    timed = [version for version in job.versions if version.captured or version.reached]
    shown = timed[:VERSIONS_MAX]
    parts: list[Content] = []
    if shown:
        longest = max(seconds_between(min(ends), max(ends)) for version in shown if (ends := [moment.at_ns for moment in version.moments]))
        axis = axis_of_spans(longest)
        rows = [_version_row(version, axis) for version in shown]
        seen = [level for level in LEVELS if any(level in version.reached for version in shown)]
        keys = [("bar begun", "being captured"), *((level, f"reached level {level}") for level in seen)]
        if any(moment.within_ns for version in shown for moment in version.reached.values()):
            keys.append(("bar store range", "between two looks"))
        which = f"the {len(shown)} newest of {len(timed)} versions" if len(timed) > len(shown) else count(len(shown), "version")
        description = f"How long {which} took to each level, from when a look first saw each, or its first image was captured."
        parts.append(figure("versions", description, [*rows, axis_row(axis)], key(*keys)))
    else:
        parts.append(tag("p", "Of no version it is known when it was captured or safe.", class_="quiet"))
    has_buffer = any("buffer" in (*version.reached, *version.reached_unseen) for version in job.versions)
    levels = [level for level in LEVELS if has_buffer or level != "buffer"]
    head = ["Version", "State in the store", "Level", "Ranks", "Bytes", "Begun", "Captured", *(level.capitalize() for level in levels), ""]
    body = [[tag("bdi", version.title), version.state or "not there", version.level or "none", str(version.ranks), size(version.bytes), told(version.started),
             told(version.captured), *(told(version.reached.get(level), level in version.reached_unseen) for level in levels), _notes_of(version)]
            for version in job.versions]  # fmt: skip
    return [*parts, table(head, body, (3, 4), "All versions")]


def _notes_of(version: Version) -> str:
    notes = ["pinned"] if version.pinned else []
    notes += ["skipped for a newer one"] if version.skipped else []
    notes += ["abandoned: the job went on from an older one"] if version.abandoned else []
    return "; ".join([*notes, *([version.reason] if version.reason else []), *version.failures])


def _version_row(version: Version, axis: Axis) -> Markup:
    begin = version.begin
    assert begin

    def at(moment: Moment) -> float:
        return seconds_between(begin.at_ns, moment.at_ns)

    def lasted(moment: Moment) -> str:
        """Of what was seen between two looks, the longest that it can have been."""
        longest = span(at(moment) + begin.within_ns / 1e9)
        return f"within {longest}" if moment.within_ns or begin.within_ns else f"after {longest}"

    drawn: list[Content] = []
    last = max(version.moments, key=lambda moment: moment.at_ns)
    drawn.append(bar(axis, 0, at(last), "track", f"{version.title}: all that is known of it", top=11, height=4, kind="whole"))
    marks = []
    for level, reached in ((level, version.reached[level]) for level in LEVELS if level in version.reached):
        if reached.within_ns:
            title = f"level {level}: not before the look before"
            drawn.append(bar(axis, max(at(reached) - reached.within_ns / 1e9, 0), at(reached), f"{level} range", title, top=10, height=6, kind="within"))
        marks.append(mark(axis, at(reached), level, f"level {level} {lasted(reached)}"))
    if version.captured:
        fill = "begun range" if version.captured.within_ns else "begun"
        drawn.append(bar(axis, 0, at(version.captured), fill, f"captured by all ranks {lasted(version.captured)}", top=7, height=12))
    drawn += marks
    label = [tag("bdi", short(version.title)), tag("small", f"{size(version.bytes)}, {count(version.ranks, 'rank')}")]
    highest = version.reached.get(version.level)
    value: list[Content] = [f"{version.level} {lasted(highest)}" if highest else version.level or "not known to be safe"]
    if version.state and version.state != "complete":
        value.append(tag("small", version.state))
    return row(label, axis, drawn, value)


# ---- Ranks ----

@dataclasses.dataclass
class Group:
    """Some ranks that share a row."""

    first: int
    last: int
    images: list[Image]

    @property
    def title(self) -> str:
        return f"rank {self.first}" if self.first == self.last else f"ranks {self.first}–{self.last}"

    @property
    def nodes(self) -> list[str]:
        return sorted({image.node for image in self.images if image.node})


def groups_of(version: Version) -> list[Group]:
    """At most GROUPS_MAX, each of as many ranks that follow each other."""
    ranks = max(version.ranks, 1 + max((image.rank for image in version.images), default=0))
    each = -(-ranks // GROUPS_MAX)
    groups = [Group(first, min(first + each, ranks) - 1, []) for first in range(0, ranks, each)]
    for image in version.images:
        groups[image.rank // each].images.append(image)
    return groups


def versions_with_ranks(job: Job) -> list[Version]:
    """Of each checkpoint name the newest of whose ranks it is known exactly when they captured, or else within two looks."""
    exact_ones: dict[str, Version] = {}
    seen_ones: dict[str, Version] = {}
    for version in job.versions:
        captured = [image.captured for image in version.images if image.captured]
        if captured:
            (seen_ones if any(moment.within_ns for moment in captured) else exact_ones).setdefault(version.name, version)
    return list((seen_ones | exact_ones).values())[:4]


def ranks_picture(version: Version) -> list[Content]:
    """A row for each rank, or for some together: when they had captured, and their images were stored."""
    captured = [image.captured.at_ns for image in version.images if image.captured]
    begin_ns = version.begin.at_ns if version.begin else min(captured)
    ends = [*captured, *(image.stored.at_ns for image in version.images if image.stored)]
    axis = axis_of_spans(seconds_between(begin_ns, max(ends)))
    groups = groups_of(version)
    together = "" if all(group.first == group.last for group in groups) else f", {groups[0].last - groups[0].first + 1} to a row"
    since = "after a look first saw it" if begin_ns < min(captured) else "after the first of them"
    reached = version.reached.get("store")
    stored = f" The version was in the store after {span(seconds_between(begin_ns, reached.at_ns))}." if reached else ""
    description = f"{short(version.title, 60)}: when the images of {count(version.ranks, 'rank')} were captured{together}, {since}.{stored}"
    keys = [("begun", "captured, by the last rank of the row")]
    keys += [("bar begun", "from the first rank of the row to the last")] if together else []
    keys += [("store", "image in the store")] if any(image.stored for image in version.images) else []
    head = ["Rank", "Node", "Bytes", "Captured", "Image in the store", "Takes there", "Shared", "Zeros"]
    listed = version.images[:TABLE_MAX]
    body = [[str(image.rank), image.node or "not known", size(image.bytes), told(image.captured), told(image.stored),
             "not known" if image.stored_bytes is None else size(image.stored_bytes), size(image.shared_bytes), size(image.zero_bytes)]
            for image in listed]  # fmt: skip
    summary = f"{'All' if len(listed) == len(version.images) else f'The first {len(listed):,}'} images of {short(version.title, 60)}"
    name = "ranks-" + "-".join(map(str, version.key[1:]))
    rows = [_group_row(group, axis, begin_ns) for group in groups]
    return [figure(name, description, [*rows, axis_row(axis, thin=True)], key(*keys)), table(head, body, (0, 2, 5, 6, 7), summary)]


def _group_row(group: Group, axis: Axis, begin_ns: int) -> Markup:
    captured = sorted(seconds_between(begin_ns, image.captured.at_ns) for image in group.images if image.captured)
    stored = sorted(seconds_between(begin_ns, image.stored.at_ns) for image in group.images if image.stored)
    drawn: list[Content] = [bar(axis, 0, max([*captured, *stored], default=0.0), "track", group.title, top=9, height=4, kind="whole")]
    if captured:
        title = f"{group.title}: captured " + (span(captured[0]) if len(captured) == 1 else f"from {span(captured[0])} to {span(captured[-1])}")
        drawn += [bar(axis, captured[0], captured[-1], "begun", title, top=6, height=10), mark(axis, captured[-1], "begun", title, middle=11, radius=4)]
    if stored:
        drawn.append(mark(axis, stored[-1], "store", f"{group.title}: in the store after {span(stored[-1])}", middle=11, radius=4))
    label: list[Content] = [group.title, tag("small", tag("bdi", ", ".join(group.nodes[:2]) + (" …" if len(group.nodes) > 2 else ""))) if group.nodes else ""]
    missing = group.last - group.first + 1 - len(group.images)
    value = f"{missing} missing" if missing else size(sum(image.bytes for image in group.images))
    return row(label, axis, drawn, value, height=22, thin=True)
