"""A burst buffer before a bucket: its server brings the versions there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from buffers import MIB, Buffer
from servers import BUCKET
from tool import kedge, kedge_json

from kedge import Context, Level


def test_a_burst_buffer_brings_versions_to_a_bucket(
    s3_store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end_own_agent: Callable[[], None]
) -> None:
    buffer = Buffer(tmp_path / "buffer")
    buffer.configure(monkeypatch, f"bb://fast/ckpt?drain={quote(s3_store, safe='/:')}")
    array = np.zeros(MIB)
    with buffer.server("--drain", f"alice:s3://{BUCKET}"):
        with Context("climate", settings={"job.lease": "2s", "keep.versions": 1}) as context:
            context.protect(0, array)
            for version in (1, 2):
                array[:] = np.random.default_rng(version).random(array.size)
                context.checkpoint("heat", version)
                context.wait("heat", version, Level.STORE)
        end_own_agent()
    # Retention has taken the first one from both.
    assert [version["version"] for version in kedge_json("ls", "heat", "--store", s3_store)["versions"]] == [2]
    kedge("verify", "--store", s3_store)
