"""The pictures of amounts: blocked time and time to the levels, throughput, and space."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence

from kedge.report.markup import Content, Markup, tag
from kedge.report.model import LEVELS, Job, Node, Sample, Spent, Tier, Version
from kedge.report.strips import Axis, axis_of_amounts, axis_of_instants, axis_of_spans, axis_row, bar, figure, key, percent, row, table, when
from kedge.report.units import count, rate, short, size, span

NODES_MAX = 12  # whose space has rows: those that are fullest
VERSIONS_MAX = 12  # whose space has a row
BINS_MAX = 120  # of a course over time
DOTS_MAX = 600  # of such a course
_PLOT_HEIGHT = 88

Points = list[tuple[float, float]]  # seconds since 1970, value


# ---- Blocked ----

def blocked_picture(job: Job) -> list[Content]:
    """How long calls blocked, and how long it took to the levels, on average."""
    blocked = job.spent("blocked")
    if not blocked.count:
        why = "no agent that was looked at has seen a checkpoint of the job" if job.nodes else "no agent was looked at"
        return [tag("p", f"Not recorded: {why}.", class_="quiet")]
    entries = [("call blocks", "begun", blocked)]
    entries += [(f"until level {level}", level, job.spent("reached", level)) for level in LEVELS if level != "local"]
    entries = [(label, class_, spent) for label, class_, spent in entries if spent.count]
    axis = axis_of_spans(max(spent.mean or 0.0 for _, _, spent in entries))
    rows = [_spent_row(axis, *entry) for entry in entries]
    measured = f"times from the call on, as {count(len(job.nodes), 'agent')} measured them"
    description = f"Calls for a checkpoint, and the levels that their versions reached: {measured}."
    body = [[label, span(spent.mean or 0.0), span(spent.seconds), f"{spent.count:,}"] for label, _, spent in entries]
    return [
        figure("blocked", description, [*rows, axis_row(axis)]),
        *_course_of_blocked(job),
        table(["What", "Mean", "Together", "Times"], body, (1, 2, 3)),
    ]


def _spent_row(axis: Axis, label: str, class_: str, spent: Spent) -> Markup:
    mean = spent.mean or 0.0
    return row([label, tag("small", f"mean of {spent.count:,}")], axis, [bar(axis, 0, mean, class_, f"{label}: {span(mean)}")], span(mean))


def _course_of_blocked(job: Job) -> list[Content]:
    """Of looks that follow each other: what the calls between two blocked on average."""
    def mean(before: Sample, after: Sample) -> float | None:
        calls = after.blocked_calls - before.blocked_calls
        return (after.blocked_seconds - before.blocked_seconds) / calls if calls > 0 else None

    points = sorted((after.at_ns / 1e9, value) for node in job.nodes for before, after in pairs_of(node) if (value := mean(before, after)) is not None)
    if len(points) < 2:
        return []
    axis, largest = axis_of_instants(int(points[0][0] * 1e9), int(points[-1][0] * 1e9)), max(value for _, value in points) or 1.0
    dots = [
        tag("circle", tag("title", span(value)), class_="dot begun", cx=percent(axis.at(at)), cy=_PLOT_HEIGHT * (1 - 0.92 * value / largest), r=2.5)
        for at, value in points[:: 1 + len(points) // DOTS_MAX]
    ]
    strip = tag("svg", dots, height=_PLOT_HEIGHT, class_="plot", aria_hidden="true", focusable="false")
    return [_plotted("blocked-course", "The mean of the calls between two looks of a node, over time (UTC).", axis, strip, span(largest))]


def pairs_of(node: Node) -> Iterable[tuple[Sample, Sample]]:
    """Looks that follow each other, but where another agent has begun to count anew."""
    return ((before, after) for before, after in zip(node.samples, node.samples[1:], strict=False) if _goes_on(before, after))


def _goes_on(before: Sample, after: Sample) -> bool:
    return after.captured_bytes >= before.captured_bytes and after.flushed_bytes >= before.flushed_bytes and after.blocked_calls >= before.blocked_calls


# ---- Throughput ----

def throughput_picture(job: Job) -> list[Content]:
    """What one writer got of each tier, against the prediction; the store; and the course over time."""
    if not job.nodes:
        return [tag("p", "Not recorded: no agent was looked at.", class_="quiet")]
    tiers: dict[str, list[Tier]] = {}
    for node in job.nodes:
        for tier in node.tiers:
            tiers.setdefault(tier.name, []).append(tier)
    entries: list[tuple[str, str, str, list[float], list[float]]] = []
    for name, those in tiers.items():
        observed = [tier.observed_bytes_per_second for tier in those if tier.observed_bytes_per_second]
        predicted = [tier.predicted_bytes_per_second for tier in those if tier.predicted_bytes_per_second]
        entries.append((name, those[0].kind, "local", observed, predicted))
    entries.append(("store", "one flush", "store", [node.flush_bytes_per_second for node in job.nodes if node.flush_bytes_per_second], []))
    largest = max((value for *_, observed, predicted in entries for value in (*observed, *predicted)), default=0.0)
    if not largest:
        return [tag("p", "No tier has been judged yet: no chunk of a checkpoint was long enough.", class_="quiet")]
    axis = axis_of_amounts(largest, rate)
    rows = [_rate_row(axis, *entry) for entry in entries]
    keys = [("bar local", "what one writer got of a tier"), ("bar store", "what one flush got of the store")]
    if any(predicted for *_, predicted in entries):
        keys.append(("bar rule-sample", "as it was predicted"))
    description = "Means of what one writer got, and of one flush to the store" + (f", over {count(len(job.nodes), 'node')}." if len(job.nodes) > 1 else ".")
    body = [[name, kind, _mean_of(observed), _mean_of(predicted), _range_of(observed)] for name, kind, _, observed, predicted in entries]
    return [figure("throughput", description, [*rows, axis_row(axis)], key(*keys)), *_course_of_bytes(job),
            table(["Tier", "Kind", "One writer got", "Predicted", "From node to node"], body, (2, 3))]  # fmt: skip


def _mean_of(values: Sequence[float]) -> str:
    return rate(statistics.fmean(values)) if values else "nothing known"


def _range_of(values: Sequence[float]) -> str:
    return f"{rate(min(values))} to {rate(max(values))}" if len(values) > 1 else ""


def _rate_row(axis: Axis, name: str, kind: str, class_: str, observed: list[float], predicted: list[float]) -> Markup:
    drawn: list[Content] = []
    if observed:
        drawn.append(bar(axis, 0, statistics.fmean(observed), class_, f"{name}: {_mean_of(observed)}"))
    if len(observed) > 1:
        drawn.append(bar(axis, min(observed), max(observed), "begun range", f"{name}: {_range_of(observed)}", top=11, height=4, kind="spread"))
    if predicted:
        at = percent(axis.at(statistics.fmean(predicted)))
        drawn.append(tag("line", tag("title", f"predicted: {_mean_of(predicted)}"), class_="rule", x1=at, x2=at, y1=3, y2=23))
    return row([tag("bdi", name), tag("small", kind)], axis, drawn, _mean_of(observed))


def _course_of_bytes(job: Job) -> list[Content]:
    captured = _summed(job.nodes, lambda sample: sample.captured_bytes)
    flushed = _summed(job.nodes, lambda sample: sample.flushed_bytes)
    if len(captured) < 2:
        return []
    whole = "Bytes a second of all nodes together, between looks, over time (UTC)."
    return [course("bytes-course", whole, [("local", captured), ("store", flushed)], rate), key(("bar local", "captured"), ("bar store", "written to the store"))]


def _summed(nodes: Sequence[Node], of: Callable[[Sample], int]) -> Points:
    """Over all nodes, in bins of time: what each counted between two looks, spread evenly over the bins between them."""
    pairs = [pair for node in nodes for pair in pairs_of(node)]
    if not pairs:
        return []
    begin, end = min(before.at_ns for before, _ in pairs), max(after.at_ns for _, after in pairs)
    bins = min(BINS_MAX, max(len(node.samples) for node in nodes) - 1)
    width = (end - begin) / bins
    sums = [0.0] * bins
    for before, after in pairs:
        lasts, amount = after.at_ns - before.at_ns, of(after) - of(before)
        for number in range(min(int((before.at_ns - begin) / width), bins - 1), min(int((after.at_ns - begin) / width), bins - 1) + 1):
            covered = min(after.at_ns, begin + (number + 1) * width) - max(before.at_ns, begin + number * width)
            sums[number] += amount * max(covered, 0.0) / lasts
    return [((begin + (number + 0.5) * width) / 1e9, amount / (width / 1e9)) for number, amount in enumerate(sums)]


def course(name: str, description: str, traces: Sequence[tuple[str, Points]], named: Callable[[float], str]) -> Markup:
    """Lines over time. Each trace has its class."""
    points = [point for _, trace in traces for point in trace]
    axis = axis_of_instants(int(min(at for at, _ in points) * 1e9), int(max(at for at, _ in points) * 1e9))
    largest = max(value for _, value in points) or 1.0
    lines = []
    for class_, trace in traces:
        path = " ".join(f"{axis.at(at) * 10:.1f},{100 - 96 * value / largest:.1f}" for at, value in trace)
        lines.append(tag("polyline", points=path, class_=f"trace {class_}"))
    stretched = {"viewBox": "0 0 1000 100", "preserveAspectRatio": "none"}
    strip = tag("svg", lines, height=_PLOT_HEIGHT, class_="plot", aria_hidden="true", focusable="false", **stretched)
    return _plotted(name, description, axis, strip, named(largest))


def _plotted(name: str, description: str, axis: Axis, strip: Markup, largest: str) -> Markup:
    plot = tag("div", tag("div", "up to", tag("small", largest), class_="label"), strip, tag("div", class_="value"), class_="row")
    return figure(name, description, [plot, axis_row(axis)])


# ---- Space ----

def space_picture(job: Job) -> list[Content]:
    """What versions take in the store, and what is in use on the nodes."""
    parts: list[Content] = []
    sized = [version for version in job.versions if version.stored_bytes is not None]
    if sized:
        parts += _store_space(job, sized)
    elif job.store_is_read:
        parts.append(tag("p", "No version in the store of which all images could be read.", class_="quiet"))
    if job.nodes:
        parts += _node_space(job.nodes)
    else:
        parts.append(tag("p", "Of the nodes not recorded: no agent was looked at.", class_="quiet"))
    return parts


def _store_space(job: Job, sized: list[Version]) -> list[Content]:
    shown = sized[:VERSIONS_MAX]
    axis = axis_of_amounts(max(max(version.stored_bytes or 0, version.bytes) for version in shown), size)
    rows = [_stored_row(axis, version) for version in shown]
    together = sum(version.stored_bytes or 0 for version in sized)
    room = f" Its file system has {size(job.store_free_bytes)} free of {size(job.store_room_bytes or 0)}." if job.store_free_bytes is not None else ""
    description = f"{count(len(sized), 'version')} of the job take {size(together)} in the store.{room}"
    keys = [("bar store", "taken in the store")]
    if any(version.bytes > (version.stored_bytes or 0) for version in shown):
        keys.append(("bar track-sample", "not written: shared, zeros, or compressed away"))
    body = [[tag("bdi", version.title), size(version.bytes), size(version.stored_bytes or 0), size(sum(image.shared_bytes for image in version.images)),
             size(sum(image.zero_bytes for image in version.images))] for version in sized]  # fmt: skip
    return [figure("store-space", description, [*rows, axis_row(axis)], key(*keys)),
            table(["Version", "Bytes", "Taken in the store", "Shared with earlier ones", "Zeros"], body, (1, 2, 3, 4))]  # fmt: skip


def _stored_row(axis: Axis, version: Version) -> Markup:
    taken = version.stored_bytes or 0
    drawn: list[Content] = []
    if version.bytes > taken:
        drawn.append(bar(axis, 0, version.bytes, "saved", f"{version.title}: {size(version.bytes)} of memory", kind="whole"))
    drawn.append(bar(axis, 0, taken, "store", f"{version.title}: {size(taken)} in the store"))
    return row(tag("bdi", short(version.title)), axis, drawn, [size(taken), tag("small", f"of {size(version.bytes)}") if version.bytes > taken else ""])


def _fill(node: Node) -> float:
    return max((tier.used_bytes / tier.capacity_bytes for tier in node.tiers if tier.capacity_bytes), default=0.0)


def _node_space(nodes: list[Node]) -> list[Content]:
    shown = sorted(sorted(nodes, key=lambda node: node.name), key=_fill, reverse=True)[:NODES_MAX]
    rows: list[Content] = []
    axis = Axis(0.0, 100.0, 25.0, lambda value: f"{value:.0f}%")
    for node in sorted(shown, key=lambda node: node.name):
        rows += [_tier_row(axis, node, tier) for tier in node.tiers]
    which = f"the {len(shown)} fullest of {len(nodes)} nodes" if len(nodes) > len(shown) else count(len(nodes), "node")
    keys = key(("bar local", "in use"), ("bar begun range", "versions that may go when room is wanted"))
    body = [[tag("bdi", node.name), tag("bdi", tier.name), tier.kind, size(tier.used_bytes), size(tier.cached_bytes), size(tier.capacity_bytes),
             size(node.memory_bytes), size(node.memory_ceiling_bytes), when(node.last_ns)] for node in nodes for tier in node.tiers]  # fmt: skip
    return [figure("node-space", f"Slots of the tiers of {which}, at the last look.", [*rows, axis_row(axis)], keys),
            table(["Node", "Tier", "Kind", "Slots in use", "That may go", "Of", "Memory taken", "Of at most", "At"], body, (3, 4, 5, 6, 7))]  # fmt: skip


def _tier_row(axis: Axis, node: Node, tier: Tier) -> Markup:
    whole = max(tier.capacity_bytes, 1)
    used, cached = 100.0 * tier.used_bytes / whole, 100.0 * tier.cached_bytes / whole
    drawn: list[Content] = [bar(axis, 0, 100, "track", f"{tier.name}: {size(tier.capacity_bytes)} in all", kind="whole")]
    if tier.used_bytes:
        drawn.append(bar(axis, 0, used, "bad" if tier.lost else "local", f"{tier.name} of {node.name}: {size(tier.used_bytes)} in use"))
    if tier.cached_bytes:
        drawn.append(bar(axis, used, used + cached, "begun range", f"{tier.name} of {node.name}: {size(tier.cached_bytes)} may go", kind="cached"))
    state = "lost" if tier.lost else f"{size(tier.used_bytes)} of {size(tier.capacity_bytes)}"
    return row([tag("bdi", short(tier.name)), tag("small", tag("bdi", short(node.name)))], axis, drawn, state)
