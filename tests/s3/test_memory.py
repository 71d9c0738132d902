"""A flush to a bucket holds no more in memory than the parts that may be in flight, and a tenth of that."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from memory import Most, private_bytes

from kedge import Context, Level

pytestmark = pytest.mark.slow
MIB = 1 << 20
PART_MIB, CONNECTIONS = 8, 8
FLUSHED_MIB = 512


def test_a_flush_holds_the_parts_in_flight(
    s3_store: str, own_agent_pid: Callable[[], int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEDGE_STORE_PATH", s3_store.replace("part=5MiB", f"part={PART_MIB}MiB&connections={CONNECTIONS}"))
    monkeypatch.setenv("KEDGE_POOL_SIZE", f"{FLUSHED_MIB + 128}MiB")
    with Context("memory", settings={"keep.versions": 1}) as context:
        small = np.ones(1000)
        context.protect(0, small)
        context.checkpoint("m", 1)
        context.wait("m", 1, Level.STORE)  # threads and connections are there
        large = np.random.default_rng(1).integers(0, 255, FLUSHED_MIB * MIB, dtype=np.uint8)
        context.protect(1, large)
        agent = own_agent_pid()
        assert agent is not None
        before = private_bytes(agent)
        with Most(lambda: private_bytes(agent)) as during:
            context.checkpoint("m", 2)
            context.wait("m", 2, Level.STORE)
    held = during.most - before
    print(f"held {held / MIB:.1f} MiB beyond {before / MIB:.1f} MiB")
    in_flight = PART_MIB * CONNECTIONS * MIB
    assert held > in_flight // 4, "what is measured is not where the parts lie"
    assert held < in_flight * 11 // 10
