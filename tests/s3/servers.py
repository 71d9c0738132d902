"""S3 servers on loopback, as the tests start them."""

from __future__ import annotations

import http.client
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from waiting import until

ACCESS_KEY = "kedge-test"
SECRET_KEY = "kedge-test-secret"
BUCKET = "kedge-test"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def versitygw() -> str | None:
    """The server's program: beside this Python, or on PATH."""
    return shutil.which("versitygw", path=str(Path(sys.executable).parent)) or shutil.which("versitygw")


def _answers(port: int, server: subprocess.Popen[bytes]) -> bool:
    assert server.poll() is None, "the S3 server has ended"
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        connection.request("GET", "/")
        connection.getresponse().read()
    except OSError:
        return False
    return True


@contextmanager
def s3_server(kind: str, folder: Path) -> Iterator[str]:
    """Its endpoint. `folder` gets what it writes."""
    port = free_port()
    if kind == "moto":
        command = [sys.executable, str(Path(__file__).parents[1] / "moto_server.py"), str(port)]
    else:
        program = versitygw()
        assert program is not None
        (folder / "buckets").mkdir()
        address = ["--access", ACCESS_KEY, "--secret", SECRET_KEY, "--port", f"127.0.0.1:{port}", "--quiet"]
        command = [program, *address, "posix", str(folder / "buckets")]
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            until(lambda: _answers(port, server), 120)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.kill()
            server.wait()
