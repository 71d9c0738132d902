"""Who listens between a burst buffer and its clients reads nothing of what is sealed (net.encrypt)."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from buffers import MIB
from hosts import as_user, in_own_network, needs_networks

TESTS = Path(__file__).parents[1]
FILE_BYTES = 6 * MIB + 12345


def on_the_wire(folder: Path, encrypt: str) -> bytes:
    """What goes over the loopback while files and versions are brought to a burst buffer and back."""
    folder.mkdir()
    content = folder / "content"
    line = b"what a program has computed, and nobody else is to know\n"
    content.write_bytes((line * (FILE_BYTES // len(line) + 1))[:FILE_BYTES])
    environment = os.environ | {
        "KEDGE_NET_ENCRYPT": encrypt,
        "KEDGE_NET_INTERFACE": "127.0.0.1",
        "KEDGE_STORE_PATH": "bb://fast/ckpt",
        "KEDGE_AGENT_IDLE_TIMEOUT": "1s",
        "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path]),
    }
    heard = folder / "heard"
    command = [*in_own_network(), sys.executable, TESTS / "listening.py", heard, *as_user(), sys.executable]
    done = subprocess.run(
        [*map(str, command), str(TESTS / "buffer/steps/sealed.py"), str(folder / "buffer"), str(content)],
        env=environment, capture_output=True, text=True, timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return heard.read_bytes()


@needs_networks
def test_nobody_reads_on_the_wire_what_a_buffer_and_its_clients_seal(run_folder: Path, tmp_path: Path) -> None:
    """Files and versions, both ways. They shrink to nothing when they are compressed; what is sealed looks like noise."""
    clear = on_the_wire(tmp_path / "clear", "false")
    sealed = on_the_wire(tmp_path / "sealed", "true")
    for wire in (clear, sealed):
        assert len(wire) > 5 * FILE_BYTES
    assert len(zlib.compress(clear)) < 0.1 * len(clear)
    assert len(zlib.compress(sealed)) > 0.98 * len(sealed)
    assert b"nobody else is to know" not in sealed and b"nobody else is to know" in clear
