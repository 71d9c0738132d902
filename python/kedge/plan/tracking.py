"""What page tracking (capture.track) saves of a checkpoint, and what it costs the application between two: pure arithmetic.

A tracked page costs a fault when it is first written after a checkpoint; at the next checkpoint a scan finds it, and the run of pages
that it belongs to is copied. What was not written is neither read nor copied. So it pays where the copy that is saved takes longer
than faults, scan and runs.
"""

from __future__ import annotations

from dataclasses import dataclass

from kedge.plan.errors import PlanError

# Measured on Linux 6.18 with pages of 4 KiB: a fault of userfaultfd's asynchronous write protection, a scan that finds nothing, and
# what each run adds that is found, protected again and copied by itself (docs/performance.md, Page tracking).
FAULT_SECONDS = 0.7e-6
SCAN_SECONDS_PER_BYTE = 0.45e-3 / 2**30
RUN_SECONDS = 3e-6
PAGE_BYTES = 4096
# Of steps that take longer by more, `capture.track = auto` leaves the memory alone.
SLOWDOWN_MAX = 0.03


@dataclass(frozen=True)
class Costs:
    """``copy_bytes_per_second``: of a checkpoint's copy, by all threads of a rank. ``run_pages``: written pages that follow each other."""

    copy_bytes_per_second: float = 10e9
    run_pages: float = 1.0
    fault_seconds: float = FAULT_SECONDS
    run_seconds: float = RUN_SECONDS
    scan_seconds_per_byte: float = SCAN_SECONDS_PER_BYTE
    page_bytes: float = PAGE_BYTES

    @property
    def page_seconds(self) -> float:
        """Of a page that is written, beside its copy: at the write, and at the checkpoint."""
        return self.fault_seconds + self.run_seconds / self.run_pages


@dataclass(frozen=True)
class Tracked:
    """What follows from the part ``written`` of the memory between two checkpoints.

    ``plain_seconds`` and ``blocked_seconds``: of a call without and with tracking. ``fault_seconds``: that computing takes longer
    between two. ``slowdown``: these, as part of the interval.
    """

    written: float
    plain_seconds: float
    blocked_seconds: float
    fault_seconds: float
    slowdown: float

    @property
    def saved_seconds(self) -> float:
        """Of a checkpoint and the interval before it together; less than 0: it costs more than it saves."""
        return self.plain_seconds - self.blocked_seconds - self.fault_seconds

    @property
    def pays(self) -> bool:
        """Whether it saves something, and steps are not much longer, so that `auto` keeps it."""
        return self.saved_seconds > 0 and self.slowdown <= SLOWDOWN_MAX


def tracked(image_bytes: float, written: float, interval_seconds: float, costs: Costs) -> Tracked:
    """Of a rank's image, of whose pages the part ``written`` is written in each interval."""
    if not 0 <= written <= 1:
        raise PlanError("--written", written, "a part from 0 to 1")
    pages = written * image_bytes / costs.page_bytes
    plain = image_bytes / costs.copy_bytes_per_second
    scan = image_bytes * costs.scan_seconds_per_byte + pages * costs.run_seconds / costs.run_pages
    faults = pages * costs.fault_seconds
    return Tracked(written, plain, scan + written * plain, faults, faults / interval_seconds)


def break_even(costs: Costs) -> float:
    """The part of the pages that may be written at most for tracking to save something, whatever the size of the image."""
    plain = 1 / costs.copy_bytes_per_second
    return max(0.0, (plain - costs.scan_seconds_per_byte) / (plain + costs.page_seconds / costs.page_bytes))
