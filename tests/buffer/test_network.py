"""A burst buffer and its client on hosts of their own, whose link is cut while a file is on its way."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from buffers import BIN, Buffer
from hosts import Hosts, needs_networks
from waiting import until

pytestmark = needs_networks
BOUND_SECONDS = 60


@pytest.fixture
def hosts(buffer: Buffer) -> Iterator[Hosts]:
    made = Hosts(buffer.root / "hosts", ["front", "server"], {"server": [*map(str, buffer.command()), "--interface", "10.77.0.2"]})
    try:
        until((buffer.root / "fast.buffer").exists)
        yield made
    finally:
        made.end()


def cp(buffer: Buffer, hosts: Hosts, source: object, target: object) -> subprocess.Popen[str]:
    command = [*hosts.entered(), str(BIN / "kedge"), "cp", "--set", "net.interface=10.77.0.1", str(source), str(target)]
    return subprocess.Popen(command, env=buffer.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def copied(process: subprocess.Popen[str]) -> tuple[int, str]:
    output, error = process.communicate(timeout=BOUND_SECONDS)
    return process.returncode, output + error


def test_a_link_that_is_cut_while_a_file_is_written(buffer: Buffer, hosts: Hosts, content: Path) -> None:
    """The client is told in time, the server gives the file up, and when the link is back all is well."""
    hosts.slow("80mbit")
    writing = cp(buffer, hosts, content, "bb://fast/file")
    until(lambda: [path for path in (buffer.root / "data/owners/alice/incoming").glob("*") if path.stat().st_size > 1 << 20])
    hosts.cut("server")
    begin = time.monotonic()
    code, said = copied(writing)
    assert code in (3, 4) and said, said
    assert time.monotonic() - begin < BOUND_SECONDS
    until(lambda: buffer.files() == [])
    hosts.mend("server")
    code, said = copied(cp(buffer, hosts, content, "bb://fast/file"))
    assert code == 0, said
    back = content.with_name("back")
    code, said = copied(cp(buffer, hosts, "bb://fast/file", back))
    assert code == 0, said
    assert back.read_bytes() == content.read_bytes()


def test_a_link_that_is_cut_while_a_file_is_read(buffer: Buffer, hosts: Hosts, content: Path) -> None:
    code, said = copied(cp(buffer, hosts, content, "bb://fast/file"))
    assert code == 0, said
    hosts.slow("80mbit")
    back = content.with_name("back")
    reading = cp(buffer, hosts, "bb://fast/file", back)
    until(lambda: list(content.parent.glob("*back*")))
    hosts.cut("server")
    code, said = copied(reading)
    assert code in (3, 4) and said, said
    assert not back.exists() and not list(content.parent.glob("*back*"))
    until(lambda: buffer.state()["being_read"] == 0)
