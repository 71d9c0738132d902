"""bench/footprint in small: what real agents take of the node's memory stays within the targets. Without the case that is about time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ["BUILD_FOLDER"])


def test_memory_is_in_proportion(tmp_path: Path) -> None:
    cases = [word for case in ("small", "scratches", "only-copy", "page-tables", "cgroup") for word in ("--only", case)]
    done = subprocess.run([sys.executable, ROOT / "bench" / "footprint", *cases, "--jobs", "3", "--group-versions", "8"],
                          env=os.environ | {"TMPDIR": str(tmp_path)}, capture_output=True, text=True, timeout=300)  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines()[2:]]
    assert len(rows) >= 6, done.stdout
    missed = [row for row in rows if row[-1] != "met" and not row[-1].startswith("not run:")]
    assert missed == [], done.stdout
    assert list(tmp_path.iterdir()) == [], "no node is left: what it has in memory goes before its folder on disk"
