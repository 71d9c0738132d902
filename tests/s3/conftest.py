"""Buckets on the servers that the tests start, and jobs' stores in them."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from servers import ACCESS_KEY, BUCKET, SECRET_KEY, s3_server, versitygw


@pytest.fixture(scope="session")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with s3_server("moto", tmp_path_factory.mktemp("moto")) as endpoint:
        connection = http.client.HTTPConnection(urlsplit(endpoint).netloc, timeout=60)
        connection.request("PUT", f"/{BUCKET}")
        assert connection.getresponse().status == 200
        yield endpoint


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if versitygw() is None:
        pytest.skip("this machine has no versitygw (scripts/setup makes it where there is Go)")
    folder = tmp_path_factory.mktemp("versitygw")
    with s3_server("versitygw", folder) as endpoint:
        (folder / "buckets" / BUCKET).mkdir()
        yield endpoint


@pytest.fixture(params=["moto", "gateway"])
def s3_store(
    request: pytest.FixtureRequest, run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> str:
    """The store's path; it is the configuration's, too, and the environment has the keys."""
    endpoint = request.getfixturevalue(request.param)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    path = f"s3://{BUCKET}/{tmp_path.name}?part=5MiB"
    monkeypatch.setenv("KEDGE_STORE_PATH", path)
    return path
