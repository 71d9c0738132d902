"""sealed.py ROOT CONTENT: a burst buffer, and who brings a file there and back, and versions of a job. All of it is checked."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
from buffers import Buffer

from kedge import BurstBuffer, Context, Level


def main(root: Path, content: Path) -> None:
    buffer = Buffer(root)
    expected = content.read_bytes()
    with buffer.server():
        os.environ.update({key: value for key, value in buffer.environment().items() if key.startswith("KEDGE_BUFFER_")})
        put = buffer.kedge("cp", content, "bb://fast/file")
        assert put.code == 0, put.error
        assert buffer.kedge("cp", "bb://fast/file", root / "back").code == 0 and (root / "back").read_bytes() == expected
        with BurstBuffer("fast") as fast:
            with fast.open("other", "wb") as file:
                file.write(expected[:-5])  # at once
                file.write(expected[-5:])
            with fast.open("other") as file:
                assert file.read() == expected
                file.seek(3 << 20)
                assert file.read(1 << 20) == expected[3 << 20 : 4 << 20]
        array = np.frombuffer(expected, dtype=np.uint8).copy()
        saved = array.copy()
        with Context("sealed") as context:
            context.protect(0, array)
            context.checkpoint("heat", 1)
            context.wait("heat", 1, Level.STORE)
        read = buffer.kedge("export", "heat@1", "--region", "0", "-o", root / "region.npy", "--job", "sealed")
        assert read.code == 0, read.error
        assert (np.load(root / "region.npy") == saved).all()
        assert buffer.kedge("verify").code == 0


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
