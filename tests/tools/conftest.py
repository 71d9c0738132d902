"""The store that the tests of the kedge command look into."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kedge import Context, Level


@pytest.fixture
def store(tmp_path: Path, run_folder: Path) -> Path:
    """A store with three versions of "heat" (two are kept) and one of "other"."""
    temperature = np.asfortranarray(np.arange(24.0).reshape(2, 3, 4))
    flags = np.array([True, False, True])
    with Context("climate", settings={"job.lease": "1s"}) as context:
        context.protect(0, temperature, "temperature")
        context.protect(1, flags, "flags")
        for version in (10, 20, 30):
            temperature[0, 0, 0] = version
            with context.checkpoint_parts("heat", version) as checkpoint:
                checkpoint.part()
                checkpoint.annotate("step", str(version))
            context.wait("heat", version, Level.STORE)
        context.checkpoint("other", 1)
    return tmp_path / "store"
